//! Records that a view stores about a run, in addition to its messages, so that the stored session shows the
//! same blocks.

use std::borrow::Cow;
use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use zk_core::events::DecidedBy;
use zk_core::model::{CallId, CallKind, Display, RunId, TurnId};
use zk_core::service::{CustomEntry, Entry, EntryKind, NewEntry};

use crate::blocks::call::CallState;
use crate::queues::Queues;
use crate::{Block, Lines, RunEnd};

/// Source name of the entries that this crate stores.
pub(crate) const SOURCE: &str = "zk-view";
const KIND: &str = "run";
const VERSION: u32 = 1;

/// Stored record of a run: in one entry at the run's end, or in several entries before it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct RunRecord {
    pub(crate) run_id: Option<RunId>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) turns: Vec<TurnRecord>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) plugins: Vec<PluginRecord>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) agents: Vec<AgentRecord>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) end: Option<RunEnd>,
}

/// Run id of a serialised [`RunRecord`], parsed without its other fields.
#[derive(Deserialize)]
struct RunOf<'a> {
    #[serde(borrow)]
    run_id: Option<Cow<'a, str>>,
}

/// Stored record of one answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct TurnRecord {
    /// Index of the answer within the run.
    pub(crate) answer: u32,
    /// Texts as shown, if they differ from the model's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) texts: Option<Vec<String>>,
    /// Milliseconds of each part in which the model reasoned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) thoughts_ms: Vec<u64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) calls: Vec<CallFact>,
}

/// Facts of a call besides its arguments and its result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct CallFact {
    pub(crate) call_id: CallId,
    /// Final state of a call that did not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) state: Option<CallState>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) summary: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) display: Option<Display>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) elapsed_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "CallKind::is_other")]
    pub(crate) kind: CallKind,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) locations: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) line: Option<u64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) remarks: Vec<String>,
    /// Source and reasons of a refusal, kept until it is certain that the call does not run.
    #[serde(skip)]
    pub(crate) refused_by: Option<(DecidedBy, Vec<String>)>,
    /// Whether the session stores the summary, display and duration itself.
    #[serde(skip)]
    pub(crate) is_stored: bool,
    #[serde(skip)]
    pub(crate) is_running: bool,
}

/// Stored block of a plugin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PluginRecord {
    /// Number of the run's blocks before this one.
    pub(crate) at: u64,
    pub(crate) source: String,
    pub(crate) kind: String,
    pub(crate) title: String,
    pub(crate) body: Display,
    /// Whether the block shows an entry of the plugin that the session also stores.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_entry: bool,
}

/// Stored block of a sub-agent, whose conversation is not stored anywhere else.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct AgentRecord {
    /// Number of the run's blocks before this one, including those of sub-agents.
    pub(crate) at: u64,
    pub(crate) block: Block,
    /// All lines of the block's body, if the block holds only a part of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) lines: Option<Lines>,
}

impl CallFact {
    pub(crate) fn new(call_id: CallId) -> Self {
        Self {
            call_id,
            state: None,
            reason: None,
            summary: None,
            display: None,
            elapsed_ms: None,
            kind: CallKind::Other,
            locations: Vec::new(),
            line: None,
            remarks: Vec::new(),
            refused_by: None,
            is_stored: false,
            is_running: false,
        }
    }
}

impl RunRecord {
    /// Entry to store; `None` if the record is empty.
    pub(crate) fn entry(&self) -> Option<NewEntry> {
        let mut record = self.clone();
        // Facts of calls that ran are stored with their results already.
        for fact in record.turns.iter_mut().flat_map(|turn| &mut turn.calls).filter(|fact| fact.is_stored) {
            (fact.summary, fact.display, fact.elapsed_ms) = (None, None, None);
        }
        Some(NewEntry::hidden(KIND, VERSION, serde_json::to_value(record).ok()?))
    }

