use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::diff_text::{DiffText, shows_value};
use super::question::{Answer, Approval, WiderKind};
use super::visible::{visible_line, visible_lines};
use crate::model::{Display, Effect, Effects};

/// Question about a call in words, equal on every screen and front-end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ApprovalCard {
    /// Kind of the question.
    pub kind: AskedKind,
    /// The question, in a sentence.
    pub title: String,
    /// Everything that will run, the most telling part first.
    pub parts: Vec<CardPart>,
    /// Remarks on the effect of choices, one line each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
    /// Reasons for the question, whole, in a line each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
    /// All choices, first those with their own row.
    pub choices: Vec<CardChoice>,
}

/// Kind of a question about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum AskedKind {
    /// A command leaves the sandbox or container.
    Outside,
    /// A command needs connections, which its sandbox has not.
    Network,
    /// A command runs.
    Command,
    /// A file is changed.
    Edit,
    /// A file is made.
    Create,
    /// A file is read.
    Read,
    /// A host is connected to.
    Fetch,
    /// Call of an unknown tool.
    Tool,
}

/// Part of the call to show.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CardPart {
    /// Form of the lines.
    pub kind: PartKind,
    /// Name of the argument, path of a diff, or empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub heading: String,
    /// The lines, everything in them visible.
    pub lines: Vec<String>,
}

/// Form of the lines of a [`CardPart`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum PartKind {
    /// A command, as the shell gets it.
    Command,
    /// A unified difference.
    Diff,
    /// Purpose of a call as claimed by the model. Not verified.
    ModelSays,
    /// A fact of the program's own.
    Fact,
    /// The text of an argument.
    Text,
    /// An argument as JSON.
    Json,
    /// The tool's drawing of the call.
    Preview,
}

/// An answer that a question offers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CardChoice {
    /// Key that selects the choice.
    pub key: char,
    /// Answer. A refusal with a message does not contain it yet.
    pub answer: Answer,
    /// Text of the choice.
    pub text: String,
    /// Description of the calls allowed from then on; `None` for this call only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allows: Option<String>,
    /// Text shown after the choice was made.
    pub done: String,
    /// Whether the choice has its own row; the others share one.
    pub is_row: bool,
}

/// Key of a refusal with a message to the model.
pub const WORDS_KEY: char = 'w';

const OUTSIDE_TITLE: &str = "Run OUTSIDE the sandbox? It gets the network and all your files.";
const NETWORK_TITLE: &str = "Needs the network, which the sandbox has not: allow it for this command?";
const COMMAND_TITLE: &str = "Run this command?";
const JOB_TITLE: &str = "Run this command in the background?";
const DETACHED_TITLE: &str = "Run this command in the background, where it goes on after zk ends?";
const OUTSIDE_PROJECT: &str = " It is outside this project.";
const WORDS_TEXT: &str = "No, and tell it what to do instead";

impl Approval {
    /// The question as a person reads it.
    #[must_use]
    pub fn card(&self) -> ApprovalCard {
        let kind = self.kind();
        let warnings = self.wider.iter().chain(&self.more).filter_map(|wider| wider.warning.clone());
        ApprovalCard {
            kind,
            title: self.title(kind),
            parts: self.parts(kind),
            remarks: warnings.collect(),
            reasons: self.reasons.iter().map(|reason| reason_line(reason)).collect(),
            choices: self.choices(kind),
        }
    }

    /// The kind of the question.
    #[must_use]
    pub fn kind(&self) -> AskedKind {
        if self.effects.leaves_context() {
            return AskedKind::Outside;
        }
        let Effects::Known { list } = &self.effects else { return AskedKind::Tool };
        let has = |is: fn(&Effect) -> bool| list.iter().any(is);
        if has(|effect| matches!(effect, Effect::Executes { command: Some(_), .. })) {
            return if self.connections.is_some() { AskedKind::Network } else { AskedKind::Command };
        }
        if has(|effect| matches!(effect, Effect::Executes { .. })) {
            return AskedKind::Tool;
        }
        if has(|effect| matches!(effect, Effect::Writes { .. })) {
            let makes = self.preview_diff().is_some_and(|diff| diff.created_lines().is_some());
            return if makes { AskedKind::Create } else { AskedKind::Edit };
        }
        if has(|effect| matches!(effect, Effect::Network { .. })) {
            return AskedKind::Fetch;
        }
        if list.is_empty() { AskedKind::Tool } else { AskedKind::Read }
    }

