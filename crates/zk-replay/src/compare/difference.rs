use std::fmt;

use serde::Serialize;
use zk_core::events::DecidedBy;
use zk_core::model::{CallId, ThinkingLevel};
use zk_core::service::RunStatus;

use crate::log::Verdict;

/// One difference between a recording and its replay. Its text is one line for a person, with text of models and tools in it:
/// clean it before a terminal shows it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// Place in the conversation.
    #[serde(flatten)]
    pub place: Place,
    /// Kind of the difference, with both sides.
    #[serde(flatten)]
    pub change: Change,
}

/// Place in a conversation; numbers begin with 1, and those of turns and requests count through the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    /// Number of the run.
    pub run: usize,
    /// Number of the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn: Option<usize>,
    /// Number of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<usize>,
}

/// Difference of one kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "difference", rename_all = "kebab-case")]
#[expect(
    missing_docs,
    reason = "fields named recorded and replayed are the two sides, call and tool the call"
)]
pub enum Change {
    /// A recorded run was not replayed.
    RunMissing,
    /// The replay has one more run.
    RunAdded,
    /// A recorded answer was not asked for.
    TurnMissing,
    /// The replay has one more answer.
    TurnAdded,
    /// The replay sends one more request.
    RequestAdded,
    /// A run ends otherwise.
    End { recorded: Option<RunStatus>, replayed: Option<RunStatus> },
    /// A recorded message is missing from the replay.
    MessageMissing { by: Option<String>, text: String },
    /// The replay has one more message.
    MessageAdded { by: Option<String>, text: String },
    /// A message has another text, from this line on.
    Message { by: Option<String>, line: usize, recorded: String, replayed: String },
    /// A request goes to another model.
    Model { recorded: String, replayed: String },
    /// A request asks for another amount of reasoning.
    Thinking { recorded: ThinkingLevel, replayed: ThinkingLevel },
    /// A section of the system prompt has another text.
    Section { section: String, recorded_bytes: usize, replayed_bytes: usize },
    /// A section is new.
    SectionAdded { section: String, bytes: usize },
    /// A section is gone.
    SectionRemoved { section: String, bytes: usize },
    /// The sections are in another order.
    SectionOrder,
    /// Other tools are offered.
    Tools { added: Vec<String>, removed: Vec<String>, changed: Vec<String> },
    /// The messages of a request differ, from this one on.
    History {
        message: usize,
        role: String,
        recorded_messages: usize,
        replayed_messages: usize,
        recorded_bytes: Option<usize>,
        replayed_bytes: Option<usize>,
    },
    /// The context is reduced by other strategies at this point.
    Compaction { recorded: Vec<String>, replayed: Vec<String> },
    /// A compaction leaves another text.
    Summary { line: usize, recorded: String, replayed: String },
    /// The answer has another text, from this line on.
    Answer { line: usize, recorded: String, replayed: String },
    /// The answer calls other tools.
    Calls { recorded: Vec<String>, replayed: Vec<String> },
    /// A call has other final arguments, at this JSON pointer.
    Arguments { tool: String, call: CallId, path: String, recorded: String, replayed: String },
    /// A call that ran is refused.
    NowRefused {
        tool: String,
        call: CallId,
        reason: String,
        recorded: Option<Verdict>,
        replayed: Option<Verdict>,
    },
    /// A call that did not run is allowed.
    NowAllowed {
        tool: String,
        call: CallId,
        reason: String,
        recorded: Option<Verdict>,
        replayed: Option<Verdict>,
    },
    /// Another authority decides about a call.
    Verdict { tool: String, call: CallId, recorded: Verdict, replayed: Verdict },
    /// A call runs that has no recorded result.
    NotRecorded { tool: String, call: CallId },
    /// The model gets another result, from this line on.
    Result { tool: String, call: CallId, line: usize, recorded: String, replayed: String },
    /// A result counts as an error, or no longer does.
    ResultKind { tool: String, call: CallId, is_error: bool },
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.place.turn, self.place.request) {
            (Some(turn), _) => write!(f, "turn {turn}: ")?,
            (None, Some(request)) => write!(f, "request {request}: ")?,
            (None, None) => write!(f, "run {}: ", self.place.run)?,
        }
        self.change.fmt(f)
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RunMissing => f.write_str("the recorded run was not replayed"),
            Self::RunAdded => f.write_str("the replay has one more run"),
            Self::TurnMissing => {
                f.write_str("the recorded answer is no longer asked for: the run ends before")
            }
            Self::TurnAdded => f.write_str("the replay has one more answer"),
            Self::RequestAdded => {
                f.write_str("the replay asks the model once more; the recording has no answer to that")
            }
            Self::End { recorded, replayed } => {
                write!(f, "the run {}, and now {}", ending(*recorded), ending(*replayed))
            }
            Self::MessageMissing { by, text } => {
                write!(f, "{} is no longer added: {text}", label_of_message(by.as_ref()))
            }
            Self::MessageAdded { by, text } => {
                write!(f, "{} is added: {text}", label_of_message(by.as_ref()))
            }
            Self::Message { by, line, recorded, replayed } => {
                write!(
                    f,
                    "{} differs in line {line}: {}",
                    label_of_message(by.as_ref()),
                    format_sides(recorded, replayed)
                )
            }
            Self::Model { recorded, replayed } => write!(f, "goes to {replayed} instead of {recorded}"),
            Self::Thinking { recorded, replayed } => {
                write!(f, "asks for thinking {} instead of {}", replayed.as_str(), recorded.as_str())
            }
            Self::Section { section, recorded_bytes, replayed_bytes } => write!(
                f,
                "system prompt differs in section `{section}` ({recorded_bytes} bytes, now {replayed_bytes})"
            ),
            Self::SectionAdded { section, bytes } => {
                write!(f, "system prompt has a new section `{section}` ({bytes} bytes)")
            }
            Self::SectionRemoved { section, bytes } => {
                write!(f, "system prompt lost its section `{section}` ({bytes} bytes)")
            }
            Self::SectionOrder => f.write_str("system prompt has its sections in another order"),
            Self::Tools { added, removed, changed } => write_tools(f, added, removed, changed),
            Self::History {
                message,
                role,
                recorded_messages,
                replayed_messages,
                recorded_bytes,
                replayed_bytes,
            } => {
                write!(f, "history differs from message {message} ({role}) on")?;
                match (recorded_bytes, replayed_bytes) {
                    (Some(one), Some(other)) if one != other => write!(f, ", {one} bytes, now {other}")?,
                    _ => {}
                }
                if recorded_messages != replayed_messages {
                    write!(f, "; it has {replayed_messages} messages instead of {recorded_messages}")?;
                }
                Ok(())
            }
            Self::Compaction { recorded, replayed } => match (recorded.as_slice(), replayed.as_slice()) {
                ([], now) => write!(f, "the context is now reduced here, by {}", now.join(", ")),
                (before, []) => {
                    write!(f, "the context is no longer reduced here, as it was by {}", before.join(", "))
                }
                (before, now) => {
                    write!(f, "the context is reduced by {} instead of {}", now.join(", "), before.join(", "))
                }
            },
            Self::Summary { line, recorded, replayed } => {
                write!(
                    f,
                    "the compaction's text differs in line {line}: {}",
                    format_sides(recorded, replayed)
                )
            }
            Self::Answer { line, recorded, replayed } => {
                write!(f, "the answer differs in line {line}: {}", format_sides(recorded, replayed))
            }
            Self::Calls { recorded, replayed } => {
                let list =
                    |names: &[String]| if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
                write!(f, "the answer calls {} instead of {}", list(replayed), list(recorded))
            }
            Self::Arguments { tool, call, path, recorded, replayed } => {
                let at = if path.is_empty() { String::new() } else { format!(" at {path}") };
                write!(
                    f,
                    "call `{tool}` ({call}): arguments differ{at}: {}",
                    format_sides(recorded, replayed)
                )
            }
            Self::NowRefused { tool, call, reason, recorded, replayed } => {
                write!(f, "call `{tool}` ({call}): ")?;
                match recorded {
                    Some(verdict) => write!(f, "{verdict}")?,
                    None => f.write_str("it ran")?,
                }
                match replayed.as_ref().filter(|verdict| !verdict.allowed) {
                    Some(verdict) => write!(f, ", now {}", now_refused(verdict))?,
                    None => f.write_str(", now it does not run")?,
                }
                write!(f, ": {reason}")
            }
            Self::NowAllowed { tool, call, reason, replayed, .. } => {
                write!(f, "call `{tool}` ({call}): it did not run ({reason}), and would run now")?;
                match replayed.as_ref().filter(|verdict| verdict.allowed) {
                    Some(verdict) => write!(f, ": {verdict}"),
                    None => Ok(()),
                }
            }
            Self::Verdict { tool, call, recorded, replayed } => {
                let now = match replayed.by {
                    DecidedBy::Person => "a person would be asked".to_owned(),
                    DecidedBy::Policy | DecidedBy::EarlierAnswer | DecidedBy::Plugin | DecidedBy::Nobody => {
                        replayed.to_string()
                    }
                };
                write!(f, "call `{tool}` ({call}): {recorded}, now {now}")?;
                match replayed.reasons.first() {
                    Some(reason) => write!(f, " ({reason})"),
                    None => Ok(()),
                }
            }
            Self::NotRecorded { tool, call } => write!(
                f,
                "call `{tool}` ({call}): it has no recorded result, and the model was told so instead"
            ),
            Self::Result { tool, call, line, recorded, replayed } => write!(
                f,
                "call `{tool}` ({call}): the result differs in line {line}: {}",
                format_sides(recorded, replayed)
            ),
            Self::ResultKind { tool, call, is_error } => {
                let how = if *is_error { "now counts as an error" } else { "no longer counts as an error" };
                write!(f, "call `{tool}` ({call}): the result {how}")
            }
        }
    }
}