    /// Whether it has data that the session does not store otherwise.
    pub(crate) fn has_unstored_data(&self) -> bool {
        let says_more = |fact: &CallFact| {
            fact.state.is_some()
                || fact.reason.is_some()
                || !fact.kind.is_other()
                || !fact.remarks.is_empty()
                || !fact.is_stored
        };
        !self.agents.is_empty()
            || self.turns.iter().any(|turn| turn.texts.is_some() || turn.calls.iter().any(says_more))
    }

    /// Merges the data of another entry of this run.
    fn add(&mut self, more: Self) {
        self.run_id = more.run_id.or(self.run_id.take());
        self.turns.extend(more.turns);
        self.plugins.extend(more.plugins);
        self.agents.extend(more.agents);
        self.end = more.end.or(self.end.take());
    }

    /// Serialises the record; `None` if that fails.
    pub(crate) fn to_custom_entry(&self) -> Option<CustomEntry> {
        let NewEntry { kind, version, data, audience } = self.entry()?;
        Some(CustomEntry { source: SOURCE.to_owned(), kind, version, data: data.into(), audience })
    }

    fn from_custom_entry(entry: &CustomEntry) -> Option<Self> {
        entry.data.read().ok()
    }

    /// Run id of a stored record; `None` for entries of other plugins.
    fn run_id_of(entry: &CustomEntry) -> Option<Cow<'_, str>> {
        let is_ours = entry.source == SOURCE && entry.kind == KIND && entry.version == VERSION;
        let run: RunOf<'_> = is_ours.then(|| serde_json::from_str(entry.data.as_json()).ok())??;
        run.run_id
    }
}

/// Records in a stored session, and the session's own facts of calls that ran.
#[derive(Debug, Default)]
pub(crate) struct Records<'a> {
    /// Stored entries by run id. Parsed when the run is restored, so that parsed records are not all in memory at once.
    runs: HashMap<Cow<'a, str>, Vec<&'a CustomEntry>>,
    calls: HashMap<TurnId, Queues<CallId, StoredCall>>,
}

/// Facts that the session stores beside a call's result.
#[derive(Clone, Debug)]
pub(crate) struct StoredCall {
    pub(crate) summary: Option<String>,
    pub(crate) display: Option<Display>,
    pub(crate) elapsed_ms: Option<u64>,
}

impl<'a> Records<'a> {
    pub(crate) fn of(entries: &'a [Entry]) -> Self {
        let mut records = Self::default();
        for entry in entries {
            match &entry.kind {
                EntryKind::Custom(custom) => {
                    let Some(run_id) = RunRecord::run_id_of(custom) else { continue };
                    records.runs.entry(run_id).or_insert_with(|| Vec::with_capacity(1)).push(custom);
                }
                EntryKind::CallEnd { turn_id, call_id, summary, display, elapsed_ms, .. }
                | EntryKind::CallData { turn_id, call_id, summary, display, elapsed_ms, .. } => {
                    let (summary, display, elapsed_ms) =
                        (summary.clone(), display.as_deref().cloned(), Some(*elapsed_ms));
                    let call = StoredCall { summary, display, elapsed_ms };
                    records.calls.entry(turn_id.clone()).or_default().push(call_id.clone(), call);
                }
                EntryKind::Message { .. }
                | EntryKind::Usage { .. }
                | EntryKind::Leaf { .. }
                | EntryKind::Label { .. }
                | EntryKind::Model { .. }
                | EntryKind::Thinking { .. }
                | EntryKind::RunStart { .. }
                | EntryKind::RunEnd { .. }
                | EntryKind::OpenTurn { .. }
                | EntryKind::CallBegin { .. } => {}
            }
        }
        records
    }

    /// Record of a run; empty if there is none.
    pub(crate) fn take_run(&mut self, run_id: &RunId) -> RunRecord {
        let mut record = RunRecord::default();
        let kept = self.runs.remove(run_id.as_str()).unwrap_or_default();
        kept.into_iter().filter_map(RunRecord::from_custom_entry).for_each(|more| record.add(more));
        record
    }

    /// Takes the stored facts of the next call with this id in a turn.
    pub(crate) fn take_call(&mut self, turn_id: &TurnId, call_id: &CallId) -> Option<StoredCall> {
        self.calls.get_mut(turn_id)?.take(call_id)
    }
}