    fn preview_diff(&self) -> Option<DiffText<'_>> {
        match &self.preview {
            Some(Display::Diff { path, diff }) => Some(DiffText::new(path, diff)),
            _ => None,
        }
    }

    fn has_true_argument(&self, flag: &str) -> bool {
        self.args.get(flag).and_then(Value::as_bool) == Some(true)
    }

    fn title(&self, kind: AskedKind) -> String {
        let tool = visible_line(&self.tool);
        match kind {
            AskedKind::Outside => OUTSIDE_TITLE.to_owned(),
            AskedKind::Network => NETWORK_TITLE.to_owned(),
            AskedKind::Command if self.has_true_argument("detach") => DETACHED_TITLE.to_owned(),
            AskedKind::Command if self.has_true_argument("background") => JOB_TITLE.to_owned(),
            AskedKind::Command => COMMAND_TITLE.to_owned(),
            AskedKind::Create => {
                let diff = self.preview_diff();
                let lines = diff.as_ref().and_then(DiffText::created_lines).unwrap_or_default();
                let lines = if lines == 1 { "1 line".to_owned() } else { format!("{lines} lines") };
                format!("Create {} ({lines})?", self.describe_files(diff.as_ref()))
            }
            AskedKind::Edit => {
                let diff = self.preview_diff();
                let counts = diff.as_ref().map(DiffText::line_counts);
                let counts = counts.map_or(String::new(), |(added, gone)| format!("   +{added} −{gone}"));
                format!("Edit {}?{counts}", self.describe_files(diff.as_ref()))
            }
            AskedKind::Read => {
                let is_outside = self.reasons.iter().any(|reason| reason.contains("outside"));
                let outside = if is_outside { OUTSIDE_PROJECT } else { "" };
                format!("Read {}?{outside}", self.describe_files(None))
            }
            AskedKind::Fetch => match self.network_hosts().as_slice() {
                [] => format!("Let `{tool}` connect to the network?"),
                hosts => format!("Connect to {}?", visible_line(&hosts.join(", "))),
            },
            AskedKind::Tool => match tool.strip_prefix(crate::service::SERVER_TOOL_PREFIX) {
                Some(name) => format!("Call the MCP tool {name}?"),
                None => format!("Call the tool {tool}?"),
            },
        }
    }

    fn network_hosts(&self) -> Vec<&str> {
        let Effects::Known { list } = &self.effects else { return Vec::new() };
        let hosts = list.iter().filter_map(|effect| match effect {
            Effect::Network { hosts } => Some(hosts),
            _ => None,
        });
        hosts.flatten().map(String::as_str).collect()
    }

    /// Returns a short description of the files that the call is about.
    fn describe_files(&self, diff: Option<&DiffText<'_>>) -> String {
        if let Some(diff) = diff {
            return visible_line(diff.path());
        }
        let paths = self.effects.locations();
        match paths.as_slice() {
            [] => "files".to_owned(),
            [only] => visible_line(&only.path.display().to_string()),
            several => format!("{} files", several.len()),
        }
    }

    /// Returns the parts of the call to show, without arguments that the diff already shows.
    fn parts(&self, kind: AskedKind) -> Vec<CardPart> {
        let part = |kind, heading: &str, lines| CardPart { kind, heading: visible_line(heading), lines };
        let fact = |text: String| part(PartKind::Fact, "", vec![text]);
        let diff = self.preview_diff();
        let mut parts = Vec::new();
        let command = match kind {
            AskedKind::Outside | AskedKind::Network | AskedKind::Command => {
                self.args.get("command").and_then(Value::as_str)
            }
            _ => None,
        };
        if let Some(command) = command {
            parts.push(part(PartKind::Command, "", visible_lines(command)));
        }
        let asked = self.args.pointer("/outside/reason").and_then(Value::as_str);
        let is_only_reason =
            self.args.get("outside").and_then(Value::as_object).is_some_and(|all| all.len() == 1);
        match (kind, asked) {
            (AskedKind::Outside, Some(reason)) => {
                parts.push(part(PartKind::ModelSays, "", vec![visible_line(reason)]));
            }
            (AskedKind::Outside, None) => {
                parts.extend(self.program_reason().map(|reason| fact(visible_line(reason))))
            }
            _ => {}
        }
        if let Some(connections) = &self.connections {
            parts.push(fact(format!(
                "it stays in the sandbox, connected to {}",
                visible_line(&connections.to_string())
            )));
        }
        if let Some(connections) = self.contained.as_ref().filter(|_| kind == AskedKind::Outside) {
            parts.push(fact(format!(
                "with the network only: connected to {}",
                visible_line(&connections.to_string())
            )));
        }
        let drawn = self.sections().into_iter().next_back().filter(|_| self.preview.is_some());
        match drawn {
            Some(drawn) if diff.is_some() => {
                let path = diff.as_ref().map(|diff| diff.path()).unwrap_or_default();
                parts.insert(0, part(PartKind::Diff, path, drawn.lines));
            }
            // The preview only repeats a reason that is shown already.
            Some(drawn) if self.program_reason().is_some_and(|own| drawn.lines == visible_lines(own)) => {}
            Some(drawn) => parts.push(part(PartKind::Preview, "", drawn.lines)),
            None => {}
        }
        let is_drawn = |name: &str, value: &Value| {
            let is_command = name == "command" && command.is_some();
            let is_reason =
                name == "outside" && kind == AskedKind::Outside && asked.is_some() && is_only_reason;
            let is_changing = matches!(kind, AskedKind::Edit | AskedKind::Create);
            is_command
                || is_reason
                || diff.as_ref().is_some_and(|diff| is_changing && shows_value(value, diff))
        };
        match &self.args {
            Value::Object(args) => {
                parts.extend(args.iter().filter(|(name, value)| !is_drawn(name, value)).map(argument_part));
            }
            other => parts.push(argument_part((&"arguments".to_owned(), other))),
        }
        parts
    }

    /// Returns the program's own reason for which a call can only run outside of the sandbox.
    fn program_reason(&self) -> Option<&str> {
        let Effects::Known { list } = &self.effects else { return None };
        let asked = self.args.pointer("/outside/reason").and_then(Value::as_str);
        list.iter().find_map(|effect| match effect {
            Effect::LeavesContext { reason } if asked.is_none() => Some(reason.as_str()),
            _ => None,
        })
    }

    fn choices(&self, kind: AskedKind) -> Vec<CardChoice> {
        let once = |key, answer, text: &str, done: &str| CardChoice {
            key,
            answer,
            text: text.to_owned(),
            allows: None,
            done: done.to_owned(),
            is_row: true,
        };
        let mut choices = match (kind, &self.contained) {
            (AskedKind::Outside, Some(_)) => vec![
                once(
                    'y',
                    Answer::Contained,
                    "Yes, once, with the network only (still in the sandbox)",
                    "allowed once, with the network only",
                ),
                once('o', Answer::Once, "Yes, once, outside", "allowed once, outside the sandbox"),
            ],
            (AskedKind::Outside, None) => {
                vec![once('y', Answer::Once, "Yes, once, outside", "allowed once, outside the sandbox")]
            }
            (AskedKind::Network, _) => {
                vec![once('y', Answer::Once, "Yes, for this command", "allowed once, with the network")]
            }
            _ => vec![once('y', Answer::Once, "Yes", "allowed once")],
        };
        let mut beside = Vec::new();
        let more = self
            .more
            .iter()
            .enumerate()
            .map(|(index, wider)| (wider, Answer::MoreSession { index }, Answer::MoreAlways { index }));
        let wider = self.wider.iter().map(|wider| (wider, Answer::WiderSession, Answer::WiderAlways));
        for (wider, session, always) in wider.chain(more) {
            let label = visible_line(if wider.label.is_empty() { &wider.allows } else { &wider.label });
            // A small screen has no room for remarks, but tells what a choice allows.
            let allows = match &wider.warning {
                Some(warning) => format!("{}. {warning}", wider.allows),
                None => wider.allows.clone(),
            };
            let yes = match wider.kind {
                WiderKind::ProjectCode => "Yes, and don't ask again for",
                WiderKind::Prefix | WiderKind::Directory | WiderKind::Tool | WiderKind::Server => "Yes, and",
            };
            choices.push(CardChoice {
                key: wider.kind.key(),
                answer: session,
                text: format!("{yes} {label} this session"),
                allows: Some(allows.clone()),
                done: format!("allowed: {label}, this session"),
                is_row: true,
            });
            beside.push(CardChoice {
                key: wider.kind.key().to_ascii_uppercase(),
                answer: always,
                text: format!("{yes} {label} always"),
                allows: Some(allows),
                done: format!("allowed: {label}, always"),
                is_row: false,
            });
        }
        choices.push(once(WORDS_KEY, Answer::No { message: None }, WORDS_TEXT, "no"));
        choices.push(once('n', Answer::No { message: None }, "No", "not allowed"));
        choices.append(&mut beside);
        if let Some(allows) = &self.session {
            choices.push(CardChoice {
                key: 's',
                answer: Answer::Session,
                text: "exactly this, this session".to_owned(),
                allows: Some(allows.clone()),
                done: "allowed: exactly this, this session".to_owned(),
                is_row: false,
            });
        }
        if let Some(allows) = &self.always {
            choices.push(CardChoice {
                key: 'a',
                answer: Answer::Always,
                text: "exactly this, always".to_owned(),
                allows: Some(allows.clone()),
                done: "allowed: exactly this, always".to_owned(),
                is_row: false,
            });
        }
        choices
    }
}

fn argument_part((name, value): (&String, &Value)) -> CardPart {
    let (kind, lines) = match value {
        Value::String(text) => (PartKind::Text, visible_lines(text)),
        other => (PartKind::Json, visible_lines(&format!("{other:#}"))),
    };
    CardPart { kind, heading: visible_line(name), lines }
}

/// Converts a reason to one line, without the prefix `ask: `, which is redundant in a question.
fn reason_line(reason: &str) -> String {
    let reason = reason.strip_prefix("ask: ").unwrap_or(reason);
    visible_line(&reason.split_whitespace().collect::<Vec<_>>().join(" "))
}
