//! Conformance checks for session stores, also for those of other authors.

mod data;
mod failing;
mod leases;
mod listing;
mod log;
mod restored;
mod signals;
mod tree;
mod workspaces;
mod writers;

pub use failing::FailingStore;
pub use workspaces::{PrepareDir, WorkspaceOptions, check_workspaces};

use std::fmt;
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use zk_core::service::SessionStore;

use crate::report::Conformance;

/// Longest time for one check.
const LIMIT: Duration = Duration::from_secs(120);

/// Abilities of a store that [`check_store`] checks.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Whether two stores made for one place see each other's sessions and locks, as two processes do.
    pub shares: bool,
    /// Whether titles can be changed.
    pub renames: bool,
    /// Whether a listing tells the branch of version control.
    pub tells_branches: bool,
    /// Whether a restored session has the ids and times of the given entries.
    pub restores_ids: bool,
    /// Two directories that sessions are stored for. They need not exist.
    pub directories: [PathBuf; 2],
}

impl Default for StoreOptions {
    /// Options of a store that can do everything.
    fn default() -> Self {
        let directories = ["/zk-store-check/here", "/zk-store-check/there"].map(PathBuf::from);
        Self { shares: true, renames: true, tells_branches: true, restores_ids: true, directories }
    }
}

/// Checks the contract of [`SessionStore`] and [`OpenSession`](zk_core::service::OpenSession): appends that
/// come back whole and in order, restored sessions, one writer at a time, listings, titles, unknown and closed sessions, entries
/// of any size and text.
///
/// `make` makes the store of a place, which is named by a number: an empty one for a new number, and another
/// store over the stored sessions for a number that was given before.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use std::sync::Arc;
/// use zk_core::service::SessionStore;
/// use zk_session::MemoryStore;
/// use zk_testkit::{StoreOptions, check_store};
///
/// // A store in memory is not seen by another one.
/// let options = StoreOptions { shares: false, ..StoreOptions::default() };
/// let make = |_place: u32| async { Arc::new(MemoryStore::new()) as Arc<dyn SessionStore> };
/// let conformance = check_store(make, &options).await;
/// assert!(conformance.is_met(), "{conformance}");
/// # });
/// ```
pub async fn check_store<F>(make: impl Fn(u32) -> F, options: &StoreOptions) -> Conformance
where
    F: Future<Output = Arc<dyn SessionStore>>,
{
    let mut suite = Suite { make, options, place: 0, found: Conformance::default() };
    suite.check("appended entries come back in order, also after reopening", log::check_entry_order).await;
    suite.check("a session without entries does not exist", log::check_empty_session).await;
    suite.check("a prepared session exists with its first entries", log::check_prepared_session).await;
    suite.check("an append of no entries adds none", log::check_empty_append).await;
    suite.check("each durability stores", log::check_durabilities).await;
    suite.check("entries of each kind, text and size come back unchanged", log::check_entry_contents).await;
    suite.check("a thousand entries come back", log::check_many_entries).await;
    suite
        .check("appends of many tasks form one chain, and none is split", log::check_concurrent_appends)
        .await;
    suite.check("a scan visits all entries of a read, until it is stopped", log::check_scan).await;
    suite.check("the last entries are the end of a read", log::check_last_entries).await;
    suite.check("the entries to continue from end with the last ones", log::check_entries_to_continue).await;
    suite.check("a snapshot is read while the session is open", log::check_snapshot_while_open).await;
    suite.check("the leaf moves to any entry, and the other branches stay", tree::check_leaf_moves).await;
    suite.check("a leaf of an unknown entry adds nothing", tree::check_unknown_leaf).await;
    suite.check("labels are entries, and the last one counts", tree::check_labels).await;
    suite
        .check(
            "a restored session has the tree of its entries, all or nothing",
            restored::check_restored_tree,
        )
        .await;
    suite.check("one writer at a time", writers::check_single_writer).await;
    suite.check("a dropped handle frees its session", writers::check_dropped_handle).await;
    suite.check("a closed session takes no more entries", writers::check_closed_session).await;
    suite.check("an id is taken once", writers::check_taken_id).await;
    suite
        .check("an unknown session is an error that offers a similar id", writers::check_unknown_session)
        .await;
    suite.check("an open session is not deleted", writers::check_delete_while_open).await;
    suite.check("a deleted session is gone", writers::check_delete).await;
    suite.check("two sessions are written side by side", writers::check_two_sessions).await;
    suite.check("a listing is newest first, by directory, up to a limit", listing::check_listing_order).await;
    suite.check("a listing omits unanswered sessions unless asked", listing::check_unanswered).await;
    suite.check("a listing names the parent session", listing::check_parent).await;
    suite
        .check("a listing tells an open session from an interrupted one", listing::check_session_states)
        .await;
    if options.tells_branches {
        suite.check("a listing tells the branch", listing::check_branch).await;
    }
    if options.renames {
        suite.check("a title is changed and given back", listing::check_rename).await;
    }
    if options.shares {
        suite
            .check_on_two("two stores see one another's sessions and locks", writers::check_two_stores)
            .await;
    }
    suite
        .check_ability(
            "an append under an older lease is fenced and writes nothing",
            leases::check_fenced_append,
        )
        .await;
    suite
        .check_ability("a leg and a writer without a lease exclude each other", leases::check_exclusion)
        .await;
    suite.check_ability("mail is taken once, with its entries", leases::check_mail).await;
    suite.check_ability("a fenced append takes no mail", leases::check_fenced_mail).await;
    suite.check_ability("live signals reach those who listen", signals::check_signals).await;
    suite.found
}

