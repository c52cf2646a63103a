use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use serde::{Deserialize, Serialize};
use zk_core::model::{
    CallId, EntryId, Message, MessageId, ModelRef, Role, RunId, ThinkingLevel, TurnId, TurnUsage, Usage,
};
use zk_core::service::{
    Audience, CompactionMark, CustomEntry, CutMark, Entry, EntryKind, LiveEntries, SKILL_TOOL, SideCallOf,
    has_skill_text, is_remember_line,
};

use crate::moves::Moves;

/// Maximum number of entries per plugin and kind that are loaded from before the tail.
const MAX_ENTRIES_OF_KIND: usize = 32;

/// Maximum number of compaction plans that are kept for an undo.
const MAX_PLANS: usize = 64;

/// Index of a log, by which it can be opened without the entries that a compaction left out: the row where
/// the conversation begins, sums, and rows that are looked up individually. Rows are added in order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Index {
    /// Number of the last indexed row.
    to: i64,
    /// Moves of the leaf on all branches; all other fields describe the present branch only.
    #[serde(skip_serializing_if = "Moves::is_empty")]
    moves: Moves,
    sums: Sums,
    model: Option<ModelRef>,
    thinking: Option<ThinkingLevel>,
    /// Unfinished run.
    running: Option<RunId>,
    /// Context plans in force that leave messages out or were made by a compaction, oldest first.
    plans: Vec<Plan>,
    /// Last rows of each kind of plugin entry, keyed by plugin and kind.
    customs: BTreeMap<String, VecDeque<i64>>,
    /// Last rows of named content for the model: a skill, or a message of a plugin.
    given: BTreeMap<String, Vec<i64>>,
    /// Rows of prompts with lines to remember.
    remembered: Vec<i64>,
    /// Row numbers of messages, including all messages of the tail.
    #[serde(skip)]
    rows: HashMap<MessageId, i64>,
    /// Calls of the last answer that asked for a skill, with the answer's row.
    #[serde(skip)]
    asked: Vec<(CallId, String, i64)>,
}

