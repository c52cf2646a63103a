use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use zk_core::service::{Entry, EntryVisitor, SessionFilter, SessionStore, SideCallOf, StoreError};
use zk_tui::plain::lines::shorten;

use super::sums::{Answered, Outputs, Sum, answer_of};
use crate::args::actions::CostBy;

/// Row name for the answers of the conversation itself, not of a plugin or part.
const CONVERSATION: &str = "the conversation";

/// Sums of sessions, by session, model, day, plugin or part.
pub(super) struct Totals {
    pub(super) by: CostBy,
    pub(super) sums: BTreeMap<String, Sum>,
    pub(super) total: Sum,
}

impl Totals {
    pub(super) fn new(by: CostBy) -> Self {
        Self { by, sums: BTreeMap::new(), total: Sum::default() }
    }

    pub(super) fn merge(&mut self, more: &Self) {
        for (name, sum) in &more.sums {
            self.sums.entry(name.clone()).or_default().merge(sum);
        }
        self.total.merge(&more.total);
    }

    /// Adds the usage and savings of an entry of `session`.
    pub(super) fn add(&mut self, session: &str, entry: &Entry) {
        if let Some(Answered { turn, side_call }) = answer_of(entry) {
            let name = match (self.by, side_call) {
                (CostBy::Session, _) => session.to_owned(),
                (CostBy::Model, _) => turn.model.to_string(),
                (CostBy::Day, _) => zk_skills::date(entry.time_ms / 1000),
                (CostBy::Plugin, Some(call)) => call.source.clone(),
                (CostBy::Plugin, None) => CONVERSATION.to_owned(),
                (CostBy::Part, call) => {
                    let part = call.map_or(CONVERSATION, SideCallOf::part_name);
                    format!("{part}  {}", turn.model)
                }
            };
            self.sums.entry(name).or_default().add(turn);
            self.total.add(turn);
        }
        if let Some(saved) = Outputs::of(entry) {
            self.total.outputs.add(saved);
            let name = match self.by {
                CostBy::Session => session.to_owned(),
                CostBy::Day => zk_skills::date(entry.time_ms / 1000),
                // One run may have used several of them, so savings cannot be assigned.
                CostBy::Model | CostBy::Plugin | CostBy::Part => return,
            };
            self.sums.entry(name).or_default().outputs.add(saved);
        }
    }
}

/// Visits entries with the shared `state`; only one entry is in memory at a time.
pub(super) fn visiting<T: Send + 'static>(
    state: &Arc<Mutex<T>>,
    mut add: impl FnMut(&mut T, &Entry) + Send + 'static,
) -> EntryVisitor {
    let state = state.clone();
    Box::new(move |entry, _| {
        add(&mut lock(&state), &entry);
        ControlFlow::Continue(())
    })
}

pub(super) fn lock<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sums of sessions, with notices about unreadable ones.
pub(super) struct Summed {
    pub(super) totals: Totals,
    /// Notices about sessions that are left out.
    pub(super) left_out: Vec<String>,
    /// Notices about damaged entries missing in the sums.
    pub(super) damaged: Vec<String>,
}

/// Sums the matching sessions. A session that cannot be read completely is left out with a notice.
pub(super) async fn sum_up(
    store: &dyn SessionStore,
    filter: &SessionFilter,
    by: CostBy,
) -> Result<Summed, StoreError> {
    let mut all = Summed { totals: Totals::new(by), left_out: Vec::new(), damaged: Vec::new() };
    for info in store.list(filter).await? {
        let session = format!("{}  {}", info.id, shorten(&info.title.replace('\n', " ")));
        let summed = Arc::new(Mutex::new(Totals::new(by)));
        let visit = visiting(&summed, move |totals, entry| totals.add(&session, entry));
        // Answers on abandoned branches cost money, too.
        match store.scan_tree(&info.id, visit).await {
            Ok(scan) => {
                all.totals.merge(&lock(&summed));
                all.damaged.extend(scan.notices);
            }
            Err(error) => all.left_out.push(format!("{} is left out: {error}", info.id)),
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use zk_core::model::{Block, Message, ModelRef, TurnUsage, Usage};
    use zk_core::service::{Durability, EntryKind, NewSession};
    use zk_session::MemoryStore;

    use super::*;
    use crate::commands::sessions::breaking_store::BreakingStore;

    #[tokio::test]
    async fn a_session_that_cannot_be_read_to_its_end_is_left_out_as_a_whole() {
        let store = MemoryStore::new();
        let answer = |turn: &str| EntryKind::Message {
            message: Message::assistant(vec![Block::text("Fine.")]).shared(),
            usage: Some(Box::new(TurnUsage {
                turn_id: turn.into(),
                model: ModelRef::new("p", "m"),
                usage: Usage { input: 1, output: 1, ..Usage::default() },
                cost: Some(0.5),
            })),
        };
        for (id, answers) in [("s_whole", 2), ("s_broken", 3)] {
            let new = NewSession { id: Some(id.into()), cwd: "/project".into(), parent: None };
            let open = store.create(new).await.unwrap();
            let answers = (0..answers).map(|number| answer(&format!("t_{number}"))).collect();
            open.append(answers, Durability::Process).await.unwrap();
            open.close().await.unwrap();
        }
        let store = BreakingStore { inner: store, id: "s_broken".into(), entries: 2 };
        let filter = SessionFilter { unanswered: true, ..SessionFilter::default() };
        for by in [CostBy::Session, CostBy::Model, CostBy::Day, CostBy::Plugin, CostBy::Part] {
            let Summed { totals, left_out: notices, .. } = sum_up(&store, &filter, by).await.unwrap();
            assert_eq!((totals.total.spent.answers, totals.total.spent.cost), (2, Some(1.0)), "{by:?}");
            assert_eq!(totals.sums.values().map(|sum| sum.spent.answers).collect::<Vec<_>>(), [2], "{by:?}");
            assert_eq!(notices.len(), 1, "{notices:?}");
            assert!(notices[0].starts_with("s_broken is left out: "), "{notices:?}");
        }
    }
}
