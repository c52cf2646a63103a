use std::collections::HashMap;
use std::sync::Arc;

use zk_core::events::{
    Cause, MessagesCause, ModelSelect, SessionEnd, SessionEntry, SessionMessages, SessionOpenTurn,
    SessionStart, SideCallEnd, ThinkingSelect, ToolBegin, ToolEnd, ToolResultsAfter,
};
use zk_core::kernel::{AnyEvent, Cx, EmitError};
use zk_core::model::{
    CallId, CallKind, CallRef, Display, Effects, Message, ModelRef, Role, RunId, ThinkingLevel, ToolContent,
    ToolResult, TurnId, TurnUsage,
};
use zk_core::service::{Entry, EntryKind, SideCallOf, SubAgentEntry};

/// Event of a run as a session stores it.
#[derive(Clone, Debug)]
pub enum StoredEvent {
    /// A run began.
    SessionStart(SessionStart),
    /// The model changed.
    ModelSelect(ModelSelect),
    /// The thinking level changed.
    ThinkingSelect(ThinkingSelect),
    /// Messages joined the conversation.
    SessionMessages(SessionMessages),
    /// A model answered with calls.
    SessionOpenTurn(SessionOpenTurn),
    /// A call that is not read-only began.
    ToolBegin(Box<ToolBegin>),
    /// A call ended.
    ToolEnd(Box<ToolEnd>),
    /// All calls of a turn have results.
    ToolResultsAfter(Box<ToolResultsAfter>),
    /// A side call ended.
    SideCallEnd(SideCallEnd),
    /// A plugin stored an entry.
    SessionEntry(SessionEntry),
    /// A run ended.
    SessionEnd(SessionEnd),
}

impl StoredEvent {
    /// Returns the event as a value of any type.
    #[must_use]
    pub fn as_event(&self) -> &dyn AnyEvent {
        match self {
            Self::SessionStart(event) => event,
            Self::ModelSelect(event) => event,
            Self::ThinkingSelect(event) => event,
            Self::SessionMessages(event) => event,
            Self::SessionOpenTurn(event) => event,
            Self::ToolBegin(event) => &**event,
            Self::ToolEnd(event) => &**event,
            Self::ToolResultsAfter(event) => &**event,
            Self::SideCallEnd(event) => event,
            Self::SessionEntry(event) => event,
            Self::SessionEnd(event) => event,
        }
    }

    /// Emits the event to the handlers of a bus, such as a recorder or a view.
    ///
    /// # Errors
    /// [`EmitError`] when a handler that must not fail does.
    pub async fn emit(self, cx: &Cx) -> Result<(), EmitError> {
        match self {
            Self::SessionStart(event) => cx.emit(event).await,
            Self::ModelSelect(event) => cx.emit(event).await,
            Self::ThinkingSelect(event) => cx.emit(event).await,
            Self::SessionMessages(event) => cx.emit(event).await,
            Self::SessionOpenTurn(event) => cx.emit(event).await,
            Self::ToolBegin(event) => cx.emit(*event).await,
            Self::ToolEnd(event) => cx.emit(*event).await,
            Self::ToolResultsAfter(event) => cx.emit(*event).await,
            Self::SideCallEnd(event) => cx.emit(event).await,
            Self::SessionEntry(event) => cx.emit(event).await,
            Self::SessionEnd(event) => cx.emit(event).await,
        }
    }
}

/// Turns the entries of a session into the events that they were stored from, in stored order. Nothing runs.
///
/// Fields that no entry keeps have their defaults: effects, title, kind and locations of a call that begins. Sub-agents and
/// compactions are in the entries of plugins; those stored with the end of a run come before it, each as an event of its own. A
/// turn that was interrupted ends without its results.
///
/// ```
/// use zk_core::service::{Entry, EntryKind};
/// use zk_replay::replay;
///
/// let kind = EntryKind::RunStart { run_id: "r_1".into() };
/// let entries = [Entry { id: "e_1".into(), parent: None, time_ms: 0, kind }];
/// let events = replay(&entries);
/// assert_eq!(events[0].as_event().name(), "session:start");
/// ```
#[must_use]
pub fn replay(entries: &[Entry]) -> Vec<StoredEvent> {
    let mut replaying = Replaying::default();
    for (at, entry) in entries.iter().enumerate() {
        replaying.add_entry(entries, at, entry);
    }
    replaying.events
}

