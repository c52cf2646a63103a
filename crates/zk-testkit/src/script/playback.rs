//! Playback of a script: the next turn, its call ids, and its stream of events.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value};
use zk_core::model::{Block, CallId, ModelRef, Phase, ProviderError, Thinking, ToolCall};
use zk_core::service::StreamEvent;

use super::{Asked, Said, Script, Step, Turn};

/// Script with its current position.
#[derive(Debug)]
pub(crate) struct Playback {
    script: Script,
    place: Mutex<Place>,
}

#[derive(Debug, Default)]
struct Place {
    turn: usize,
    calls: u64,
}

/// Step of a stream: an event or a pause.
#[derive(Debug)]
pub(crate) enum Beat {
    Emit(StreamEvent),
    Wait(Duration),
    Fail(Box<ProviderError>),
    Hang,
}

impl Playback {
    pub(crate) fn new(script: Script) -> Self {
        Self { script, place: Mutex::default() }
    }

    pub(crate) fn pace(&self) -> Option<Duration> {
        self.script.pace
    }

    /// Next turn; `name_call` makes each call's id from its number and tool. After the end, an error message.
    pub(crate) fn next(&self, asked: &Asked, name_call: fn(u64, &str) -> String) -> Result<Turn, String> {
        let at = {
            let mut place = self.place();
            place.turn += 1;
            place.turn - 1
        };
        let mut turn = match (self.script.turns.get(at), &self.script.forever) {
            (Some(Said::Fixed(turn)), _) => turn.clone(),
            (Some(Said::Computed(respond)), _) => respond(asked),
            (None, Some(respond)) => respond(asked),
            (None, None) => {
                return Err(format!(
                    "the script has {} turns and turn {} was asked for; add a turn, or end it with \
                     Script::forever",
                    self.script.turns.len(),
                    at + 1
                ));
            }
        };
        for step in &mut turn.steps {
            if let Step::Call { id: id @ None, name, .. } = step {
                let mut place = self.place();
                place.calls += 1;
                *id = Some(CallId::from(name_call(place.calls, name)));
            }
        }
        Ok(turn)
    }

    fn place(&self) -> MutexGuard<'_, Place> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Stream of events for a turn, attributed to `origin`.
pub(crate) fn beats(turn: &Turn, origin: &ModelRef, number: usize, pace: Option<Duration>) -> VecDeque<Beat> {
    let mut out = Beats { all: VecDeque::new(), pace };
    let mut block = 0_u32;
    let fails_first = matches!(turn.steps.first(), Some(Step::Fail(_)));
    if !fails_first {
        out.emit(StreamEvent::Start {
            model: Some(origin.model.clone()),
            request_id: Some(format!("request_{number}")),
        });
    }
    let mut counted = None;
    for step in &turn.steps {
        let content = match step {
            Step::Text(chunks) => {
                for delta in chunks {
                    out.delta(StreamEvent::Text { block, delta: delta.clone() });
                }
                Block::text(chunks.concat())
            }
            Step::Thinking { chunks, signature } => {
                for delta in chunks {
                    out.delta(StreamEvent::Thinking { block, delta: delta.clone() });
                }
                Block::Thinking(Thinking {
                    text: chunks.concat(),
                    signature: signature.clone(),
                    origin: Some(origin.clone()),
                    ..Thinking::default()
                })
            }
            Step::Redacted(payload) => Block::Thinking(Thinking {
                redacted: Some(payload.clone()),
                origin: Some(origin.clone()),
                ..Thinking::default()
            }),
            Step::Call { id, name, args } => {
                let id = id.clone().unwrap_or_else(|| CallId::from("call_0"));
                out.delta(StreamEvent::ToolCall { block, id: id.clone(), name: name.clone() });
                for delta in args {
                    out.delta(StreamEvent::ToolArgs { block, delta: delta.clone() });
                }
                let (args, malformed) = parse_args(&args.concat());
                Block::ToolCall(ToolCall { malformed, ..ToolCall::new(id, name.clone(), args) })
            }
            Step::Usage(usage) => {
                counted = Some(*usage);
                continue;
            }
            Step::Stop(_) => continue,
            Step::Delay(pause) => {
                out.all.push_back(Beat::Wait(*pause));
                continue;
            }
            Step::Fail(error) => {
                // The end of a whole response includes its usage.
                counted.into_iter().for_each(|usage| out.emit(StreamEvent::Usage(usage)));
                out.all.push_back(Beat::Fail(with_origin(error, origin, fails_first)));
                return out.all;
            }
            Step::Hang => {
                out.all.push_back(Beat::Hang);
                return out.all;
            }
        };
        out.emit(StreamEvent::Block { block, content });
        block += 1;
    }
    out.emit(StreamEvent::Done { stop: turn.stop_reason(), usage: turn.total_usage() });
    out.all
}

struct Beats {
    all: VecDeque<Beat>,
    pace: Option<Duration>,
}

impl Beats {
    fn emit(&mut self, event: StreamEvent) {
        self.all.push_back(Beat::Emit(event));
    }

    fn delta(&mut self, event: StreamEvent) {
        self.all.extend(self.pace.map(Beat::Wait));
        self.emit(event);
    }
}

fn with_origin(error: &ProviderError, origin: &ModelRef, at_once: bool) -> Box<ProviderError> {
    let mut error = Box::new(error.clone());
    if error.provider.is_empty() {
        error.provider = origin.provider.clone();
    }
    if error.model.is_empty() {
        error.model = origin.model.clone();
    }
    if at_once && error.phase == Phase::Stream {
        error.phase = Phase::Response;
    }
    error
}

/// Arguments of a call as stored in a history: an object, or the raw text.
pub(crate) fn parse_args(raw: &str) -> (Value, Option<String>) {
    if raw.trim().is_empty() {
        return (Value::Object(Map::new()), None);
    }
    match serde_json::from_str::<Value>(raw) {
        Ok(args @ Value::Object(_)) => (args, None),
        Ok(_) | Err(_) => (Value::Object(Map::new()), Some(raw.to_owned())),
    }
}
