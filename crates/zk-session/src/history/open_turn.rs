use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use serde_json::Value;
use zk_core::model::{Block, CallId, Display, Message, ToolCall, ToolContent, ToolResult, TurnId, TurnUsage};
use zk_core::service::EntryKind;

/// Turn whose calls were running when the process died.
#[derive(Clone, Debug, PartialEq)]
pub struct InterruptedTurn {
    /// The turn.
    pub turn_id: TurnId,
    /// Answer that contains the calls.
    pub message: Arc<Message>,
    /// Complete results: the stored ones, and texts about the other calls.
    pub results: Arc<Message>,
    /// The usage of the turn.
    pub usage: TurnUsage,
    /// State of each call, in order.
    pub calls: Vec<InterruptedCall>,
}

/// Call of an interrupted turn.
#[derive(Clone, Debug, PartialEq)]
pub struct InterruptedCall {
    /// Id of the call.
    pub call_id: CallId,
    /// Name of the tool.
    pub name: String,
    /// Arguments with which the call ran; the model's if it did not begin.
    pub args: Value,
    /// State of the call when the process died.
    pub state: CallState,
}

/// Progress of a call when its process died.
#[derive(Clone, Debug, PartialEq)]
pub enum CallState {
    /// Finished, with its result.
    Ended {
        /// Result for the model.
        result: ToolResult,
        /// Display for the person.
        display: Option<Display>,
        /// The tool's own data.
        details: Option<Value>,
    },
    /// Begun and not finished: the call may or may not have taken effect.
    OutcomeUnknown,
    /// Without effect: the call did not begin, or only reads.
    NotRun,
}

const OUTCOME_UNKNOWN: &str = "Outcome unknown: the program ended while this call was running. It may or may not \
                               have taken effect, and it was not run again. Check its effects before you repeat it.";
const NOT_RUN: &str = "Interrupted: the program ended before the result of this call was stored. It changed nothing. \
                       Call it again if it is still needed.";

/// Turn without results, as read from a log.
#[derive(Debug)]
pub(crate) struct OpenTurn {
    turn_id: TurnId,
    message: Arc<Message>,
    usage: TurnUsage,
    /// Arguments of the calls that began, by call id.
    begun: HashMap<CallId, VecDeque<Value>>,
    ended: HashMap<CallId, VecDeque<CallState>>,
}

impl OpenTurn {
    pub(crate) fn new(turn_id: &TurnId, message: &Arc<Message>, usage: &TurnUsage) -> Self {
        Self {
            turn_id: turn_id.clone(),
            message: message.clone(),
            usage: usage.clone(),
            begun: HashMap::new(),
            ended: HashMap::new(),
        }
    }

    /// Adds the begin or the end of a call; entries of another turn are ignored.
    pub(crate) fn add(&mut self, kind: &EntryKind) {
        match kind {
            EntryKind::CallBegin { turn_id, call_id, args, .. } if *turn_id == self.turn_id => {
                self.begun.entry(call_id.clone()).or_default().push_back(args.clone());
            }
            EntryKind::CallEnd { turn_id, call_id, result, display, details, .. }
                if *turn_id == self.turn_id =>
            {
                let state = CallState::Ended {
                    result: (**result).clone(),
                    display: display.as_deref().cloned(),
                    details: details.clone(),
                };
                self.ended.entry(call_id.clone()).or_default().push_back(state);
            }
            EntryKind::CallBegin { .. }
            | EntryKind::CallEnd { .. }
            | EntryKind::Message { .. }
            | EntryKind::Model { .. }
            | EntryKind::Thinking { .. }
            | EntryKind::RunStart { .. }
            | EntryKind::RunEnd { .. }
            | EntryKind::OpenTurn { .. }
            | EntryKind::CallData { .. }
            | EntryKind::Usage { .. }
            | EntryKind::Leaf { .. }
            | EntryKind::Label { .. }
            | EntryKind::Custom(_) => {}
        }
    }

    /// Whether `message` is the stored answer of this turn, whose results then follow.
    pub(crate) fn is_closed_by(&self, message: &Message, usage: Option<&TurnUsage>) -> bool {
        let ids = |message: &Message| message.calls().map(|call| call.id.clone()).collect::<Vec<_>>();
        usage.is_some_and(|usage| usage.turn_id == self.turn_id) || ids(message) == ids(&self.message)
    }

    /// Completes the turn at the point of its interruption.
    pub(crate) fn interrupt(mut self) -> InterruptedTurn {
        let message = self.message.clone();
        let open: HashSet<CallId> = self
            .begun
            .iter()
            .filter(|(id, begun)| self.ended.get(*id).map_or(0, VecDeque::len) < begun.len())
            .map(|(id, _)| id.clone())
            .collect();
        let calls: Vec<InterruptedCall> =
            message.calls().map(|call| self.interrupt_call(call, open.contains(&call.id))).collect();
        let results = calls.iter().map(|call| Block::ToolResult(call.result())).collect();
        InterruptedTurn {
            turn_id: self.turn_id,
            results: Message::user(results).identified().shared(),
            message,
            usage: self.usage,
            calls,
        }
    }

    fn interrupt_call(&mut self, call: &ToolCall, has_open_begin: bool) -> InterruptedCall {
        // Each begin is used once, since a model may give two calls the same id.
        let begun = self.begun.get_mut(&call.id).and_then(VecDeque::pop_front);
        let ended = self.ended.get_mut(&call.id).and_then(VecDeque::pop_front);
        let state = match (ended, &begun) {
            (Some(ended), _) => ended,
            (None, Some(_)) => CallState::OutcomeUnknown,
            // Which of the calls with one id began is not known.
            (None, None) if has_open_begin => CallState::OutcomeUnknown,
            (None, None) => CallState::NotRun,
        };
        let args = begun.unwrap_or_else(|| call.args.clone());
        InterruptedCall { call_id: call.id.clone(), name: call.name.clone(), args, state }
    }
}

impl InterruptedCall {
    /// Tool result that the model gets for the call.
    fn result(&self) -> ToolResult {
        let told = |text: &str| ToolResult {
            call_id: self.call_id.clone(),
            content: ToolContent::Text(text.to_owned()),
            is_error: true,
        };
        match &self.state {
            CallState::Ended { result, .. } => result.clone(),
            CallState::OutcomeUnknown => told(OUTCOME_UNKNOWN),
            CallState::NotRun => told(NOT_RUN),
        }
    }
}
