use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::join_all;
use zk_core::model::ModelRef;
use zk_core::service::{Durability, Entry, EntryKind, EntryVisitor, StoreError};

use super::data::{add, all_sessions, any_kinds, ensure_chained, entries, kinds, prompt_entry, turn};
use super::{Case, Outcome, ensure, ensure_equal, failed};

pub(super) async fn check_entry_order(case: Case<'_>) -> Outcome {
    let session = case.create().await?;
    ensure(
        session.cwd().is_none_or(|cwd| cwd == case.first_dir()),
        "a session's directory is not the one it was created in",
    )?;
    let model = EntryKind::Model { model: ModelRef::new("p", "m") };
    let first = add(&*session, vec![prompt_entry("hello"), model]).await?;
    let second = add(&*session, turn(1)).await?;
    let ids = [first, second].concat();
    let written = entries(&*session).await?;
    ensure_equal(
        "ids that append returns, in order",
        &written.iter().map(|entry| entry.id.clone()).collect(),
        &ids,
    )?;
    ensure_chained(&written)?;
    let id = session.id().clone();
    session.close().await.map_err(failed("close a session"))?;
    drop(session);

    let session = case.open(&id).await?;
    ensure_equal("id of a reopened session", session.id(), &id)?;
    ensure(session.notices().is_empty(), format_args!("notices on opening: {:?}", session.notices()))?;
    ensure_equal("entries after reopening", &entries(&*session).await?, &written)?;
    ensure_equal("entries read twice", &entries(&*session).await?, &written)?;
    add(&*session, vec![prompt_entry("more")]).await?;
    let all = entries(&*session).await?;
    ensure_equal("number of entries after another append", &all.len(), &6)?;
    ensure_chained(&all)
}

pub(super) async fn check_empty_session(case: Case<'_>) -> Outcome {
    let session = case.create().await?;
    ensure(entries(&*session).await?.is_empty(), "a new session has entries")?;
    ensure(add(&*session, Vec::new()).await?.is_empty(), "an append of no entries returns ids")?;
    ensure(case.list(&all_sessions()).await?.is_empty(), "a session without entries is listed")?;
    match case.store.open(session.id()).await {
        Err(StoreError::NotFound { .. }) => {}
        Err(error) => {
            return Err(format!("opening a session without entries is not NotFound, but: {error}"));
        }
        Ok(_) => return Err("a session without entries can be opened".to_owned()),
    }
    session.close().await.map_err(failed("close a session without entries"))
}

pub(super) async fn check_prepared_session(case: Case<'_>) -> Outcome {
    let session = case.create().await?;
    session.prepare();
    ensure(entries(&*session).await?.is_empty(), "a prepared session has entries")?;
    ensure(case.list(&all_sessions()).await?.is_empty(), "a prepared session is listed")?;
    add(&*session, turn(0)).await?;
    ensure_equal("number of listed sessions", &case.list(&all_sessions()).await?.len(), &1)?;
    session.close().await.map_err(failed("close a session"))
}

pub(super) async fn check_empty_append(case: Case<'_>) -> Outcome {
    let session = case.create().await?;
    add(&*session, turn(0)).await?;
    for durability in [Durability::Process, Durability::Disk] {
        let ids = session.append(Vec::new(), durability).await.map_err(failed("append no entries"))?;
        ensure(ids.is_empty(), "an append of no entries returns ids")?;
    }
    ensure_equal("number of entries", &entries(&*session).await?.len(), &3)
}

pub(super) async fn check_durabilities(case: Case<'_>) -> Outcome {
    let session = case.create().await?;
    for (n, durability) in [Durability::Disk, Durability::Process, Durability::Disk].into_iter().enumerate() {
        session.append(turn(n), durability).await.map_err(failed("append"))?;
    }
    session.close().await.map_err(failed("close a session"))?;
    let read = case.read(session.id()).await?;
    ensure_equal("number of entries", &read.len(), &9)?;
    ensure_chained(&read)
}

pub(super) async fn check_entry_contents(case: Case<'_>) -> Outcome {
    let session = case.create().await?;
    let mut expected = any_kinds();
    expected.push(prompt_entry(&"ä€😀\n".repeat(100_000)));
    // Many small entries, and all in one append.
    for kind in &expected {
        add(&*session, vec![kind.clone()]).await?;
    }
    add(&*session, expected.clone()).await?;
    expected.extend(expected.clone());
    session.close().await.map_err(failed("close a session"))?;
    let read = case.read(session.id()).await?;
    for (at, (found, expected)) in read.iter().zip(&expected).enumerate() {
        ensure_equal(&format!("content of entry {at}"), &found.kind, expected)?;
    }
    ensure_equal("number of entries", &read.len(), &expected.len())?;
    ensure_chained(&read)
}

