//! State that all connections of a server share: settings, script and log.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use super::fault::Fault;
use super::formats::bulk::Bulk;
use super::raw::RawReply;
use super::requests::decode;
use super::requests::ledger::Ledger;
use super::requests::received::Received;
use crate::rules::{Dialect, Reasoning, Strictness};
use crate::script::{Playback, Turn};

pub(super) struct Options {
    pub(super) key: Option<String>,
    pub(super) models: Vec<String>,
    pub(super) checked: bool,
    pub(super) strict: Vec<Strictness>,
    pub(super) bulk: Option<Bulk>,
    /// Raw replies in place of the script, in turn.
    pub(super) raw: Vec<RawReply>,
}

impl Options {
    pub(super) fn strictness(&self, dialect: Dialect) -> Option<Strictness> {
        let set = self.strict.iter().rev().find(|strictness| strictness.dialect == dialect);
        self.checked.then(|| set.copied().unwrap_or_else(|| Strictness::of(dialect)))
    }

    /// Form of reasoning in responses.
    pub(super) fn reasoning(&self, dialect: Dialect) -> Reasoning {
        self.strictness(dialect).map_or(Reasoning::Content, |strictness| strictness.reasoning)
    }
}

/// State that all connections of a server share.
pub(super) struct Shared {
    pub(super) options: Options,
    pub(super) playback: Playback,
    pub(super) log: Mutex<Log>,
    pub(super) left: Arc<AtomicUsize>,
}

#[derive(Default)]
pub(super) struct Log {
    pub(super) requests: Vec<Received>,
    pub(super) count: usize,
    pub(super) faults: BTreeMap<usize, Fault>,
    pub(super) always: Option<Fault>,
    /// Turn of a failed response, to be sent again.
    pub(super) held: Option<Turn>,
    pub(super) ledger: Ledger,
}

impl Shared {
    pub(super) fn new(options: Options, playback: Playback) -> Self {
        Self { options, playback, log: Mutex::default(), left: Arc::default() }
    }

    pub(super) fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn next_number(&self) -> usize {
        let mut log = self.log();
        log.count += 1;
        log.count
    }

    pub(super) fn record_request(&self, request: Received) {
        self.log().requests.push(request);
    }

    pub(super) fn fault_of(&self, number: usize) -> Option<Fault> {
        let log = self.log();
        log.faults.get(&number).or(log.always.as_ref()).cloned()
    }

    pub(super) fn repeat_turn_later(&self, turn: Turn) {
        self.log().held = Some(turn);
    }

    pub(super) fn next_turn(&self, dialect: Dialect, body: &Value, number: usize) -> Result<Turn, String> {
        if let Some(turn) = self.log().held.take() {
            return Ok(turn);
        }
        let strictness = self.options.strictness(dialect);
        let nine = strictness.is_some_and(|strictness| strictness.ids.exact);
        let numbered = strictness.is_some_and(|strictness| strictness.numbered_calls);
        let name: fn(u64, &str) -> String = match dialect {
            Dialect::Chat if nine => |number, _| format!("call{number:05}"),
            Dialect::Chat if numbered => {
                |number, tool| format!("functions.{tool}:{}", number.saturating_sub(1))
            }
            Dialect::Chat | Dialect::Responses | Dialect::Codex | Dialect::Ollama => {
                |number, _| format!("call_{number}")
            }
            Dialect::Gemini => |number, _| format!("fn{number}"),
            Dialect::Anthropic => |number, _| format!("toolu_{number}"),
        };
        self.playback.next(&decode::decode_request(dialect, body, number), name)
    }
}
