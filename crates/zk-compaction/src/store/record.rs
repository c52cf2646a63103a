use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use zk_core::events::CompactionTrigger;
use zk_core::model::{Message, MessageId, ModelRef, StopReason, Usage};
use zk_core::service::{
    COMPACTION_ENTRY, COMPACTION_VERSION, Compacted, Entry, EntryData, EntryKind, NewEntry, WINDOW_OWNER,
};

use crate::window::view::{Change, View};

/// Record in a session of a change in the sent form of its conversation. Records are only appended; the
/// messages themselves stay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub(crate) enum Record {
    /// A strategy's plan was applied.
    Plan(Planned),
    /// The last compaction was undone.
    Undo,
    /// The conversation is sent unchanged again.
    Whole,
    /// Sizes of the request before and after the compaction with this number.
    Measured {
        /// Number of the compaction.
        number: u32,
        /// Figures of the compaction.
        #[serde(flatten)]
        size: Compacted,
    },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Planned {
    /// Number of the compaction, from 1; its plans share it.
    pub(crate) number: u32,
    pub(crate) strategy: String,
    /// Trigger of the compaction; `None` for a strategy with its own threshold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) trigger: Option<CompactionTrigger>,
    #[serde(flatten)]
    pub(crate) change: Change,
}

impl Record {
    pub(crate) fn to_entry(&self) -> Result<NewEntry, serde_json::Error> {
        Ok(NewEntry::hidden(COMPACTION_ENTRY, COMPACTION_VERSION, serde_json::to_value(self)?))
    }
}

/// Sent form of a stored conversation.
#[derive(Default)]
pub(crate) struct Restored {
    /// Plans in force.
    pub(crate) plans: Vec<Planned>,
    /// Usage that a provider reported last, with its model and answer; `None` if the sent form has changed
    /// since.
    pub(crate) usage: Option<(ModelRef, Usage, Arc<Message>)>,
    /// Last message that an undo brought back.
    pub(crate) taken_back: Option<MessageId>,
    /// Figures of the last compaction in force.
    pub(crate) last: Option<Compacted>,
}

/// Reads the records of `source` from the entries of a branch. Records of a newer version are skipped.
pub(crate) fn read(entries: &[Entry], source: &str) -> Restored {
    let mut restored = Restored::default();
    let mut sizes: Vec<(u32, Compacted)> = Vec::new();
    for entry in entries {
        if let EntryKind::Message { message, usage: Some(turn) } = &entry.kind
            && !is_broken_off(message)
        {
            restored.usage = Some((turn.model.clone(), turn.usage, message.clone()));
        }
        let Some(data) = custom_data(entry, source, COMPACTION_ENTRY, COMPACTION_VERSION) else { continue };
        match data.read() {
            Ok(Record::Plan(plan)) => {
                if is_compaction(&plan) {
                    restored.taken_back = None;
                }
                restored.plans.push(plan);
            }
            Ok(Record::Undo) => {
                let undone = undo(&mut restored.plans);
                let ids = entries.iter().filter_map(|entry| entry.kind.message()?.id.as_ref());
                restored.taken_back = last_of(&undone, ids);
            }
            Ok(Record::Whole) => {
                restored.plans.clear();
                restored.taken_back = None;
            }
            Ok(Record::Measured { number, size }) => {
                sizes.push((number, size));
                // The sent form is as before.
                continue;
            }
            Err(_) => continue,
        }
        // The usage is about messages that are no longer sent.
        restored.usage = None;
    }
    let is_held = |number: u32| restored.plans.iter().any(|plan| plan.number == number);
    restored.last = sizes.into_iter().rev().find(|(number, _)| is_held(*number)).map(|(_, size)| size);
    restored
}

/// Whether an answer ended before its provider reported the whole usage.
fn is_broken_off(message: &Message) -> bool {
    matches!(message.stop, Some(StopReason::Aborted | StopReason::Error))
}

/// Whether a plan belongs to a compaction, and not to a prepared or threshold-based change.
fn is_compaction(plan: &Planned) -> bool {
    plan.trigger.is_some_and(|trigger| match trigger {
        CompactionTrigger::Soft => false,
        CompactionTrigger::Hard | CompactionTrigger::Overflow | CompactionTrigger::Manual => true,
    })
}

/// Number of compactions among the plans.
pub(crate) fn count_compactions(plans: &[Planned]) -> u32 {
    let numbers: BTreeSet<u32> =
        plans.iter().filter(|plan| is_compaction(plan)).map(|plan| plan.number).collect();
    u32::try_from(numbers.len()).unwrap_or(u32::MAX)
}

/// Removes the plans of the last compaction, and later ones that depend on it. Returns them.
pub(crate) fn undo(plans: &mut Vec<Planned>) -> Vec<Planned> {
    let Some(last) = plans.iter().rev().find(|plan| is_compaction(plan)).map(|plan| plan.number) else {
        return Vec::new();
    };
    let (stay, undone) = std::mem::take(plans).into_iter().partition(|plan| plan.number < last);
    *plans = stay;
    undone
}