pub(super) async fn check_many_entries(case: Case<'_>) -> Outcome {
    let session = case.create().await?;
    let mut expected = Vec::new();
    for n in 0..250 {
        let kinds = vec![prompt_entry(&format!("a{n}")), prompt_entry(&format!("b{n}"))];
        expected.extend(kinds.clone());
        add(&*session, kinds).await?;
    }
    let rest: Vec<EntryKind> = (0..500).map(|n| prompt_entry(&format!("c{n}"))).collect();
    expected.extend(rest.clone());
    add(&*session, rest).await?;
    session.close().await.map_err(failed("close a session"))?;
    let session = case.open(session.id()).await?;
    let read = entries(&*session).await?;
    ensure_equal("number of entries", &read.len(), &1_000)?;
    ensure(kinds(&read).into_iter().eq(&expected), "entries differ from the appended ones")?;
    ensure_chained(&read)?;
    ensure_equal("messages in the listing", &case.find_listed(session.id()).await?.messages, &1_000)
}

pub(super) async fn check_concurrent_appends(case: Case<'_>) -> Outcome {
    const TASKS: usize = 20;
    const APPENDS: usize = 10;
    let session = case.create().await?;
    let tasks = (0..TASKS).map(|n| {
        let session = session.clone();
        async move {
            for step in 0..APPENDS {
                add(&*session, vec![prompt_entry(&format!("{n}")), prompt_entry(&format!("{n}.{step}"))])
                    .await?;
            }
            Ok::<(), String>(())
        }
    });
    join_all(tasks).await.into_iter().collect::<Result<(), _>>()?;
    let all = entries(&*session).await?;
    ensure_equal("number of entries", &all.len(), &(TASKS * APPENDS * 2))?;
    ensure_chained(&all)?;
    let texts: Vec<String> =
        all.iter().filter_map(|entry| entry.kind.message()).map(|message| message.text()).collect();
    for pair in texts.chunks(2) {
        if let [first, second] = pair {
            ensure(second.starts_with(&format!("{first}.")), "an append was split by another one")?;
        }
    }
    Ok(())
}

/// Visited entries with their sizes in bytes.
type Visited = Arc<Mutex<Vec<(Entry, usize)>>>;

/// Visitor that collects up to `most` entries, and then stops the scan.
fn visitor_up_to(most: usize) -> (EntryVisitor, Visited) {
    let kept = Visited::default();
    let keep = kept.clone();
    let visit = Box::new(move |entry: Entry, bytes: usize| {
        let mut kept = keep.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push((entry, bytes));
        if kept.len() == most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    (visit, kept)
}

pub(super) async fn check_scan(case: Case<'_>) -> Outcome {
    let id = case.store_session(4).await?;
    let expected = case.read(&id).await?;
    for most in [usize::MAX, 5] {
        let (visit, kept) = visitor_up_to(most);
        let scan = case.store.scan(&id, visit).await.map_err(failed("scan a session"))?;
        ensure_equal("id of a scanned session", &scan.info.id, &id)?;
        ensure(scan.notices.is_empty(), format_args!("notices on scanning: {:?}", scan.notices))?;
        let kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        ensure(
            kept.iter().map(|(entry, _)| entry).eq(expected.iter().take(most)),
            format_args!("{} entries were visited, at most {most} of {}", kept.len(), expected.len()),
        )?;
        for (entry, size) in &*kept {
            let json = serde_json::to_string(&entry.kind).map_err(|error| error.to_string())?;
            ensure_equal("size of an entry's kind as JSON", size, &json.len())?;
        }
    }
    let session = case.open(&id).await?;
    let (visit, kept) = visitor_up_to(usize::MAX);
    session.scan(visit).await.map_err(failed("scan an open session"))?;
    let is_same = {
        let kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().map(|(entry, _)| entry).eq(&expected)
    };
    ensure(is_same, "a scan of an open session differs from a read")?;
    let (visit, _) = visitor_up_to(usize::MAX);
    match case.store.scan(&"s_nowhere".into(), visit).await {
        Err(StoreError::NotFound { .. }) => Ok(()),
        other => Err(format!("scanning an unknown session is not NotFound, but {other:?}")),
    }
}

pub(super) async fn check_last_entries(case: Case<'_>) -> Outcome {
    let id = case.store_session(3).await?;
    let all = case.read(&id).await?;
    for most in [0, 1, 4, 9, 100] {
        let last = case.store.last_entries(&id, most).await.map_err(failed("read the last entries"))?;
        let expected = all.iter().skip(all.len().saturating_sub(most)).cloned().collect();
        ensure_equal(&format!("the last {most} entries"), &last, &expected)?;
    }
    Ok(())
}

pub(super) async fn check_entries_to_continue(case: Case<'_>) -> Outcome {
    let id = case.store_session(3).await?;
    let all = case.read(&id).await?;
    let read = case.store.read_live(&id).await.map_err(failed("read the entries to continue from"))?;
    ensure(all.ends_with(read.tail()) && !read.tail().is_empty(), "the live tail is no end of the session")?;
    let session = case.open(&id).await?;
    let live = session.live().await.map_err(failed("read the live entries of an open session"))?;
    ensure(all.ends_with(live.tail()) && !live.tail().is_empty(), "the live tail is no end of the session")
}

pub(super) async fn check_snapshot_while_open(case: Case<'_>) -> Outcome {
    let session = case.create().await?;
    for n in 0..3 {
        add(&*session, turn(n)).await?;
        let (read, own) = (case.read(session.id()).await?, entries(&*session).await?);
        ensure_equal("entries of a snapshot of an open session", &read, &own)?;
        ensure_equal("number of entries", &read.len(), &((n + 1) * 3))?;
    }
    Ok(())
}
