//! Interpretation of a hook's exit code and output.

use serde::Deserialize;
use serde_json::Value;
use zk_core::service::Exit;

use super::config::CommandHook;
use super::event::HookEvent;
use super::failure::HookFailure;
use super::process::Printed;
use super::quote_line;

/// Exit code for a refusal.
const BLOCK_EXIT_CODE: i32 = 2;

/// Parsed answer of a hook.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct HookReply {
    pub(super) verdict: Verdict,
    /// Reason why the run has to end, if it has to.
    pub(super) stop: Option<String>,
    /// Message for the person.
    pub(super) message: Option<String>,
    /// Context for the model.
    pub(super) context: Option<String>,
    /// Changed input of the call, in the hook's vocabulary.
    pub(super) updated_input: Option<Value>,
    /// Replacement for the call's result.
    pub(super) updated_output: Option<String>,
}

/// Verdict of a hook. Among several, the last in this list wins.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Verdict {
    /// No verdict.
    #[default]
    None,
    /// Allow without a question.
    Allow,
    /// Ask the person, with this reason.
    Ask(String),
    /// Refuse, with this reason.
    Block(String),
}

/// JSON of the standard output. Other fields have no effect.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Output {
    r#continue: Option<bool>,
    stop_reason: Option<String>,
    system_message: Option<String>,
    decision: Option<OldDecision>,
    reason: Option<String>,
    hook_specific_output: Option<Specific>,
    r#async: bool,
}

/// Value of the older field `decision`, which stands beside `hookSpecificOutput`.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum OldDecision {
    #[serde(alias = "allow")]
    Approve,
    #[serde(alias = "deny")]
    Block,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Specific {
    hook_event_name: Option<String>,
    permission_decision: Option<PermissionDecision>,
    permission_decision_reason: Option<String>,
    updated_input: Option<Value>,
    additional_context: Option<String>,
    updated_tool_output: Option<Value>,
    decision: Option<RequestDecision>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum PermissionDecision {
    Allow,
    Deny,
    Ask,
}

/// Decision of a `PermissionRequest` hook.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RequestDecision {
    behavior: Behavior,
    message: Option<String>,
    updated_input: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Behavior {
    Allow,
    Deny,
}

/// Interprets the answer of a hook that ended by itself.
pub(super) fn read(hook: &CommandHook, printed: &Printed) -> Result<HookReply, HookFailure> {
    let command = || quote_line(&hook.command);
    let said = printed.stderr.trim();
    match printed.exit {
        Exit::Code(0) => read_output(hook.event, &printed.stdout)
            .map_err(|why| HookFailure::Garbage { command: command(), why }),
        Exit::Code(BLOCK_EXIT_CODE) => {
            let reason = if said.is_empty() {
                format!("the hook `{}` refused it", command())
            } else {
                said.to_owned()
            };
            Ok(HookReply { verdict: Verdict::Block(reason), ..HookReply::default() })
        }
        Exit::Code(_) | Exit::Signal(_) | Exit::TimedOut | Exit::Stopped => {
            let how = match printed.exit {
                Exit::Code(code) => format!("ended with exit code {code}"),
                Exit::Signal(signal) => format!("was ended by signal {signal}"),
                Exit::TimedOut | Exit::Stopped => "was ended".to_owned(),
            };
            let last = said.lines().next_back().map(|line| format!(" (it said: {})", quote_line(line)));
            Err(HookFailure::Ended { command: command(), how, said: last.unwrap_or_default() })
        }
    }
}

fn read_output(event: HookEvent, stdout: &[u8]) -> Result<HookReply, String> {
    let text = std::str::from_utf8(stdout).map_err(|_| "it is not UTF-8".to_owned())?.trim();
    if text.is_empty() {
        return Ok(HookReply::default());
    }
    if !text.starts_with('{') {
        return if event.takes_text() {
            Ok(HookReply { context: Some(text.to_owned()), ..HookReply::default() })
        } else if event.is_gate() {
            Err(format!("`{}` is no JSON object; words to the person go to standard error", quote_line(text)))
        } else {
            Ok(HookReply::default())
        };
    }
    let output: Output = serde_json::from_str(text).map_err(|error| error.to_string())?;
    reply_from_output(event, output)
}

fn reply_from_output(event: HookEvent, output: Output) -> Result<HookReply, String> {
    if output.r#async && event.is_gate() {
        return Err("it says that it answers later, and zk waits for its hooks".to_owned());
    }
    let reason = output.reason;
    let mut verdict = match output.decision {
        None => Verdict::None,
        Some(OldDecision::Approve) => Verdict::Allow,
        Some(OldDecision::Block) => Verdict::Block(reason.clone().unwrap_or_else(no_reason)),
    };
    let specific = output.hook_specific_output.unwrap_or_default();
    if let Some(name) = specific.hook_event_name.filter(|name| name != event.name()) {
        return Err(format!("it answers `{name}`, and was asked about `{event}`"));
    }
    if let Some(decision) = specific.permission_decision {
        let why = || specific.permission_decision_reason.clone().or(reason.clone()).unwrap_or_else(no_reason);
        verdict = verdict.max(match decision {
            PermissionDecision::Allow => Verdict::Allow,
            PermissionDecision::Ask => Verdict::Ask(why()),
            PermissionDecision::Deny => Verdict::Block(why()),
        });
    }
    if let Some(RequestDecision { behavior, message, updated_input }) = specific.decision {
        if updated_input.is_some() {
            return Err(
                "it changes the input of a call that was judged already; a hook of PreToolUse can".to_owned()
            );
        }
        verdict = verdict.max(match behavior {
            Behavior::Allow => Verdict::Allow,
            Behavior::Deny => Verdict::Block(message.unwrap_or_else(no_reason)),
        });
    }
    let stop = (output.r#continue == Some(false)).then(|| output.stop_reason.unwrap_or_else(no_reason));
    let updated_output = specific.updated_tool_output.map(|output| match output {
        Value::String(text) => text,
        other => other.to_string(),
    });
    Ok(HookReply {
        verdict,
        stop,
        message: output.system_message,
        context: specific.additional_context,
        updated_input: specific.updated_input,
        updated_output,
    })
}

fn no_reason() -> String {
    "a hook said so and gave no reason".to_owned()
}
