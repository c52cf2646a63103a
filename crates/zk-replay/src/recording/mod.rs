//! Runs of a session as data: prompts, answers, calls and results, in stored order.

mod read;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde_json::Value;
use zk_core::model::{
    CallId, Message, Model, ModelRef, RunId, ThinkingLevel, ToolCall, ToolContent, ToolResult, TurnId,
    TurnUsage,
};
use zk_core::service::{RunStatus, is_dynamic_context};

use crate::log::{PartFacts, Verdict};

/// Runs of a session, as a replay follows them and a comparison reads them. Pure data, read from entries.
///
/// ```
/// use zk_core::model::Message;
/// use zk_core::service::{Entry, EntryKind};
/// use zk_replay::Recording;
///
/// let message = Message::user_text("hi").shared();
/// let kinds = [EntryKind::RunStart { run_id: "r_1".into() }, EntryKind::Message { message, usage: None }];
/// let entries: Vec<Entry> = (1..).zip(kinds).map(|(n, kind)| Entry {
///     id: format!("e_{n}").as_str().into(),
///     parent: None,
///     time_ms: n,
///     kind,
/// }).collect();
/// let recording = Recording::of(&entries);
/// assert_eq!(recording.runs[0].prompt().unwrap().text(), "hi");
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recording {
    /// The runs, oldest first.
    pub runs: Vec<RecordedRun>,
    /// Metadata of the models that answered, as far as the session has it.
    pub models: Vec<Model>,
}

/// One run of a recording: everything that one prompt caused.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecordedRun {
    /// Id of the run; `None` for messages outside of any.
    pub id: Option<RunId>,
    /// Time of its first entry, in milliseconds since 1970.
    pub time_ms: u64,
    /// Model and thinking level that were chosen before it.
    pub model: Option<ModelRef>,
    /// Thinking level that was chosen before it.
    pub thinking: ThinkingLevel,
    /// Messages before the first answer: the prompt, and what was attached to it.
    pub opening: Vec<Arc<Message>>,
    /// Answers with their results, in order.
    pub turns: Vec<RecordedTurn>,
    /// Outcome; `None` for a run that was interrupted.
    pub end: Option<RunStatus>,
    /// Requests, if the session has their digests.
    pub(crate) requests: Option<Vec<RecordedRequest>>,
    /// Answers to side calls, with the digest of each request.
    pub(crate) side_calls: Vec<(String, String)>,
    /// Compactions in the run, and between it and the run before.
    pub(crate) compactions: Vec<RecordedCompaction>,
    /// Changes of the window between this run and the one before.
    pub(crate) window_steps: Vec<WindowStep>,
}

/// Change of the context window by a person, between two runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WindowStep {
    /// The compaction of this number.
    Reduce { number: u32 },
    /// Undo of the last compaction.
    Restore,
}

/// One answer of a model, with the results of its calls.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedTurn {
    /// Id of the turn, if the session has it.
    pub id: Option<TurnId>,
    /// The answer.
    pub answer: Arc<Message>,
    /// Usage of the answer.
    pub usage: Option<TurnUsage>,
    /// Calls of the answer, in order.
    pub calls: Vec<RecordedCall>,
    /// Messages that joined the conversation after the answer and its results, in the same run.
    pub then: Vec<Arc<Message>>,
    /// Whether the process died before all results were stored.
    pub is_cut_off: bool,
}

/// One call of an answer, with its outcome.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedCall {
    /// The call as the model made it.
    pub call: ToolCall,
    /// Final arguments, after preparation.
    pub args: Value,
    /// Whether the call began.
    pub began: bool,
    /// Whether the call began and ended.
    pub ended: bool,
    /// Result for the model.
    pub result: Option<ToolResult>,
    /// Original result of the tool, if a handler changed it.
    pub raw: Option<ToolContent>,
    /// Display form of the result.
    pub display: Option<zk_core::model::Display>,
    /// Structured data of the tool.
    pub details: Option<Value>,
    /// Decision of the permission gate, if the session has it.
    pub verdict: Option<Verdict>,
}

/// One request, by its digests.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RecordedRequest {
    pub(crate) turn_id: TurnId,
    pub(crate) model: ModelRef,
    pub(crate) thinking: ThinkingLevel,
    pub(crate) system: Arc<[PartFacts]>,
    pub(crate) tools: Arc<[PartFacts]>,
    /// Digests of the messages, which requests of one run share.
    pub(crate) messages: Vec<Arc<PartFacts>>,
}

/// One reduction of the context.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RecordedCompaction {
    /// Number of answers of the run before it.
    pub(crate) after_turns: usize,
    pub(crate) strategy: String,
    /// Text that replaced the beginning.
    pub(crate) text: String,
}

