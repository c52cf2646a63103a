use zk_core::model::{EntryId, SessionId};
use zk_core::service::{Entry, EntryKind, NewSession, StoreError, entry_labels, present_branch};

use super::data::{add, prompt_entry, turn};
use super::tree::{leaf_entry, stored_tree, texts};
use super::{Case, Outcome, ensure, ensure_equal, failed};

/// Time of the first entry of a restored session in milliseconds since 1970, far from that of any store's clock.
const FIRST_TIME_MS: u64 = 1_000_000;

/// Entries of two branches, the present one with a label.
async fn branched_entries(case: Case<'_>) -> Result<Vec<Entry>, String> {
    let session = case.create().await?;
    let ids = add(&*session, vec![prompt_entry("one"), prompt_entry("two"), prompt_entry("three")]).await?;
    let [one, two, _] = ids.as_slice() else { return Err("an append returns too few ids".to_owned()) };
    let label = EntryKind::Label { target: two.clone(), label: Some("second".to_owned()) };
    add(&*session, vec![leaf_entry(Some(one)), prompt_entry("another two"), label]).await?;
    add(&*session, vec![prompt_entry("another three")]).await?;
    session.close().await.map_err(failed("close a session"))?;
    let mut entries = stored_tree(case, session.id()).await?;
    (FIRST_TIME_MS..).step_by(1000).zip(&mut entries).for_each(|(time_ms, entry)| entry.time_ms = time_ms);
    Ok(entries)
}

fn new_session(case: Case<'_>, id: &str) -> NewSession {
    NewSession { id: Some(SessionId::from(id)), cwd: case.first_dir().to_path_buf(), parent: None }
}

/// Place of each entry's parent among the entries.
fn parents(entries: &[Entry]) -> Vec<Option<usize>> {
    let place = |id: &EntryId| entries.iter().position(|entry| entry.id == *id);
    entries.iter().map(|entry| entry.parent.as_ref().and_then(place)).collect()
}

pub(super) async fn check_restored_tree(case: Case<'_>) -> Outcome {
    let entries = branched_entries(case).await?;
    let new = new_session(case, "s_restored");
    let id = case.store.restore(new, entries.clone()).await.map_err(failed("restore a session"))?;
    ensure_equal("id of a restored session", &id.as_str(), &"s_restored")?;
    let restored = stored_tree(case, &id).await?;
    if case.options.restores_ids {
        ensure_equal("entries of a restored session", &restored, &entries)?;
    }
    ensure_equal("texts of a restored session", &texts(&restored), &texts(&entries))?;
    ensure_equal("parents in a restored session", &parents(&restored), &parents(&entries))?;
    let labelled = |entries: &[Entry]| -> Vec<Option<usize>> {
        let place = |id: &EntryId| entries.iter().position(|entry| entry.id == *id);
        entry_labels(entries).keys().map(place).collect()
    };
    ensure_equal("labels of a restored session", &labelled(&restored), &labelled(&entries))?;
    let present = case.read(&id).await?;
    ensure_equal("present branch of a restored session", &texts(&present), &texts(&present_branch(entries)))?;
    let session = case.open(&id).await?;
    add(&*session, turn(1)).await?;
    session.close().await.map_err(failed("close a session"))?;

    let mut broken = branched_entries(case).await?;
    let last = broken.last().cloned().ok_or("a session has no entries")?;
    let unknown = EntryId::from("e_none");
    broken.push(Entry { id: "e_last".into(), kind: leaf_entry(Some(&unknown)), ..last });
    let new = new_session(case, "s_broken");
    let restored = case.store.restore(new, broken).await;
    ensure(restored.is_err(), "a session with a leaf of an unknown entry is restored")?;
    match case.store.read(&SessionId::from("s_broken")).await {
        Err(StoreError::NotFound { .. }) => Ok(()),
        Err(error) => Err(format!("a session whose restoring failed is not NotFound, but: {error}")),
        Ok(_) => Err("a session whose restoring failed is there in part".to_owned()),
    }
}
