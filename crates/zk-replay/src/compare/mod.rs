//! Differences between a recording and the recording of its replay.

mod difference;
mod requests;
mod values;

pub use difference::{Change, Difference, Place};

use std::sync::Arc;

use zk_core::model::{Block, Message};

use crate::Recording;
use crate::playback::NOT_RECORDED;
use crate::recording::{RecordedCall, RecordedRun, RecordedTurn, is_context};
use values::{first_difference, first_line_difference};

/// Compares a recording with that of its replay, in the order of the conversation: the first difference comes first.
///
/// Compared are the opening messages of each run; each request's model, system prompt by section, tools and messages; answers;
/// permission verdicts, final arguments and results of calls; compactions; outcomes of runs. Ids, times, usage and reasoning are
/// not. Requests and verdicts are only compared where both sessions have them ([`Recording::has_requests`]).
///
/// ```
/// use zk_replay::{Recording, compare};
///
/// assert!(compare(&Recording::default(), &Recording::default()).is_empty());
/// ```
#[must_use]
pub fn compare(recorded: &Recording, replayed: &Recording) -> Vec<Difference> {
    let mut found = Vec::new();
    let (mut turns, mut requests) = (0, 0);
    let runs = recorded.runs.len().max(replayed.runs.len());
    for index in 0..runs {
        let place = Place { run: index + 1, turn: None, request: None };
        match (recorded.runs.get(index), replayed.runs.get(index)) {
            (Some(one), Some(other)) => {
                let mut comparing = Comparing { found: &mut found, run: index + 1, turns, requests };
                comparing.compare_runs(one, other);
                turns += one.turns.len();
                requests += one.requests.as_ref().map_or(0, Vec::len);
            }
            (Some(_), None) => found.push(Difference { place, change: Change::RunMissing }),
            (None, Some(_)) => found.push(Difference { place, change: Change::RunAdded }),
            (None, None) => {}
        }
    }
    found
}

struct Comparing<'a> {
    found: &'a mut Vec<Difference>,
    run: usize,
    /// Number of turns before the run.
    turns: usize,
    requests: usize,
}

impl Comparing<'_> {
    fn add_difference(&mut self, turn: Option<usize>, change: Change) {
        let turn = turn.map(|turn| self.turns + turn + 1);
        self.found.push(Difference { place: Place { run: self.run, turn, request: None }, change });
    }

    fn compare_runs(&mut self, one: &RecordedRun, other: &RecordedRun) {
        self.compare_messages(None, &one.opening, &other.opening);
        let turns = one.turns.len().max(other.turns.len());
        let mut asked = 0;
        for index in 0..turns {
            self.compare_compactions(one, other, index);
            // A turn has a request, and another one if the first did not fit.
            let until = requests_until(one, index).max(asked);
            self.compare_requests(one, other, asked..until);
            asked = until;
            match (one.turns.get(index), other.turns.get(index)) {
                (Some(one), Some(other)) => self.compare_turns(index, one, other),
                (Some(_), None) => {
                    self.add_difference(Some(index), Change::TurnMissing);
                    break;
                }
                (None, Some(_)) => {
                    self.add_difference(Some(index), Change::TurnAdded);
                    break;
                }
                (None, None) => {}
            }
        }
        self.compare_compactions(one, other, turns);
        let rest = one.requests.as_ref().map_or(0, Vec::len).max(other.requests.as_ref().map_or(0, Vec::len));
        if one.turns.len() == other.turns.len() {
            self.compare_requests(one, other, asked..rest.max(asked));
        }
        if one.end != other.end && one.end.is_some() {
            self.add_difference(None, Change::End { recorded: one.end, replayed: other.end });
        }
    }

    fn compare_turns(&mut self, index: usize, one: &RecordedTurn, other: &RecordedTurn) {
        if let Some(change) = answer_change(&one.answer, &other.answer) {
            self.add_difference(Some(index), change);
        }
        for (call, replayed) in one.calls.iter().zip(&other.calls) {
            // A process that died in this turn says nothing about the calls after.
            if one.is_cut_off && call.result.is_none() {
                continue;
            }
            if let Some(change) = call_change(call, replayed) {
                self.add_difference(Some(index), change);
            }
        }
        self.compare_messages(Some(index), &one.then, &other.then);
    }

    fn compare_messages(&mut self, turn: Option<usize>, one: &[Arc<Message>], other: &[Arc<Message>]) {
        let compared = |all: &[Arc<Message>]| -> Vec<(String, Option<String>)> {
            let told = all.iter().filter(|message| !is_context(message));
            told.map(|message| (said_text(message), message.injected_by.clone())).collect()
        };
        let (one, other) = (compared(one), compared(other));
        if one == other {
            return;
        }
        let at = one.iter().zip(&other).take_while(|(one, other)| one == other).count();
        let side =
            |all: &[(String, Option<String>)]| all.get(at).map(|(text, by)| (by.clone(), text.clone()));
        let change = match (side(&one), side(&other)) {
            (Some((by, text)), None) => Change::MessageMissing { by, text: values::shorten(&text) },
            (None, Some((by, text))) => Change::MessageAdded { by, text: values::shorten(&text) },
            (Some((_, one)), Some((by, other))) => {
                let text = first_line_difference(&one, &other);
                Change::Message { by, line: text.line, recorded: text.recorded, replayed: text.replayed }
            }
            (None, None) => return,
        };
        self.add_difference(turn, change);
    }

    fn compare_compactions(&mut self, one: &RecordedRun, other: &RecordedRun, index: usize) {
        let at = |run: &RecordedRun| -> Vec<(String, String)> {
            let here = run.compactions.iter().filter(|compaction| compaction.after_turns == index);
            here.map(|compaction| (compaction.strategy.clone(), compaction.text.clone())).collect()
        };
        let (here, there) = (at(one), at(other));
        if here.is_empty() && there.is_empty() {
            return;
        }
        let names = |all: &[(String, String)]| all.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        let (recorded, replayed) = (names(&here), names(&there));
        if recorded != replayed {
            let turn = (index < one.turns.len().max(other.turns.len())).then_some(index);
            self.add_difference(turn, Change::Compaction { recorded, replayed });
        } else if here != there {
            let text =
                |all: &[(String, String)]| all.iter().map(|(_, text)| text.as_str()).collect::<String>();
            let text = first_line_difference(&text(&here), &text(&there));
            let (line, recorded, replayed) = (text.line, text.recorded, text.replayed);
            self.add_difference(Some(index), Change::Summary { line, recorded, replayed });
        }
    }
}