impl Recording {
    /// Number of answers in all runs.
    #[must_use]
    pub fn turns(&self) -> usize {
        self.runs.iter().map(|run| run.turns.len()).sum()
    }

    /// Whether requests and permission verdicts can be compared, at least those of some runs.
    #[must_use]
    pub fn has_requests(&self) -> bool {
        self.runs.iter().any(RecordedRun::has_requests)
    }

    /// Metadata of a model; tolerant defaults for one that the session does not know.
    #[must_use]
    pub fn model(&self, reference: &ModelRef) -> Model {
        let known = self.models.iter().rev().find(|model| model.reference() == *reference);
        known.cloned().unwrap_or_else(|| Model::unknown(&*reference.provider, &*reference.model))
    }

    /// Whether a person was there to be asked, as far as the session has verdicts.
    #[must_use]
    pub fn had_person(&self) -> bool {
        let calls = self.runs.iter().flat_map(|run| &run.turns).flat_map(|turn| &turn.calls);
        let mut verdicts = calls.filter_map(|call| call.verdict.as_ref());
        !verdicts.any(|verdict| verdict.by == zk_core::events::DecidedBy::Nobody)
    }

    /// Names of the providers that answered, in the order of their first answer.
    #[must_use]
    pub fn providers(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for run in &self.runs {
            let answers = run.turns.iter().filter_map(|turn| turn.answer.origin.as_ref());
            for reference in run.model.iter().chain(answers) {
                if !names.iter().any(|name| *name == *reference.provider) {
                    names.push(reference.provider.to_string());
                }
            }
        }
        names
    }

    /// Whether a request offered a tool of this name; `None` if no request was recorded.
    #[must_use]
    pub fn offers_tool(&self, name: &str) -> Option<bool> {
        let mut requests = self.runs.iter().filter_map(|run| run.requests.as_ref()).flatten().peekable();
        requests.peek()?;
        Some(requests.any(|request| request.tools.iter().any(|tool| tool.name == name)))
    }
}

impl RecordedRun {
    /// Whether the digests of the run's requests are known.
    #[must_use]
    pub fn has_requests(&self) -> bool {
        self.requests.is_some()
    }

    /// Message that the person began the run with; `None` for a run that continued an earlier one.
    #[must_use]
    pub fn prompt(&self) -> Option<&Arc<Message>> {
        self.opening.iter().rev().find(|message| message.injected_by.is_none())
    }

    /// Number of requests of a turn, if known.
    pub(crate) fn requests_of(&self, turn: &TurnId) -> usize {
        let requests = self.requests.iter().flatten();
        requests.filter(|request| request.turn_id == *turn).count().max(1)
    }

    /// Time of the run.
    #[must_use]
    pub fn time(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_millis(self.time_ms)
    }

    /// Model of the first answer, or else the one that was chosen.
    #[must_use]
    pub fn first_model(&self) -> Option<&ModelRef> {
        self.model.as_ref().or_else(|| self.turns.iter().find_map(|turn| turn.answer.origin.as_ref()))
    }
}

impl RecordedTurn {
    /// Messages from outside of the loop after the turn: steering and follow-ups.
    pub(crate) fn messages_from_outside(&self) -> impl Iterator<Item = &Arc<Message>> {
        self.then.iter().filter(|message| is_from_outside(message))
    }

    /// Call that ended last in the order of the answer.
    pub(crate) fn last_ended(&self) -> Option<usize> {
        self.calls.iter().rposition(|call| call.ended)
    }
}

impl RecordedCall {
    /// Id of the call.
    #[must_use]
    pub fn id(&self) -> &CallId {
        &self.call.id
    }
}

/// Authors of messages that neither the loop nor a plugin of it writes again in a replay: the person, the person's commands, hooks,
/// background commands, and moves of the leaf.
const OUTSIDE_AUTHORS: [&str; 6] = ["steer", "follow-up", "user:bash", "hooks", "jobs", BRANCH_SUMMARY];

/// Author of the summary of a branch that was left.
pub(crate) const BRANCH_SUMMARY: &str = "branch";

/// Whether the message came from outside of the loop, so that a replay has to deliver it.
pub(crate) fn is_from_outside(message: &Message) -> bool {
    message.injected_by.as_deref().is_none_or(|author| OUTSIDE_AUTHORS.contains(&author))
}

/// Whether the message is context that zk reads anew for each prompt.
pub(crate) fn is_context(message: &Message) -> bool {
    message.injected_by.as_deref() == Some(zk_core::service::QUERY_CONTEXT)
}

/// Returns what a person said in a message, without the context that zk added.
pub(crate) fn prompt_blocks(message: &Message) -> Vec<zk_core::model::Block> {
    let own =
        message.content.iter().filter(|block| zk_core::service::is_said(block) && !is_dynamic_context(block));
    own.cloned().collect()
}