#[derive(Default)]
struct Replaying<'a> {
    events: Vec<StoredEvent>,
    run: Option<RunId>,
    /// Number of messages so far, and before the run.
    messages: usize,
    from: usize,
    model: Option<ModelRef>,
    thinking: ThinkingLevel,
    /// Whether the prompt of the run has not come yet.
    expects_prompt: bool,
    answer: Option<(&'a Arc<Message>, Option<&'a TurnUsage>)>,
    names: HashMap<CallId, String>,
    begun: HashMap<(TurnId, CallId), CallRef>,
    open: Option<(TurnId, TurnUsage)>,
}

impl<'a> Replaying<'a> {
    fn run_id(&self) -> RunId {
        self.run.clone().unwrap_or_else(|| RunId::from(""))
    }

    fn push(&mut self, event: StoredEvent) {
        self.events.push(event);
    }

    fn add_entry(&mut self, entries: &'a [Entry], at: usize, entry: &'a Entry) {
        match &entry.kind {
            EntryKind::RunStart { run_id } => {
                (self.run, self.from, self.expects_prompt) = (Some(run_id.clone()), self.messages, true);
                self.answer = None;
                let (run_id, messages) = (run_id.clone(), self.messages);
                self.push(StoredEvent::SessionStart(SessionStart { session_id: None, run_id, messages }));
            }
            EntryKind::RunEnd { run_id, status } => {
                let (run_id, status, from, to) = (run_id.clone(), *status, self.from, self.messages);
                self.push(StoredEvent::SessionEnd(SessionEnd {
                    session_id: None,
                    run_id,
                    status,
                    from,
                    to,
                    entries: Vec::new(),
                }));
            }
            EntryKind::Model { model } => {
                let from = self.model.replace(model.clone());
                let select = ModelSelect { from, to: model.clone(), window: None, cause: Cause::Set };
                self.push(StoredEvent::ModelSelect(select));
            }
            EntryKind::Thinking { level } => {
                let from = std::mem::replace(&mut self.thinking, *level);
                let select = ThinkingSelect { from, to: *level, cause: Cause::Set };
                self.push(StoredEvent::ThinkingSelect(select));
            }
            EntryKind::Message { message, usage } => self.add_message(message, usage.as_deref()),
            EntryKind::OpenTurn { turn_id, message, usage } => {
                self.names.extend(message.calls().map(|call| (call.id.clone(), call.name.clone())));
                self.open = Some((turn_id.clone(), (**usage).clone()));
                self.push(StoredEvent::SessionOpenTurn(SessionOpenTurn {
                    run_id: self.run_id(),
                    turn_id: turn_id.clone(),
                    message: message.clone(),
                    usage: (**usage).clone(),
                }));
            }
            EntryKind::CallBegin { turn_id, call_id, name, args, summary } => {
                let call = CallRef {
                    turn_id: turn_id.clone(),
                    call_id: call_id.clone(),
                    name: name.clone(),
                    display_name: name.clone(),
                };
                self.begun.insert((turn_id.clone(), call_id.clone()), call.clone());
                self.push(StoredEvent::ToolBegin(Box::new(ToolBegin {
                    run_id: self.run_id(),
                    call: Arc::new(call),
                    args: args.clone(),
                    effects: Effects::default(),
                    summary: summary.clone().unwrap_or_default(),
                    title: None,
                    kind: CallKind::default(),
                    locations: Vec::new(),
                    read_only: false,
                })));
            }
            EntryKind::CallEnd { turn_id, call_id, summary, result, display, details, elapsed_ms } => {
                let end = (turn_id, call_id, summary.as_ref(), display.as_deref(), *elapsed_ms);
                self.add_call_end(end, (**result).clone(), details.clone(), false);
            }
            EntryKind::CallData { turn_id, call_id, summary, display, details, elapsed_ms } => {
                let result = result_after(entries.get(at..).unwrap_or_default(), call_id);
                let end = (turn_id, call_id, summary.as_ref(), display.as_deref(), *elapsed_ms);
                self.add_call_end(end, result, details.clone(), true);
            }
            EntryKind::Usage { usage, side_call: Some(of) } => {
                let SideCallOf { source, purpose, part } = of.clone();
                let usage = (**usage).clone();
                self.push(StoredEvent::SideCallEnd(SideCallEnd { source, purpose, part, usage }));
            }
            EntryKind::Usage { usage, side_call: None } => {
                let (run_id, usage, messages) = (self.run_id(), Some((**usage).clone()), Vec::new());
                let cause = MessagesCause::Answer;
                self.push(StoredEvent::SessionMessages(SessionMessages { run_id, messages, usage, cause }));
            }
            // Text of a sub-agent is no event of the session's own agent.
            EntryKind::Custom(custom) if SubAgentEntry::of(custom).is_some() => {}
            EntryKind::Custom(custom) => {
                self.push(StoredEvent::SessionEntry(SessionEntry { entry: custom.clone() }));
            }
            // A replay follows the present branch, on which moves of the leaf belong to no run.
            EntryKind::Leaf { .. } | EntryKind::Label { .. } => {}
        }
    }

