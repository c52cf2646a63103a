use serde_json::{Value, json};
use zk_core::model::{Spending, TurnUsage, Usage};
use zk_core::service::{Entry, EntryKind, SideCallOf};
use zk_tui::{dollars, thousands};

use super::records::{SAVINGS, SOURCE};

/// Usage and cost of several answers.
#[derive(Default)]
pub(super) struct Sum {
    pub(super) spent: Spending,
    pub(super) outputs: Outputs,
}

/// Bytes of shortened command outputs, before and after.
#[derive(Clone, Copy, Default)]
pub(super) struct Outputs {
    pub(super) before: u64,
    pub(super) after: u64,
}

impl Outputs {
    /// Reads the savings from an entry, if it has them.
    pub(super) fn of(entry: &Entry) -> Option<Self> {
        match &entry.kind {
            EntryKind::Custom(custom) if custom.source == SOURCE && custom.kind == SAVINGS => {
                let data = custom.data.value();
                let bytes = |name: &str| data.get(name).and_then(Value::as_u64).unwrap_or_default();
                Some(Self { before: bytes("before"), after: bytes("after") })
            }
            _ => None,
        }
    }

    pub(super) fn add(&mut self, more: Self) {
        self.before += more.before;
        self.after += more.after;
    }

    /// Describes the savings in words.
    pub(super) fn line(self) -> Option<String> {
        let percent = (self.before.saturating_sub(self.after) * 100).checked_div(self.before)?;
        let kb = |bytes: u64| bytes.div_ceil(1024);
        Some(format!(
            "outputs of commands: {} KB became {} KB before a model got them, {percent} % less; the whole of each is kept \
             (`tools.compress`)",
            kb(self.before),
            kb(self.after)
        ))
    }
}

impl Sum {
    pub(super) fn merge(&mut self, more: &Self) {
        self.spent.merge(&more.spent);
        self.outputs.add(more.outputs);
    }

    pub(super) fn add(&mut self, turn: &TurnUsage) {
        self.spent.add(turn);
    }

    pub(super) fn line(&self, name: &str, columns: usize) -> String {
        let Usage { input, output, cache_read, cache_write, .. } = self.spent.usage;
        let read = input + cache_read + cache_write;
        let hits = (cache_read * 100).checked_div(read).unwrap_or(0);
        let cost = match (self.spent.cost, self.spent.unpriced) {
            (Some(cost), 0) => dollars(cost),
            (Some(cost), unknown) => format!("{} and {unknown} without a price", dollars(cost)),
            (None, _) => "no price known".to_owned(),
        };
        format!(
            "{name:<columns$} {:>5} answers {:>8} read ({hits:>3}% from the cache) {:>8} written  {cost}",
            self.spent.answers,
            thousands(read),
            thousands(output)
        )
    }

    pub(super) fn json(&self, name: &str) -> Value {
        json!({
            "name": name,
            "answers": self.spent.answers,
            "input": self.spent.usage.input,
            "cache_read": self.spent.usage.cache_read,
            "cache_write": self.spent.usage.cache_write,
            "output": self.spent.usage.output,
            "cost": self.spent.cost,
            "without_price": self.spent.unpriced,
            "output_bytes": self.outputs.before,
            "output_bytes_sent": self.outputs.after,
        })
    }
}

/// An answer of a model with its usage.
pub(super) struct Answered<'a> {
    pub(super) turn: &'a TurnUsage,
    /// Plugin that made the request outside of the conversation, if any.
    pub(super) side_call: Option<&'a SideCallOf>,
}

/// Returns the answer recorded in an entry, if any.
pub(super) fn answer_of(entry: &Entry) -> Option<Answered<'_>> {
    match &entry.kind {
        EntryKind::Message { usage: Some(turn), .. } => Some(Answered { turn, side_call: None }),
        EntryKind::Usage { usage: turn, side_call } => Some(Answered { turn, side_call: side_call.as_ref() }),
        _ => None,
    }
}