/// Last of these message ids, in the order of the conversation, that `plans` left out or changed.
pub(crate) fn last_of<'a>(
    plans: &[Planned],
    ids: impl DoubleEndedIterator<Item = &'a MessageId>,
) -> Option<MessageId> {
    let replaced: HashSet<&MessageId> = plans.iter().flat_map(|plan| plan.change.replaced_ids()).collect();
    let kept: HashSet<&MessageId> = plans.iter().filter_map(|plan| plan.change.cut_before()).collect();
    let mut is_cut = false;
    let is_changed = |id: &&MessageId| {
        let is_last = is_cut || replaced.contains(id);
        is_cut = kept.contains(id);
        is_last
    };
    ids.rev().find(is_changed).cloned()
}

/// Applies `plans` to `view`.
pub(crate) fn replay(plans: &[Planned], view: &mut View, messages: &HashMap<MessageId, Arc<Message>>) {
    view.clear();
    for plan in plans {
        view.replay(&plan.change, messages);
    }
}

/// Messages that are sent for a stored conversation with the messages `history`, according to its records.
#[must_use]
pub fn sent_of(entries: &[Entry], history: &[Arc<Message>]) -> Vec<Arc<Message>> {
    let plans = read(entries, WINDOW_OWNER).plans;
    let mut view = View::default();
    if !plans.is_empty() {
        replay(&plans, &mut view, &messages(entries));
    }
    view.sent(history).into_owned()
}

/// Messages of the entries, by id.
pub(crate) fn messages(entries: &[Entry]) -> HashMap<MessageId, Arc<Message>> {
    entries
        .iter()
        .filter_map(|entry| entry.kind.message())
        .filter_map(|message| Some((message.id.clone()?, message.clone())))
        .collect()
}

/// Data of an entry that the plugin `source` appended with this `kind` and `version`.
pub(crate) fn custom_data<'a>(
    entry: &'a Entry,
    source: &str,
    kind: &str,
    version: u32,
) -> Option<&'a EntryData> {
    let EntryKind::Custom(custom) = &entry.kind else { return None };
    let is_it = custom.source == source && custom.kind == kind && custom.version == version;
    is_it.then_some(&custom.data)
}

#[cfg(test)]
mod tests {
    use zk_core::kernel::Bus;
    use zk_core::service::{CompactionMark, WindowPlan};

    use super::*;

    #[test]
    fn a_store_reads_the_marks_of_each_record() {
        let scope = Bus::new().scope(WINDOW_OWNER);
        let mark = |record: &Record| CompactionMark::of(&record.to_entry().unwrap().by(scope.source()));
        assert_eq!(mark(&Record::Undo), Some(CompactionMark::Undo));
        assert_eq!(mark(&Record::Whole), Some(CompactionMark::Whole));
        let history: Vec<_> =
            (0..6).map(|n| Message::user_text(format!("{n}")).identified().shared()).collect();
        let mut view = View::default();
        let summary = Message::user_text("all before").shared();
        let plan = WindowPlan::default().replace(5, summary.clone()).cut(1..4, vec![summary]);
        let change = view.apply(&history, plan).unwrap();
        let trigger = Some(CompactionTrigger::Hard);
        let plan = Planned { number: 3, strategy: "a".to_owned(), trigger, change };
        let read = mark(&Record::Plan(plan)).unwrap();
        let CompactionMark::Plan { number: 3, cut: Some(cut), .. } = &read else { panic!("{read:?}") };
        assert!(read.is_compaction() && Some(&cut.first) == history[4].id.as_ref());
        assert_eq!(cut.stored().collect::<Vec<_>>(), [history[0].id.as_ref().unwrap()]);
    }

    #[test]
    fn an_undo_removes_the_last_compaction_and_later_plans_that_depend_on_it() {
        let soft = Some(CompactionTrigger::Soft);
        let plan = |(number, trigger)| Planned {
            number,
            strategy: "a".to_owned(),
            trigger,
            change: Change::default(),
        };
        let undone = |plans: &[(u32, Option<CompactionTrigger>)]| {
            let mut plans: Vec<Planned> = plans.iter().copied().map(plan).collect();
            let was_one = !undo(&mut plans).is_empty();
            (was_one, plans.into_iter().map(|plan| plan.number).collect::<Vec<_>>())
        };
        for trigger in [CompactionTrigger::Hard, CompactionTrigger::Overflow, CompactionTrigger::Manual] {
            let one = Some(trigger);
            assert_eq!(undone(&[(1, soft), (2, one), (2, one), (3, soft), (4, None)]), (true, vec![1]));
            assert_eq!(undone(&[(1, one), (2, soft), (3, one)]), (true, vec![1, 2]));
        }
        // Shorter results alone are no compaction.
        assert_eq!(undone(&[(1, soft), (2, None)]), (false, vec![1, 2]));
        assert_eq!(undone(&[]), (false, vec![]));
    }
}
