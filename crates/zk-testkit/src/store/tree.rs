use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

use zk_core::model::{EntryId, SessionId};
use zk_core::service::{
    Durability, Entry, EntryKind, EntryVisitor, OpenSession, StoreError, count_branches, entry_labels,
    present_branch,
};

use super::data::{add, chained, entries, says};
use super::{Case, Outcome, ensure, equal, failed};

fn leaf(to: Option<&EntryId>) -> EntryKind {
    EntryKind::Leaf { to: to.cloned(), left: None }
}

fn texts(entries: &[Entry]) -> Vec<String> {
    entries.iter().filter_map(|entry| entry.kind.message()).map(|message| message.text()).collect()
}

fn collecting() -> (EntryVisitor, Arc<Mutex<Vec<Entry>>>) {
    let all: Arc<Mutex<Vec<Entry>>> = Arc::default();
    let seen = all.clone();
    let visit = Box::new(move |entry: Entry, _: usize| {
        seen.lock().unwrap_or_else(PoisonError::into_inner).push(entry);
        ControlFlow::Continue(())
    });
    (visit, all)
}

fn taken(all: &Mutex<Vec<Entry>>) -> Vec<Entry> {
    std::mem::take(&mut *all.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Entries of all branches, which a store and an open session visit alike.
async fn whole_tree(case: Case<'_>, session: &dyn OpenSession) -> Result<Vec<Entry>, String> {
    let (visit, all) = collecting();
    session.scan_tree(visit).await.map_err(failed("visit all branches of an open session"))?;
    let (of_open, of_stored) = (taken(&all), stored_tree(case, session.id()).await?);
    equal("all branches of an open session and of a stored one", &of_open, &of_stored)?;
    Ok(of_open)
}

async fn stored_tree(case: Case<'_>, id: &SessionId) -> Result<Vec<Entry>, String> {
    let (visit, all) = collecting();
    case.store.scan_tree(id, visit).await.map_err(failed("visit all branches"))?;
    Ok(taken(&all))
}

pub(super) async fn moves(case: Case<'_>) -> Outcome {
    let session = case.create().await?;
    let first = add(&*session, vec![says("one"), says("two"), says("three")]).await?;
    let [one, _, three] = first.as_slice() else { return Err("an append returns too few ids".to_owned()) };
    let back = vec![leaf(Some(one)), says("another two")];
    session.append(back, Durability::Disk).await.map_err(failed("move the leaf"))?;
    add(&*session, vec![says("another three")]).await?;
    let steps: [(Option<&EntryId>, &[&str]); 3] =
        [(Some(three), &["one", "two", "three", "new"]), (None, &["new"]), (Some(one), &["one", "new"])];
    equal(
        "present branch",
        &texts(&entries(&*session).await?),
        &["one", "another two", "another three"].map(String::from).to_vec(),
    )?;
    for (to, expected) in steps {
        add(&*session, vec![leaf(to), says("new")]).await?;
        let present = entries(&*session).await?;
        equal(
            "present branch after a move",
            &texts(&present),
            &expected.iter().map(ToString::to_string).collect(),
        )?;
        chained(&present)?;
        let tree = whole_tree(case, &*session).await?;
        equal("present branch of all entries", &present_branch(tree.clone()), &present)?;
        let info = case.listed(session.id()).await?;
        equal("number of branches", &info.branches, &count_branches(&tree))?;
    }
    let (present, tree) = (entries(&*session).await?, whole_tree(case, &*session).await?);
    equal("number of entries of all branches", &tree.len(), &12)?;
    session.close().await.map_err(failed("close a session"))?;
    equal("present branch in a snapshot", &case.read(session.id()).await?, &present)?;
    let session = case.open(session.id()).await?;
    equal("present branch after reopening", &entries(&*session).await?, &present)?;
    add(&*session, vec![says("goes on")]).await?;
    let present = entries(&*session).await?;
    equal(
        "present branch that goes on",
        &texts(&present),
        &["one", "new", "goes on"].map(String::from).to_vec(),
    )?;
    chained(&present)?;
    session.close().await.map_err(failed("close a session"))?;
    equal("number of entries of all branches", &stored_tree(case, session.id()).await?.len(), &13)?;
    equal("messages of all branches in the listing", &case.listed(session.id()).await?.messages, &9)
}

pub(super) async fn unknown_leaf(case: Case<'_>) -> Outcome {
    let session = case.create().await?;
    let unknown = EntryId::from("e_none");
    let refused =
        async |doing: &str, kinds: Vec<EntryKind>| match session.append(kinds, Durability::Process).await {
            Err(StoreError::NoEntry { entry, .. }) => equal("entry in NoEntry", &entry, &unknown),
            Err(error) => Err(format!("{doing} is not NoEntry, but: {error}")),
            Ok(_) => Err(format!("{doing} succeeds")),
        };
    refused("a leaf before the first entry", vec![leaf(Some(&unknown)), says("no")]).await?;
    let ids = add(&*session, vec![says("one")]).await?;
    refused("a leaf of an unknown entry", vec![leaf(Some(&unknown)), says("no")]).await?;
    let late = vec![says("no"), leaf(ids.first())];
    ensure(
        session.append(late, Durability::Process).await.is_err(),
        "a leaf in the middle of an append succeeds",
    )?;
    equal("number of entries", &entries(&*session).await?.len(), &1)?;
    equal("number of branches", &case.listed(session.id()).await?.branches, &1)?;
    add(&*session, vec![says("two")]).await?;
    chained(&entries(&*session).await?)
}

pub(super) async fn labels(case: Case<'_>) -> Outcome {
    let session = case.create().await?;
    let ids = add(&*session, vec![says("one"), says("two")]).await?;
    let [one, two] = ids.as_slice() else { return Err("an append returns too few ids".to_owned()) };
    let label = |target: &EntryId, text: Option<&str>| EntryKind::Label {
        target: target.clone(),
        label: text.map(str::to_owned),
    };
    add(&*session, vec![label(one, Some("start")), label(two, Some("großartig \n\u{0}"))]).await?;
    add(&*session, vec![leaf(Some(one)), label(one, Some("begin"))]).await?;
    let found = entry_labels(&whole_tree(case, &*session).await?);
    equal("label", &found.get(one).map(String::as_str), &Some("begin"))?;
    equal("label of another branch", &found.get(two).map(String::as_str), &Some("großartig \n\u{0}"))?;
    add(&*session, vec![label(two, None)]).await?;
    session.close().await.map_err(failed("close a session"))?;
    let found = entry_labels(&stored_tree(case, session.id()).await?);
    equal("labels after one was removed", &found.into_keys().collect(), &vec![one.clone()])
}