    fn add_call_end(
        &mut self,
        (turn_id, call_id, summary, display, elapsed_ms): (
            &TurnId,
            &CallId,
            Option<&String>,
            Option<&Display>,
            u64,
        ),
        result: ToolResult,
        details: Option<serde_json::Value>,
        read_only: bool,
    ) {
        let call = self.begun.remove(&(turn_id.clone(), call_id.clone())).unwrap_or_else(|| {
            let name = self.names.get(call_id).cloned().unwrap_or_default();
            let (turn_id, call_id) = (turn_id.clone(), call_id.clone());
            CallRef { turn_id, call_id, display_name: name.clone(), name }
        });
        self.push(StoredEvent::ToolEnd(Box::new(ToolEnd {
            run_id: self.run_id(),
            call: Arc::new(call),
            summary: summary.cloned().unwrap_or_default(),
            read_only,
            result,
            exit_code: display.and_then(Display::exit_code),
            display: display.cloned(),
            details,
            elapsed_ms,
        })));
    }

    fn add_message(&mut self, message: &'a Arc<Message>, usage: Option<&'a TurnUsage>) {
        self.messages += 1;
        if message.role == Role::Assistant && message.calls().next().is_some() {
            self.answer = Some((message, usage));
            return;
        }
        if let Some((assistant, usage)) = self.answer.take().filter(|_| message.role == Role::User) {
            self.expects_prompt = false;
            let open = self.open.take();
            // The usage of a turn that was interrupted is with its provisional answer.
            let usage = usage.cloned().or(open.map(|(_, usage)| usage));
            let model = assistant.origin.clone().unwrap_or_else(|| ModelRef::new("", ""));
            let usage = usage.unwrap_or_else(|| TurnUsage {
                turn_id: TurnId::from(""),
                model,
                usage: zk_core::model::Usage::default(),
                cost: None,
            });
            self.push(StoredEvent::ToolResultsAfter(Box::new(ToolResultsAfter {
                run_id: self.run_id(),
                turn_id: usage.turn_id.clone(),
                assistant: assistant.clone(),
                results: message.clone(),
                usage,
            })));
            return;
        }
        let cause = match (message.role, message.injected_by.as_deref()) {
            (Role::Assistant, _) => MessagesCause::Answer,
            (Role::User, _) if self.expects_prompt => MessagesCause::Prompt,
            (Role::User, Some("follow-up")) => MessagesCause::FollowUp,
            (Role::User, None | Some("steer")) => MessagesCause::Steer,
            (Role::User, Some(_)) => MessagesCause::Harness,
        };
        if message.role == Role::Assistant {
            self.expects_prompt = false;
        }
        let (messages, usage) = (vec![message.clone()], usage.cloned());
        let event = match self.events.last_mut() {
            // Messages that joined together were stored together.
            Some(StoredEvent::SessionMessages(last))
                if last.cause == MessagesCause::Prompt
                    && cause == MessagesCause::Prompt
                    && self.run.as_ref() == Some(&last.run_id) =>
            {
                last.messages.extend(messages);
                return;
            }
            _ => SessionMessages { run_id: self.run_id(), messages, usage, cause },
        };
        self.push(StoredEvent::SessionMessages(event));
    }
}

/// Result of a call in the messages that follow its data.
fn result_after(entries: &[Entry], call_id: &CallId) -> ToolResult {
    let found = entries.iter().filter_map(|entry| entry.kind.message()).take(2).find_map(|message| {
        let found: Option<&ToolResult> = message.results().find(|result| result.call_id == *call_id);
        found.cloned()
    });
    let nothing = || ToolResult {
        call_id: call_id.clone(),
        content: ToolContent::Text(String::new()),
        is_error: false,
    };
    found.unwrap_or_else(nothing)
}
