use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

use zk_core::model::{EntryId, SessionId};
use zk_core::service::{
    Durability, Entry, EntryKind, EntryVisitor, OpenSession, StoreError, count_branches, entry_labels,
    present_branch,
};

use super::data::{add, ensure_chained, entries, prompt_entry};
use super::{Case, Outcome, ensure, ensure_equal, failed};

pub(super) fn leaf_entry(to: Option<&EntryId>) -> EntryKind {
    EntryKind::Leaf { to: to.cloned(), left: None }
}

pub(super) fn texts(entries: &[Entry]) -> Vec<String> {
    entries.iter().filter_map(|entry| entry.kind.message()).map(|message| message.text()).collect()
}

fn collecting_visitor() -> (EntryVisitor, Arc<Mutex<Vec<Entry>>>) {
    let all: Arc<Mutex<Vec<Entry>>> = Arc::default();
    let seen = all.clone();
    let visit = Box::new(move |entry: Entry, _: usize| {
        seen.lock().unwrap_or_else(PoisonError::into_inner).push(entry);
        ControlFlow::Continue(())
    });
    (visit, all)
}

fn take_entries(all: &Mutex<Vec<Entry>>) -> Vec<Entry> {
    std::mem::take(&mut *all.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Returns the entries of all branches; checks that a store and an open session visit the same ones.
async fn whole_tree(case: Case<'_>, session: &dyn OpenSession) -> Result<Vec<Entry>, String> {
    let (visit, all) = collecting_visitor();
    session.scan_tree(visit).await.map_err(failed("visit all branches of an open session"))?;
    let (of_open, of_stored) = (take_entries(&all), stored_tree(case, session.id()).await?);
    ensure_equal("all branches of an open session and of a stored one", &of_open, &of_stored)?;
    Ok(of_open)
}

pub(super) async fn stored_tree(case: Case<'_>, id: &SessionId) -> Result<Vec<Entry>, String> {
    let (visit, all) = collecting_visitor();
    case.store.scan_tree(id, visit).await.map_err(failed("visit all branches"))?;
    Ok(take_entries(&all))
}

pub(super) async fn check_leaf_moves(case: Case<'_>) -> Outcome {
    let session = case.create().await?;
    let first = add(&*session, vec![prompt_entry("one"), prompt_entry("two"), prompt_entry("three")]).await?;
    let [one, _, three] = first.as_slice() else { return Err("an append returns too few ids".to_owned()) };
    let back = vec![leaf_entry(Some(one)), prompt_entry("another two")];
    session.append(back, Durability::Disk).await.map_err(failed("move the leaf"))?;
    add(&*session, vec![prompt_entry("another three")]).await?;
    let steps: [(Option<&EntryId>, &[&str]); 3] =
        [(Some(three), &["one", "two", "three", "new"]), (None, &["new"]), (Some(one), &["one", "new"])];
    ensure_equal(
        "present branch",
        &texts(&entries(&*session).await?),
        &["one", "another two", "another three"].map(String::from).to_vec(),
    )?;
    for (to, expected) in steps {
        add(&*session, vec![leaf_entry(to), prompt_entry("new")]).await?;
        let present = entries(&*session).await?;
        ensure_equal(
            "present branch after a move",
            &texts(&present),
            &expected.iter().map(ToString::to_string).collect(),
        )?;
        ensure_chained(&present)?;
        let tree = whole_tree(case, &*session).await?;
        ensure_equal("present branch of all entries", &present_branch(tree.clone()), &present)?;
        let info = case.find_listed(session.id()).await?;
        ensure_equal("number of branches", &info.branches, &count_branches(&tree))?;
    }
    let (present, tree) = (entries(&*session).await?, whole_tree(case, &*session).await?);
    ensure_equal("number of entries of all branches", &tree.len(), &12)?;
    session.close().await.map_err(failed("close a session"))?;
    ensure_equal("present branch in a snapshot", &case.read(session.id()).await?, &present)?;
    let session = case.open(session.id()).await?;
    ensure_equal("present branch after reopening", &entries(&*session).await?, &present)?;
    add(&*session, vec![prompt_entry("goes on")]).await?;
    let present = entries(&*session).await?;
    ensure_equal(
        "present branch that goes on",
        &texts(&present),
        &["one", "new", "goes on"].map(String::from).to_vec(),
    )?;
    ensure_chained(&present)?;
    session.close().await.map_err(failed("close a session"))?;
    ensure_equal("number of entries of all branches", &stored_tree(case, session.id()).await?.len(), &13)?;
    ensure_equal(
        "messages of all branches in the listing",
        &case.find_listed(session.id()).await?.messages,
        &9,
    )
}

pub(super) async fn check_unknown_leaf(case: Case<'_>) -> Outcome {
    let session = case.create().await?;
    let unknown = EntryId::from("e_none");
    let refused =
        async |doing: &str, kinds: Vec<EntryKind>| match session.append(kinds, Durability::Process).await {
            Err(StoreError::NoEntry { entry, .. }) => ensure_equal("entry in NoEntry", &entry, &unknown),
            Err(error) => Err(format!("{doing} is not NoEntry, but: {error}")),
            Ok(_) => Err(format!("{doing} succeeds")),
        };
    refused("a leaf before the first entry", vec![leaf_entry(Some(&unknown)), prompt_entry("no")]).await?;
    let ids = add(&*session, vec![prompt_entry("one")]).await?;
    refused("a leaf of an unknown entry", vec![leaf_entry(Some(&unknown)), prompt_entry("no")]).await?;
    let late = vec![prompt_entry("no"), leaf_entry(ids.first())];
    ensure(
        session.append(late, Durability::Process).await.is_err(),
        "a leaf in the middle of an append succeeds",
    )?;
    ensure_equal("number of entries", &entries(&*session).await?.len(), &1)?;
    ensure_equal("number of branches", &case.find_listed(session.id()).await?.branches, &1)?;
    add(&*session, vec![prompt_entry("two")]).await?;
    ensure_chained(&entries(&*session).await?)
}

pub(super) async fn check_labels(case: Case<'_>) -> Outcome {
    let session = case.create().await?;
    let ids = add(&*session, vec![prompt_entry("one"), prompt_entry("two")]).await?;
    let [one, two] = ids.as_slice() else { return Err("an append returns too few ids".to_owned()) };
    let label = |target: &EntryId, text: Option<&str>| EntryKind::Label {
        target: target.clone(),
        label: text.map(str::to_owned),
    };
    add(&*session, vec![label(one, Some("start")), label(two, Some("großartig \n\u{0}"))]).await?;
    add(&*session, vec![leaf_entry(Some(one)), label(one, Some("begin"))]).await?;
    let found = entry_labels(&whole_tree(case, &*session).await?);
    ensure_equal("label", &found.get(one).map(String::as_str), &Some("begin"))?;
    ensure_equal("label of another branch", &found.get(two).map(String::as_str), &Some("großartig \n\u{0}"))?;
    add(&*session, vec![label(two, None)]).await?;
    session.close().await.map_err(failed("close a session"))?;
    let found = entry_labels(&stored_tree(case, session.id()).await?);
    ensure_equal("labels after one was removed", &found.into_keys().collect(), &vec![one.clone()])
}