fn write_tools(
    f: &mut fmt::Formatter<'_>,
    added: &[String],
    removed: &[String],
    changed: &[String],
) -> fmt::Result {
    let mut parts: Vec<String> = added.iter().map(|name| format!("+{name}")).collect();
    parts.extend(removed.iter().map(|name| format!("−{name}")));
    parts.extend(changed.iter().map(|name| format!("{name} has another description or schema")));
    if parts.is_empty() {
        parts.push("another order".to_owned());
    }
    write!(f, "tools changed: {}", parts.join(", "))
}

fn format_sides(recorded: &str, replayed: &str) -> String {
    format!("recorded `{recorded}`, now `{replayed}`")
}

fn label_of_message(by: Option<&String>) -> String {
    match by {
        Some(by) => format!("a message of {by}"),
        None => "the prompt".to_owned(),
    }
}

fn now_refused(verdict: &Verdict) -> &'static str {
    match verdict.by {
        DecidedBy::Policy => "the rules refuse it",
        DecidedBy::EarlierAnswer => "an earlier answer refuses it",
        DecidedBy::Plugin => "a plugin refuses it",
        DecidedBy::Person => "a person would be asked",
        DecidedBy::Nobody => "a person would have to be asked",
    }
}

fn ending(status: Option<RunStatus>) -> &'static str {
    match status {
        Some(RunStatus::Completed) => "completed",
        Some(RunStatus::Aborted) => "was stopped",
        Some(RunStatus::Error) => "failed",
        None => "was interrupted",
    }
}