/// Number of a run's requests up to and with those of a turn.
fn requests_until(run: &RecordedRun, turn: usize) -> usize {
    let turns = run.turns.iter().take(turn + 1);
    turns.map(|turn| turn.id.as_ref().map_or(1, |id| run.requests_of(id))).sum()
}

/// Text of a message without context that zk reads anew.
fn said_text(message: &Message) -> String {
    let said = crate::recording::prompt_blocks(message);
    said.iter().map(|block| block.as_text().map_or_else(|| block_text(block), str::to_owned)).collect()
}

fn block_text(block: &Block) -> String {
    serde_json::to_string(block).unwrap_or_default()
}

/// Text of an answer, without reasoning.
fn answer_text(message: &Message) -> String {
    message.content.iter().filter_map(Block::as_text).collect()
}

fn answer_change(one: &Message, other: &Message) -> Option<Change> {
    let (text, replayed) = (answer_text(one), answer_text(other));
    if text != replayed {
        let text = first_line_difference(&text, &replayed);
        return Some(Change::Answer { line: text.line, recorded: text.recorded, replayed: text.replayed });
    }
    let names = |message: &Message| message.calls().map(|call| call.name.clone()).collect::<Vec<_>>();
    if names(one) != names(other) {
        return Some(Change::Calls { recorded: names(one), replayed: names(other) });
    }
    let mut calls = one.calls().zip(other.calls()).filter(|(one, other)| one.args != other.args);
    let (call, replayed) = calls.next()?;
    let value = first_difference(&call.args, &replayed.args);
    Some(Change::Arguments {
        tool: call.name.clone(),
        call: call.id.clone(),
        path: value.path,
        recorded: value.recorded,
        replayed: value.replayed,
    })
}

fn call_change(one: &RecordedCall, other: &RecordedCall) -> Option<Change> {
    let (tool, call) = (one.call.name.clone(), one.id().clone());
    let text = |call: &RecordedCall| call.result.as_ref().map(|result| result.content.to_text());
    if one.args != other.args && other.began {
        let value = first_difference(&one.args, &other.args);
        let (path, recorded, replayed) = (value.path, value.recorded, value.replayed);
        return Some(Change::Arguments { tool, call, path, recorded, replayed });
    }
    if one.began != other.began {
        let reason = if one.began { text(other) } else { text(one) }.unwrap_or_default();
        let reason = values::shorten(&reason);
        let (recorded, replayed) = (one.verdict.clone(), other.verdict.clone());
        return Some(if one.began {
            Change::NowRefused { tool, call, reason, recorded, replayed }
        } else {
            Change::NowAllowed { tool, call, reason, recorded, replayed }
        });
    }
    if let (Some(recorded), Some(replayed)) = (&one.verdict, &other.verdict)
        && (recorded.allowed, recorded.by) != (replayed.allowed, replayed.by)
    {
        let (recorded, replayed) = (recorded.clone(), replayed.clone());
        return Some(Change::Verdict { tool, call, recorded, replayed });
    }
    let (recorded, replayed) = (text(one)?, text(other)?);
    if replayed.starts_with(NOT_RECORDED) && recorded != replayed {
        return Some(Change::NotRecorded { tool, call });
    }
    let is_error = |call: &RecordedCall| call.result.as_ref().is_some_and(|result| result.is_error);
    if recorded == replayed && is_error(one) == is_error(other) {
        return None;
    }
    if recorded == replayed {
        return Some(Change::ResultKind { tool, call, is_error: is_error(other) });
    }
    let text = first_line_difference(&recorded, &replayed);
    let (line, recorded, replayed) = (text.line, text.recorded, text.replayed);
    Some(Change::Result { tool, call, line, recorded, replayed })
}
