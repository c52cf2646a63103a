use std::collections::{BTreeMap, HashSet};

use super::{Entry, EntryKind, StoreError};
use crate::model::{EntryId, SessionId};

/// Returns the present branch of a log: its last entry with all ancestors, from the root to the leaf.
/// `entries` are those of all branches in the order of writing. If an ancestor is missing, the branch begins
/// after it.
///
/// ```
/// use zk_core::service::{Entry, EntryKind, present_branch};
///
/// let entry = |id: &str, parent: Option<&str>, kind| {
///     Entry { id: id.into(), parent: parent.map(Into::into), time_ms: 0, kind }
/// };
/// let run = || EntryKind::RunStart { run_id: "r".into() };
/// let back = EntryKind::Leaf { to: Some("a".into()), left: Some("b".into()) };
/// let log = vec![entry("a", None, run()), entry("b", Some("a"), run()), entry("c", Some("a"), back)];
/// let ids: Vec<String> = present_branch(log).iter().map(|entry| entry.id.to_string()).collect();
/// assert_eq!(ids, ["a", "c"]);
/// ```
#[must_use]
pub fn present_branch(mut entries: Vec<Entry>) -> Vec<Entry> {
    let mut wanted = entries.last().map(|entry| entry.id.clone());
    let mut is_on_branch: Vec<bool> = entries
        .iter()
        .rev()
        .map(|entry| {
            let is_wanted = wanted.as_ref() == Some(&entry.id);
            if is_wanted {
                wanted.clone_from(&entry.parent);
            }
            is_wanted
        })
        .collect();
    entries.retain(|_| is_on_branch.pop().unwrap_or_default());
    entries
}

/// Returns the number of branches of a log: one, and one more for each move of the leaf to an entry that was
/// continued already, if a message follows the move.
///
/// ```
/// assert_eq!(zk_core::service::count_branches(&[]), 1);
/// ```
#[must_use]
pub fn count_branches(entries: &[Entry]) -> u64 {
    let mut branches = 1;
    // Entries that another entry continues. A branch counts from its first message on.
    let mut continued: HashSet<Option<&EntryId>> = HashSet::new();
    let mut moved: Option<Option<&EntryId>> = None;
    for entry in entries {
        if let EntryKind::Leaf { to, .. } = &entry.kind {
            moved = Some(to.as_ref());
            continue;
        }
        if entry.kind.message().is_some()
            && let Some(to) = moved.take()
            && !continued.insert(to)
        {
            branches += 1;
        }
        continued.insert(entry.parent.as_ref());
    }
    branches
}

/// Returns the labels of all entries of a log, of all branches.
///
/// ```
/// assert!(zk_core::service::entry_labels(&[]).is_empty());
/// ```
#[must_use]
pub fn entry_labels(entries: &[Entry]) -> BTreeMap<EntryId, String> {
    let mut labels = BTreeMap::new();
    for entry in entries {
        if let EntryKind::Label { target, label } = &entry.kind {
            match label {
                Some(label) => _ = labels.insert(target.clone(), label.clone()),
                None => _ = labels.remove(target),
            }
        }
    }
    labels
}

/// Checks the position of an [`EntryKind::Leaf`] in an append, for stores: it has to be the first entry, and
/// to name an entry for which `contains` is true.
///
/// ```
/// use zk_core::service::{EntryKind, StoreError, check_leaf};
///
/// let back = || EntryKind::Leaf { to: Some("e_1".into()), left: None };
/// assert!(check_leaf(&"s_1".into(), &[back()], |_| true).is_ok());
/// let unknown = check_leaf(&"s_1".into(), &[back()], |_| false);
/// assert!(matches!(unknown, Err(StoreError::NoEntry { .. })));
/// assert!(check_leaf(&"s_1".into(), &[back(), back()], |_| true).is_err());
/// ```
///
/// # Errors
/// [`StoreError::NoEntry`]; [`StoreError::Failed`] for a leaf that is not the first entry.
pub fn check_leaf(
    session: &SessionId,
    append: &[EntryKind],
    contains: impl FnOnce(&EntryId) -> bool,
) -> Result<(), StoreError> {
    if append.iter().skip(1).any(|kind| matches!(kind, EntryKind::Leaf { .. })) {
        let why = format!("session `{session}`: the leaf can only move with the first entry of an append");
        return Err(StoreError::Failed(why));
    }
    match append.first() {
        Some(EntryKind::Leaf { to: Some(to), .. }) if !contains(to) => {
            Err(StoreError::NoEntry { session: session.clone(), entry: to.clone() })
        }
        Some(_) | None => Ok(()),
    }
}