/// Sums of messages, tokens and cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Sums {
    messages: u64,
    read: u64,
    output: u64,
    usd: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Plan {
    number: u32,
    is_compaction: bool,
    /// Beginning of the messages that are still sent to the model; `None` if the plan leaves no messages out.
    cut: Option<Cut>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Cut {
    /// Id of the first message that is still sent to the model.
    first: MessageId,
    /// Row of the first sent message; `None` if the log does not contain it.
    row: Option<i64>,
    /// Messages before the cut that are sent unchanged nevertheless, with their rows.
    stored: Vec<(MessageId, i64)>,
}

impl Sums {
    fn of(kind: &EntryKind) -> Self {
        let messages = match kind {
            EntryKind::Custom(custom) => u64::from(custom.audience == Audience::Model),
            kind => u64::from(kind.message().is_some()),
        };
        let Some(turn) = kind.usage() else { return Self { messages, ..Self::default() } };
        let (read, output) = (turn.usage.read(), turn.usage.output);
        Self { messages, read, output, usd: turn.cost.unwrap_or_default() }
    }

    fn add(&mut self, more: Self) {
        self.messages += more.messages;
        self.read += more.read;
        self.output += more.output;
        self.usd += more.usd;
    }

    fn without(self, later: Self) -> Self {
        Self {
            messages: self.messages.saturating_sub(later.messages),
            read: self.read.saturating_sub(later.read),
            output: self.output.saturating_sub(later.output),
            usd: (self.usd - later.usd).max(0.0),
        }
    }
}

impl Index {
    /// Moves of the leaf.
    pub(crate) fn moves(&self) -> &Moves {
        &self.moves
    }

    /// Sets the moves of the leaf.
    pub(crate) fn set_moves(&mut self, moves: Moves) {
        self.moves = moves;
    }

    /// Number of the last indexed row.
    pub(crate) fn last_row(&self) -> i64 {
        self.to
    }

    /// Counts an unreadable row as indexed.
    pub(crate) fn skip_unreadable(&mut self, row: i64) {
        self.to = self.to.max(row);
    }

    /// Adds the entry of a row. For a row that is already indexed, only the message's id is recorded, for
    /// later references.
    pub(crate) fn add(&mut self, row: i64, kind: &EntryKind) {
        if let EntryKind::Message { message, .. } = kind
            && let Some(id) = &message.id
        {
            self.rows.insert(id.clone(), row);
        }
        if row <= self.to {
            return;
        }
        self.to = row;
        self.sums.add(Sums::of(kind));
        if kind.message().is_some() {
            self.moves.note_message(row);
        }
        match kind {
            EntryKind::Message { message, .. } => self.add_message(row, message),
            EntryKind::Model { model } => self.model = Some(model.clone()),
            EntryKind::Thinking { level } => self.thinking = Some(*level),
            EntryKind::RunStart { run_id } => self.running = Some(run_id.clone()),
            EntryKind::RunEnd { .. } => self.running = None,
            EntryKind::Leaf { .. } => {
                self.running = None;
                self.asked.clear();
            }
            EntryKind::Custom(custom) => self.add_custom(row, custom),
            EntryKind::OpenTurn { .. }
            | EntryKind::CallBegin { .. }
            | EntryKind::CallEnd { .. }
            | EntryKind::CallData { .. }
            | EntryKind::Usage { .. }
            | EntryKind::Label { .. } => {}
        }
    }

    fn add_message(&mut self, row: i64, message: &Message) {
        match message.role {
            Role::Assistant => {
                if let Some(origin) = &message.origin {
                    self.model = Some(origin.clone());
                }
                let skill = |args: &serde_json::Value| args.get("skill")?.as_str().map(str::to_owned);
                let asked = message.calls().filter(|call| call.name == SKILL_TOOL);
                self.asked = asked
                    .filter_map(|call| Some((call.id.clone(), format!("skill:{}", skill(&call.args)?), row)))
                    .collect();
            }
            Role::User => {
                for (id, name, answer) in std::mem::take(&mut self.asked) {
                    let mut results = message.results();
                    if let Some(result) = results.find(|result| result.call_id == id && !result.is_error) {
                        let has_text = has_skill_text(&result.content.to_text());
                        self.set_given_rows(name, vec![answer, row], has_text);
                    }
                }
                match &message.injected_by {
                    Some(by) => {
                        let has_text = !by.starts_with("skill:") || has_skill_text(&message.text());
                        self.set_given_rows(by.clone(), vec![row], has_text);
                    }
                    None if message.text().lines().any(is_remember_line) => self.remembered.push(row),
                    None => {}
                }
            }
        }
    }

    /// Records the rows of named content. A mere notice that a skill is in use does not replace the rows of
    /// its text.
    fn set_given_rows(&mut self, name: String, rows: Vec<i64>, has_text: bool) {
        if has_text || !self.given.contains_key(&name) {
            self.given.insert(name, rows);
        }
    }

    fn add_custom(&mut self, row: i64, custom: &CustomEntry) {
        let Some(mark) = CompactionMark::of(custom) else {
            let rows = self.customs.entry(format!("{}\n{}", custom.source, custom.kind)).or_default();
            rows.push_back(row);
            if rows.len() > MAX_ENTRIES_OF_KIND {
                rows.pop_front();
            }
            return;
        };
        let is_compaction = mark.is_compaction();
        match mark {
            CompactionMark::Plan { number, cut, .. } if is_compaction || cut.is_some() => {
                let cut = cut.map(|cut| self.locate_cut(&cut));
                self.plans.push(Plan { number, is_compaction, cut });
                if self.plans.len() > MAX_PLANS {
                    self.plans.remove(0);
                }
            }
            CompactionMark::Plan { .. } => {}
            CompactionMark::Undo => {
                let last = self.plans.iter().rev().find(|plan| plan.is_compaction).map(|plan| plan.number);
                if let Some(last) = last {
                    self.plans.retain(|plan| plan.number < last);
                }
            }
            CompactionMark::Whole => self.plans.clear(),
        }
    }

    fn locate_cut(&self, cut: &CutMark) -> Cut {
        let known = self.plans.iter().filter_map(|plan| plan.cut.as_ref()).flat_map(|cut| &cut.stored);
        let known: HashMap<_, _> = known.map(|(id, row)| (id, *row)).collect();
        let row = |id: &MessageId| self.rows.get(id).or_else(|| known.get(id)).copied();
        let stored = cut.stored().filter_map(|id| Some((id.clone(), row(id)?))).collect();
        Cut { first: cut.first.clone(), row: row(&cut.first), stored }
    }

    /// Cut in force, with its row: the furthest one. `None` if a cut's message is not in the log.
    fn cut(&self) -> Option<(i64, &Cut)> {
        let mut furthest: Option<(i64, &Cut)> = None;
        for cut in self.plans.iter().filter_map(|plan| plan.cut.as_ref()) {
            let row = cut.row?;
            if furthest.is_none_or(|(known, _)| row >= known) {
                furthest = Some((row, cut));
            }
        }
        furthest
    }

    /// First row that is sent to the model, if a compaction left out the beginning of the conversation.
    pub(crate) fn first_sent_row(&self) -> Option<i64> {
        self.cut().map(|(row, _)| row)
    }

    /// First row that is sent to the model, with the id of the message that it must contain.
    pub(crate) fn first_sent_message(&self) -> Option<(i64, &MessageId)> {
        self.cut().map(|(row, cut)| (row, &cut.first))
    }

    /// Rows before `from` that a resumed conversation needs nevertheless.
    pub(crate) fn rows_to_look_up(&self, from: i64) -> Vec<i64> {
        let stored = self.cut().into_iter().flat_map(|(_, cut)| cut.stored.iter().map(|(_, row)| *row));
        let given = self.given.values().flatten().chain(self.customs.values().flatten());
        let all: BTreeSet<i64> = given.chain(&self.remembered).copied().chain(stored).collect();
        all.into_iter().filter(|row| *row < from).collect()
    }

    /// Builds the entries of a resumed conversation: the looked-up ones, sums for the rest, and the tail.
    pub(crate) fn build_live(&self, looked_up: Vec<Entry>, tail: Vec<Entry>) -> LiveEntries {
        let mut later = Sums::default();
        tail.iter().for_each(|entry| later.add(Sums::of(&entry.kind)));
        let sums = self.sums.without(later);
        let mut entries = looked_up;
        for entry in &mut entries {
            // The usage of all omitted messages follows in one entry.
            if let EntryKind::Message { usage, .. } = &mut entry.kind {
                *usage = None;
            }
        }
        let usage = Usage { input: sums.read, output: sums.output, ..Usage::default() };
        let nobody = || ModelRef::new("", "");
        let usage = TurnUsage {
            turn_id: TurnId::from(LiveEntries::SUM),
            model: self.model.clone().unwrap_or_else(nobody),
            usage,
            cost: Some(sums.usd),
        };
        let side_call =
            SideCallOf { source: "session".to_owned(), purpose: "what was left out".to_owned(), part: None };
        let kinds = [
            Some(EntryKind::Usage { usage: Box::new(usage), side_call: Some(side_call) }),
            self.model.clone().map(|model| EntryKind::Model { model }),
            self.thinking.map(|level| EntryKind::Thinking { level }),
            self.running.clone().map(|run_id| EntryKind::RunStart { run_id }),
        ];
        let time_ms = tail.first().map(|entry| entry.time_ms).unwrap_or_default();
        let entry = |kind| Entry { id: EntryId::from(LiveEntries::SUM), parent: None, time_ms, kind };
        entries.extend(kinds.into_iter().flatten().map(entry));
        let at = entries.len();
        entries.extend(tail);
        LiveEntries { entries, tail: at, earlier: sums.messages }
    }
}
