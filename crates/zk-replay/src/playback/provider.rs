use std::sync::Arc;

use async_trait::async_trait;
use futures_util::{StreamExt, stream};
use zk_core::kernel::Cx;
use zk_core::model::{
    Block, ErrorKind, IdRule, MediaTypes, Message, Model, ModelRef, Phase, ProviderError, StopReason,
    ThinkingReplay, Usage, WireRules,
};
use zk_core::service::{EventStream, Provider, Request, RunControl, RunStatus, StreamEvent};

use super::Playback;
use crate::log::{is_side_call, side_call_digest};
use crate::recording::RecordedTurn;

/// Provider that answers with the stored answers of a recording, in order, with usage and stop reason. Nothing is sent.
///
/// ```
/// use zk_core::service::Provider;
/// use zk_replay::{Playback, Recording, ReplayProvider};
///
/// let provider = ReplayProvider::new("anthropic", Playback::new(Recording::default()));
/// assert_eq!(provider.name(), "anthropic");
/// ```
#[derive(Clone, Debug)]
pub struct ReplayProvider {
    name: Arc<str>,
    playback: Playback,
}

impl ReplayProvider {
    /// Creates the provider of this name; a session with several providers needs one for each.
    pub fn new(name: impl Into<Arc<str>>, playback: Playback) -> Self {
        Self { name: name.into(), playback }
    }
}

/// Reply to a request.
enum Reply<'a> {
    Answer(&'a RecordedTurn),
    /// The recorded run was stopped here.
    Stop,
    Fail(ErrorKind, &'static str),
}

impl Playback {
    /// Takes the next answer.
    fn next_reply(&self) -> Reply<'_> {
        let mut position = self.position();
        let Some(run) = self.recording().runs.get(position.run) else {
            return Reply::Fail(ErrorKind::Rejected, "the recording has no such run");
        };
        let answers = self.answers().runs.get(position.run);
        let turn = answers.and_then(|run| run.turns.get(position.turns));
        if let Some(turn) = turn {
            // A request that overflowed was sent again within its turn.
            if position.failed + 1 < turn.id.as_ref().map_or(1, |id| run.requests_of(id)) {
                position.failed += 1;
                return Reply::Fail(
                    ErrorKind::ContextExceeded,
                    "the recorded request did not fit the window",
                );
            }
            position.failed = 0;
            position.turns += 1;
            position.used.clear();
            return Reply::Answer(turn);
        }
        match run.end {
            Some(RunStatus::Aborted) => Reply::Stop,
            Some(RunStatus::Error) => Reply::Fail(ErrorKind::Rejected, "the recorded run failed here"),
            Some(RunStatus::Completed) => {
                Reply::Fail(ErrorKind::Rejected, "the recording has no further answer in this run")
            }
            None => Reply::Stop,
        }
    }

    /// Takes the answer to a side call.
    fn side_answer(&self, request: &Request) -> Option<String> {
        let (digest, mut position) = (side_call_digest(request), self.position());
        let run = self.recording().runs.get(position.run)?;
        let free = |index: &usize| !position.used_side.contains(index);
        let same = run.side_calls.iter().position(|(asked, _)| *asked == digest).filter(free);
        let index = same.or_else(|| (0..run.side_calls.len()).find(free))?;
        position.used_side.insert(index);
        run.side_calls.get(index).map(|(_, text)| text.clone())
    }
}

/// Delivers the messages that came from outside of the loop after the turn.
pub(super) fn deliver_outside_messages(turn: &RecordedTurn, control: &dyn RunControl) {
    for message in turn.messages_from_outside() {
        let message = Message { id: None, ..Message::clone(message) };
        // If the run has ended, the comparison reports the message as missing.
        let _ = match message.injected_by.as_deref() {
            Some("follow-up") => control.follow_up(message),
            _ => control.steer(message),
        };
    }
}

/// Stops the run, where the person stopped the recorded one.
pub(super) fn stop_run(control: &dyn RunControl) {
    control.abort("the recorded run was stopped here");
}

fn failure(origin: &ModelRef, kind: ErrorKind, why: &str) -> ProviderError {
    ProviderError::new(kind, &*origin.provider, &*origin.model, Phase::Request, why)
}

