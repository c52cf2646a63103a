use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use serde::{Deserialize, Serialize};
use zk_core::model::{
    CallId, EntryId, Message, MessageId, ModelRef, Role, RunId, ThinkingLevel, TurnId, TurnUsage, Usage,
};
use zk_core::service::{
    Audience, CompactionMark, CustomEntry, CutMark, Entry, EntryKind, LiveEntries, SKILL_TOOL, SideCallOf,
    has_skill_text, is_remember_line,
};

/// Most entries of one kind of a plugin that are handed over from before the tail.
const MAX_ENTRIES_OF_KIND: usize = 32;

/// Most plans that are kept: a compaction is rarely taken back, and never so many.
const MAX_PLANS: usize = 64;

/// Knowledge of a log that opening it needs of the entries which a compaction left out: which row the conversation goes on
/// from, sums, and the rows of entries that are looked up later. Rows are added in their order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Index {
    /// The last row that counts.
    to: i64,
    sums: Sums,
    model: Option<ModelRef>,
    thinking: Option<ThinkingLevel>,
    /// The run that has no end.
    running: Option<RunId>,
    /// Plans that hold and leave something out, or belong to a compaction.
    plans: Vec<Plan>,
    /// The last rows of each kind of entry of each plugin.
    customs: BTreeMap<String, VecDeque<i64>>,
    /// The last rows of what was given under a name: a skill, a message of a plugin.
    given: BTreeMap<String, Vec<i64>>,
    /// Rows of prompts with lines to remember.
    remembered: Vec<i64>,
    /// Rows of messages, of those from the beginning of the tail on at least.
    #[serde(skip)]
    rows: HashMap<MessageId, i64>,
    /// Calls of the last answer that asked for a skill, with its row.
    #[serde(skip)]
    asked: Vec<(CallId, String, i64)>,
}

/// Sums over entries.
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
    /// The row from which on messages are sent, for a plan that leaves the others out.
    cut: Option<Cut>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Cut {
    /// The message of the row.
    first: MessageId,
    /// Nothing where the log has no such message.
    row: Option<i64>,
    /// Messages before it that are sent as they are stored.
    stored: Vec<(MessageId, i64)>,
}

impl Sums {
    fn of(kind: &EntryKind) -> Self {
        let (messages, usage) = match kind {
            EntryKind::Message { usage, .. } => (1, usage.as_deref()),
            EntryKind::Usage { usage, .. } => (0, Some(&**usage)),
            EntryKind::Custom(custom) => (u64::from(custom.audience == Audience::Model), None),
            EntryKind::Model { .. }
            | EntryKind::Thinking { .. }
            | EntryKind::RunStart { .. }
            | EntryKind::RunEnd { .. }
            | EntryKind::OpenTurn { .. }
            | EntryKind::CallBegin { .. }
            | EntryKind::CallEnd { .. }
            | EntryKind::CallData { .. } => (0, None),
        };
        let Some(turn) = usage else { return Self { messages, ..Self::default() } };
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
    /// The index of entries in consecutive rows from 1.
    pub(crate) fn of(entries: &[Entry]) -> Self {
        let mut index = Self::default();
        entries.iter().zip(1..).for_each(|(entry, row)| index.add(row, &entry.kind));
        index
    }

    /// The last row that counts.
    pub(crate) fn to(&self) -> i64 {
        self.to
    }

    /// Takes in a row that cannot be read.
    pub(crate) fn skip(&mut self, row: i64) {
        self.to = self.to.max(row);
    }

    /// Takes in the entry of a row. One that counts already is only noted, so that later ones can name its message.
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
        match kind {
            EntryKind::Message { message, .. } => self.add_message(row, message),
            EntryKind::Model { model } => self.model = Some(model.clone()),
            EntryKind::Thinking { level } => self.thinking = Some(*level),
            EntryKind::RunStart { run_id } => self.running = Some(run_id.clone()),
            EntryKind::RunEnd { .. } => self.running = None,
            EntryKind::Custom(custom) => self.add_custom(row, custom),
            EntryKind::OpenTurn { .. }
            | EntryKind::CallBegin { .. }
            | EntryKind::CallEnd { .. }
            | EntryKind::CallData { .. }
            | EntryKind::Usage { .. } => {}
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
                        self.give(name, vec![answer, row], has_text);
                    }
                }
                match &message.injected_by {
                    Some(by) => {
                        let has_text = !by.starts_with("skill:") || has_skill_text(&message.text());
                        self.give(by.clone(), vec![row], has_text);
                    }
                    None if message.text().lines().any(is_remember_line) => self.remembered.push(row),
                    None => {}
                }
            }
        }
    }

    /// Notes rows under a name. A skill that is only said to be in use takes the place of no text.
    fn give(&mut self, name: String, rows: Vec<i64>, has_text: bool) {
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
                let cut = cut.map(|cut| self.place(&cut));
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

    fn place(&self, cut: &CutMark) -> Cut {
        let known = self.plans.iter().filter_map(|plan| plan.cut.as_ref()).flat_map(|cut| &cut.stored);
        let known: HashMap<_, _> = known.map(|(id, row)| (id, *row)).collect();
        let row = |id: &MessageId| self.rows.get(id).or_else(|| known.get(id)).copied();
        let stored = cut.stored().filter_map(|id| Some((id.clone(), row(id)?))).collect();
        Cut { first: cut.first.clone(), row: row(&cut.first), stored }
    }

    /// The cut that holds: the furthest one. Nothing where one of them names a message that is not known.
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

    /// The row from which on the conversation is sent, where its beginning is left out.
    pub(crate) fn begin(&self) -> Option<i64> {
        self.cut().map(|(row, _)| row)
    }

    /// The row of [`begin`](Self::begin), and the message that must be in it.
    pub(crate) fn begins_with(&self) -> Option<(i64, &MessageId)> {
        self.cut().map(|(row, cut)| (row, &cut.first))
    }

    /// The rows before `from` that are handed over all the same.
    pub(crate) fn looked_up(&self, from: i64) -> Vec<i64> {
        let stored = self.cut().into_iter().flat_map(|(_, cut)| cut.stored.iter().map(|(_, row)| *row));
        let given = self.given.values().flatten().chain(self.customs.values().flatten());
        let all: BTreeSet<i64> = given.chain(&self.remembered).copied().chain(stored).collect();
        all.into_iter().filter(|row| *row < from).collect()
    }

    /// The entries that the conversation goes on from: those looked up, sums of the others, and the tail.
    pub(crate) fn live(&self, looked_up: Vec<Entry>, tail: Vec<Entry>) -> LiveEntries {
        let mut later = Sums::default();
        tail.iter().for_each(|entry| later.add(Sums::of(&entry.kind)));
        let sums = self.sums.without(later);
        let mut entries = looked_up;
        for entry in &mut entries {
            // The usage of all that is left out follows in one entry.
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
        let side_call = SideCallOf { source: "session".to_owned(), purpose: "what was left out".to_owned() };
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