struct Suite<'a, M> {
    make: M,
    options: &'a StoreOptions,
    place: u32,
    found: Conformance,
}

impl<M, F> Suite<'_, M>
where
    M: Fn(u32) -> F,
    F: Future<Output = Arc<dyn SessionStore>>,
{
    async fn check(&mut self, name: &'static str, check: impl AsyncFnOnce(Case<'_>) -> Outcome) {
        self.place += 1;
        let store = (self.make)(self.place).await;
        self.run_check(name, check(Case { store: &*store, options: self.options })).await;
    }

    async fn check_on_two(
        &mut self,
        name: &'static str,
        check: impl AsyncFnOnce(Case<'_>, Case<'_>) -> Outcome,
    ) {
        self.place += 1;
        let (one, other) = ((self.make)(self.place).await, (self.make)(self.place).await);
        let case = |store| Case { store, options: self.options };
        self.run_check(name, check(case(&*one), case(&*other))).await;
    }

    /// Checks an ability that a store may lack, with two stores of one place if they share it.
    async fn check_ability(
        &mut self,
        name: &'static str,
        check: impl AsyncFnOnce(Case<'_>, Case<'_>) -> AbilityOutcome,
    ) {
        self.place += 1;
        let one = (self.make)(self.place).await;
        let other = if self.options.shares { (self.make)(self.place).await } else { one.clone() };
        let case = |store| Case { store, options: self.options };
        let outcome = tokio::time::timeout(LIMIT, check(case(&*one), case(&*other))).await;
        match outcome.unwrap_or_else(|_| Err(format!("no end within {} s", LIMIT.as_secs()))) {
            Ok(None) => self.found.skipped.push(name),
            Ok(Some(())) => self.found.add_result(name, Ok(())),
            Err(why) => self.found.add_result(name, Err(why)),
        }
    }

    async fn run_check(&mut self, name: &'static str, check: impl Future<Output = Outcome>) {
        let outcome = tokio::time::timeout(LIMIT, check).await;
        let outcome = outcome.unwrap_or_else(|_| Err(format!("no end within {} s", LIMIT.as_secs())));
        self.found.add_result(name, outcome);
    }
}

type Outcome = Result<(), String>;

/// Outcome of a check of an ability that a store may lack; `None` if it does.
type AbilityOutcome = Result<Option<()>, String>;

/// Store that is checked, and its abilities.
#[derive(Clone, Copy)]
struct Case<'a> {
    store: &'a dyn SessionStore,
    options: &'a StoreOptions,
}

/// Returns an error with the broken rule, unless `holds`.
fn ensure(holds: bool, rule: impl fmt::Display) -> Outcome {
    if holds { Ok(()) } else { Err(rule.to_string()) }
}

/// Returns an error with both values, unless they are equal.
fn ensure_equal<T: PartialEq + fmt::Debug>(rule: &str, found: &T, expected: &T) -> Outcome {
    ensure(found == expected, format_args!("{rule}: {} instead of {}", brief(found), brief(expected)))
}

/// Beginning of a value's debug form.
fn brief(value: &impl fmt::Debug) -> String {
    let mut text = format!("{value:?}");
    if let Some((end, _)) = text.char_indices().nth(300) {
        text.truncate(end);
        text.push('…');
    }
    text
}

/// Converts an error to the text of a failed check.
fn failed(doing: &str) -> impl Fn(zk_core::service::StoreError) -> String {
    move |error| format!("cannot {doing}: {error}")
}