/// Events of an answer up to its end.
fn events_of(message: &Message) -> Vec<StreamEvent> {
    let mut events = vec![StreamEvent::Start { model: None, request_id: None }];
    for (block, content) in (0..).zip(&message.content) {
        match content {
            Block::Text(text) => events.push(StreamEvent::Text { block, delta: text.text.clone() }),
            Block::Thinking(thinking) if !thinking.text.is_empty() => {
                events.push(StreamEvent::Thinking { block, delta: thinking.text.clone() });
            }
            Block::ToolCall(call) => {
                events.push(StreamEvent::ToolCall { block, id: call.id.clone(), name: call.name.clone() })
            }
            Block::Thinking(_)
            | Block::Image(_)
            | Block::Document(_)
            | Block::ToolResult(_)
            | Block::Compaction(_)
            | Block::Provider(_) => {}
        }
        events.push(StreamEvent::Block { block, content: content.clone() });
    }
    events
}

#[async_trait]
impl Provider for ReplayProvider {
    fn name(&self) -> &str {
        &self.name
    }

    fn model(&self, id: &str) -> Model {
        let mut model = self.playback.answers().model(&ModelRef::new(&*self.name, id));
        if model.window.is_none() {
            model = self.playback.recording().model(&ModelRef::new(&*self.name, id));
        }
        model
    }

    fn default_model(&self) -> Option<String> {
        let runs = &self.playback.recording().runs;
        let mut models = runs.iter().filter_map(|run| run.first_model());
        models.find(|model| *model.provider == *self.name).map(|model| model.model.to_string())
    }

    fn known_models(&self) -> Vec<Model> {
        let models = self.playback.answers().models.iter();
        models.filter(|model| *model.provider == *self.name).cloned().collect()
    }

    fn is_retrying(&self) -> bool {
        true
    }

    fn rules(&self, model: &Model) -> WireRules {
        WireRules {
            target: model.reference(),
            ids: IdRule::UP_TO_64,
            vision: model.capabilities.vision,
            media: MediaTypes::ANY,
            image_in_tool_result: model.capabilities.image_in_tool_result,
            image_in_answer: false,
            thinking: ThinkingReplay::Echo,
            resumes: false,
        }
    }

    fn stream(&self, request: Request, cx: &Cx) -> EventStream {
        let origin = request.model.reference();
        let fail = |kind, why: &str| -> EventStream {
            let error = failure(&origin, kind, why);
            Box::pin(stream::once(async move { Err(error) }))
        };
        if cx.origin().depth > 0 {
            return fail(ErrorKind::Rejected, "a replay has no answers for sub-agents");
        }
        if is_side_call(&request) {
            let Some(text) = self.playback.side_answer(&request) else {
                return fail(ErrorKind::Rejected, "the recording has no answer to this side call");
            };
            let (stop, usage) = (StopReason::EndTurn, Usage::default());
            let events = [
                StreamEvent::Text { block: 0, delta: text.clone() },
                StreamEvent::Block { block: 0, content: Block::text(text) },
                StreamEvent::Done { stop, usage },
            ];
            return Box::pin(stream::iter(events.map(Ok)));
        }
        let control = cx.service::<dyn RunControl>();
        let stopping = control.clone();
        let aborted = failure(&origin, ErrorKind::Aborted, "the run was stopped");
        let stopped = stream::once(async move {
            stopping.iter().for_each(|control| stop_run(&**control));
            Err(aborted)
        });
        let turn = match self.playback.next_reply() {
            Reply::Answer(turn) => turn,
            Reply::Stop => return Box::pin(stopped),
            Reply::Fail(kind, why) => return fail(kind, why),
        };
        if turn.last_ended().is_none()
            && let Some(control) = control
        {
            deliver_outside_messages(turn, &*control);
        }
        let usage = turn.usage.as_ref().map(|usage| usage.usage).unwrap_or_default();
        let mut events = events_of(&turn.answer);
        events.push(StreamEvent::Usage(usage));
        match turn.answer.stop.clone() {
            Some(StopReason::Aborted) => Box::pin(stream::iter(events.into_iter().map(Ok)).chain(stopped)),
            Some(StopReason::Error) => {
                let error = failure(&origin, ErrorKind::Rejected, "the recorded answer broke off here");
                Box::pin(stream::iter(events.into_iter().map(Ok)).chain(stream::once(async { Err(error) })))
            }
            stop => {
                let stop = stop.unwrap_or(StopReason::EndTurn);
                events.push(StreamEvent::Done { stop, usage });
                Box::pin(stream::iter(events.into_iter().map(Ok)))
            }
        }
    }
}
