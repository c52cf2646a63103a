use serde::{Deserialize, Serialize};
use serde_json::Value;
use zk_core::events::{DecidedBy, PermissionDecided};
use zk_core::model::{CallId, Model, ModelRef, RunId, ThinkingLevel, ToolContent, TurnId};
use zk_core::service::{CustomEntry, Entry, EntryKind};

/// [`kind`](CustomEntry::kind) of the entries of a [`ReplayLog`](crate::ReplayLog).
pub const REPLAY_ENTRY: &str = "replay";

/// Version of the data in a [`REPLAY_ENTRY`].
pub const REPLAY_ENTRY_VERSION: u32 = 1;

/// Name of the plugin that writes these entries.
pub(crate) const SOURCE: &str = "replay-log";

/// Facts of one run that a comparison needs and a session has nowhere else.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct RunFacts {
    pub(crate) run_id: Option<RunId>,
    pub(crate) requests: Vec<RequestFacts>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) calls: Vec<CallFacts>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) side_calls: Vec<SideCallFacts>,
    /// Side calls between this run and the one before.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) side_calls_before: Vec<SideCallFacts>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) models: Vec<Model>,
    /// Whether data was left out because of a limit.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_cut: bool,
}

/// Digests of one request. A part that equals that of the request before in the run is `None`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RequestFacts {
    pub(crate) turn_id: TurnId,
    pub(crate) model: ModelRef,
    #[serde(default)]
    pub(crate) thinking: ThinkingLevel,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) system: Option<Vec<PartFacts>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tools: Option<Vec<PartFacts>>,
    /// Number of leading messages that the request before has too.
    #[serde(default)]
    pub(crate) kept: usize,
    /// Digests of the messages after the first `kept` ones.
    #[serde(default)]
    pub(crate) messages: Vec<PartFacts>,
}

/// Name, size and digest of one section, tool or message; the name of a message is its role.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PartFacts {
    pub(crate) name: String,
    pub(crate) bytes: usize,
    pub(crate) digest: String,
}

/// Facts of one call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct CallFacts {
    pub(crate) turn_id: TurnId,
    pub(crate) call_id: CallId,
    /// Final arguments, if they differ from those of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) args: Option<Value>,
    /// Original result of the tool, if a handler changed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) raw: Option<ToolContent>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) verdict: Option<Verdict>,
}

/// Answer to a side call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SideCallFacts {
    /// Digest of the request's messages.
    pub(crate) request: String,
    pub(crate) text: String,
}

/// Decision of a permission gate about a call.
///
/// ```
/// use zk_core::events::DecidedBy;
/// use zk_replay::Verdict;
///
/// let verdict = Verdict { allowed: true, by: DecidedBy::Person, reasons: Vec::new() };
/// assert_eq!(verdict.to_string(), "a person allowed it");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// Whether the call may run.
    pub allowed: bool,
    /// Authority that decided.
    pub by: DecidedBy,
    /// First reasons of the decision.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
}

/// Number of reasons that are kept of a decision.
const MAX_REASONS: usize = 4;

/// Longest reason that is kept, in characters.
const MAX_REASON_CHARS: usize = 240;

impl Verdict {
    /// Verdict of a decision, with its first reasons.
    #[must_use]
    pub fn of(decided: &PermissionDecided) -> Self {
        let reasons = decided.reasons.iter().take(MAX_REASONS);
        let reasons = reasons.map(|reason| reason.chars().take(MAX_REASON_CHARS).collect()).collect();
        Self { allowed: decided.allowed, by: decided.by, reasons }
    }
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match (self.by, self.allowed) {
            (DecidedBy::Policy, true) => "the rules allowed it",
            (DecidedBy::Policy, false) => "the rules refused it",
            (DecidedBy::EarlierAnswer, true) => "an earlier answer allowed it",
            (DecidedBy::EarlierAnswer, false) => "an earlier answer refused it",
            (DecidedBy::Plugin, true) => "a plugin allowed it",
            (DecidedBy::Plugin, false) => "a plugin refused it",
            (DecidedBy::Person, true) => "a person allowed it",
            (DecidedBy::Person, false) => "a person refused it",
            (DecidedBy::Nobody, true) => "it was allowed without an answer",
            (DecidedBy::Nobody, false) => "nobody answered, so it was refused",
        })
    }
}

impl RunFacts {
    /// Reads the facts in a plugin's entry; `None` for another entry, or of another version.
    pub(crate) fn of(entry: &CustomEntry) -> Option<Self> {
        let is_facts =
            entry.source == SOURCE && entry.kind == REPLAY_ENTRY && entry.version == REPLAY_ENTRY_VERSION;
        is_facts.then(|| entry.data.read().ok()).flatten()
    }

    /// Facts of all runs of a session, in order.
    pub(crate) fn all(entries: &[Entry]) -> Vec<Self> {
        let custom = entries.iter().filter_map(|entry| match &entry.kind {
            EntryKind::Custom(custom) => Some(custom),
            _ => None,
        });
        custom.filter_map(Self::of).collect()
    }
}
