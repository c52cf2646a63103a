use zk_core::model::SessionId;
use zk_core::service::{NewSession, StoreError};

use super::data::{add, all_sessions, ensure_chained, entries, prompt_entry, turn};
use super::{Case, Outcome, ensure, ensure_equal, failed};

/// Checks that an error says by which process session `id` is in use.
fn ensure_in_use(id: &SessionId, doing: &str, error: Option<StoreError>) -> Outcome {
    match error {
        Some(StoreError::InUse { id: named, pid }) => {
            ensure_equal("id in InUse", &named, id)?;
            ensure_equal("process in InUse", &pid, &std::process::id())
        }
        Some(error) => Err(format!("{doing} an open session is not InUse, but: {error}")),
        None => Err(format!("{doing} an open session succeeds")),
    }
}

fn ensure_not_found(doing: &str, error: Option<StoreError>) -> Outcome {
    match error {
        Some(StoreError::NotFound { .. }) => Ok(()),
        Some(error) => Err(format!("{doing} an unknown session is not NotFound, but: {error}")),
        None => Err(format!("{doing} an unknown session succeeds")),
    }
}

pub(super) async fn check_single_writer(case: Case<'_>) -> Outcome {
    let session = case.create().await?;
    add(&*session, turn(0)).await?;
    let id = session.id().clone();
    ensure_in_use(&id, "opening", case.store.open(&id).await.err())?;
    ensure_in_use(&id, "opening", case.store.open(&id).await.err())?;
    add(&*session, turn(1)).await?;
    session.close().await.map_err(failed("close a session"))?;
    let second = case.open(&id).await?;
    ensure_in_use(&id, "opening", case.store.open(&id).await.err())?;
    ensure_equal("number of entries", &entries(&*second).await?.len(), &6)?;
    add(&*second, turn(2)).await?;
    // A closed handle that is dropped late frees no lock of another handle.
    drop(session);
    ensure_in_use(&id, "opening", case.store.open(&id).await.err())?;
    second.close().await.map_err(failed("close a session"))
}

pub(super) async fn check_dropped_handle(case: Case<'_>) -> Outcome {
    let session = case.create().await?;
    add(&*session, turn(0)).await?;
    let id = session.id().clone();
    drop(session);
    // Some stores free the session in the background.
    for _ in 0..500 {
        match case.store.open(&id).await {
            Ok(session) => return ensure_equal("number of entries", &entries(&*session).await?.len(), &3),
            Err(StoreError::InUse { .. }) => {
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
            Err(error) => return Err(format!("cannot open a session whose handle was dropped: {error}")),
        }
    }
    Err("a session whose handle was dropped is still in use".to_owned())
}

pub(super) async fn check_closed_session(case: Case<'_>) -> Outcome {
    let session = case.create().await?;
    add(&*session, turn(0)).await?;
    session.close().await.map_err(failed("close a session"))?;
    session.close().await.map_err(failed("close a session twice"))?;
    ensure(add(&*session, turn(1)).await.is_err(), "a closed session takes entries")?;
    ensure(session.entries().await.is_err(), "a closed session gives its entries")?;
    ensure_equal("number of entries", &case.read(session.id()).await?.len(), &3)
}

pub(super) async fn check_taken_id(case: Case<'_>) -> Outcome {
    let first = case.create_as(Some("s_own")).await?;
    ensure_equal("id of a session created with an id", &first.id().as_str(), &"s_own")?;
    add(&*first, turn(0)).await?;
    // A store may check the id on creation or on the first append.
    if let Ok(second) = case.create_as(Some("s_own")).await {
        ensure(add(&*second, turn(5)).await.is_err(), "an id is taken twice")?;
        ensure(second.entries().await.is_ok_and(|all| all.is_empty()), "a refused append left entries")?;
        drop(second);
    }
    ensure_equal("number of entries", &entries(&*first).await?.len(), &3)?;
    add(&*first, turn(1)).await?;
    ensure_chained(&entries(&*first).await?)
}

pub(super) async fn check_unknown_session(case: Case<'_>) -> Outcome {
    let session = case.create_as(Some("s_0123456789")).await?;
    add(&*session, turn(0)).await?;
    session.close().await.map_err(failed("close a session"))?;
    let id = SessionId::from("s_0123456780");
    match case.store.open(&id).await {
        Err(error @ StoreError::NotFound { .. }) => {
            ensure(
                error.to_string().contains("s_0123456789"),
                format_args!("the similar id is not offered: {error}"),
            )?;
        }
        Err(error) => return Err(format!("opening an unknown session is not NotFound, but: {error}")),
        Ok(_) => return Err("an unknown session is opened".to_owned()),
    }
    for id in ["s_nowhere", "s_", "../s", "a/b", "s_%2e", "ß"].map(SessionId::from) {
        ensure_not_found("opening", case.store.open(&id).await.err())?;
        ensure_not_found("reading", case.store.read(&id).await.err())?;
        ensure_not_found("deleting", case.store.delete(&id).await.err())?;
        if case.options.renames {
            ensure_not_found("renaming", case.store.rename(&id, "a title").await.err())?;
        }
    }
    ensure_equal("number of listed sessions", &case.list(&all_sessions()).await?.len(), &1)
}

pub(super) async fn check_delete_while_open(case: Case<'_>) -> Outcome {
    let session = case.create().await?;
    add(&*session, turn(0)).await?;
    ensure_in_use(session.id(), "deleting", case.store.delete(session.id()).await.err())?;
    add(&*session, turn(1)).await?;
    ensure_equal("number of entries", &entries(&*session).await?.len(), &6)
}

pub(super) async fn check_delete(case: Case<'_>) -> Outcome {
    let (id, other) = (case.store_session(2).await?, case.store_session(1).await?);
    case.store.delete(&id).await.map_err(failed("delete a session"))?;
    ensure_not_found("opening", case.store.open(&id).await.err())?;
    ensure_not_found("reading", case.store.read(&id).await.err())?;
    ensure_not_found("deleting", case.store.delete(&id).await.err())?;
    let left: Vec<SessionId> = case.list(&all_sessions()).await?.into_iter().map(|info| info.id).collect();
    ensure_equal("listed sessions", &left, &vec![other])?;
    // The id is free again.
    let again = case.create_as(Some(id.as_str())).await?;
    add(&*again, vec![prompt_entry("new")]).await?;
    ensure_equal("number of entries", &entries(&*again).await?.len(), &1)
}

pub(super) async fn check_two_sessions(case: Case<'_>) -> Outcome {
    let (one, other) = (case.create().await?, case.create().await?);
    ensure(one.id() != other.id(), "two sessions have one id")?;
    for n in 0..5 {
        let (one, other) =
            tokio::join!(add(&*one, turn(n)), add(&*other, vec![prompt_entry(&format!("{n}"))]));
        one?;
        other?;
    }
    let (first, second) = (entries(&*one).await?, entries(&*other).await?);
    ensure_equal("number of entries", &(first.len(), second.len()), &(15, 5))?;
    ensure_chained(&first)?;
    ensure_chained(&second)
}

pub(super) async fn check_two_stores(one: Case<'_>, other: Case<'_>) -> Outcome {
    let session = one.create().await?;
    add(&*session, turn(0)).await?;
    let id = session.id().clone();
    ensure_in_use(&id, "opening", other.store.open(&id).await.err())?;
    ensure_in_use(&id, "deleting", other.store.delete(&id).await.err())?;
    ensure_equal("number of entries", &other.read(&id).await?.len(), &3)?;
    ensure(other.find_listed(&id).await?.lock.is_some(), "another store's listing shows no lock")?;
    let new = NewSession { id: Some(id.clone()), cwd: other.first_dir().to_path_buf(), parent: None };
    if let Ok(twin) = other.store.create(new).await {
        ensure(add(&*twin, turn(7)).await.is_err(), "an id is taken by two stores")?;
    }
    add(&*session, turn(1)).await?;
    session.close().await.map_err(failed("close a session"))?;
    let second = other.open(&id).await?;
    ensure_in_use(&id, "opening", one.store.open(&id).await.err())?;
    add(&*second, turn(2)).await?;
    ensure(add(&*session, turn(9)).await.is_err(), "a closed session takes entries")?;
    second.close().await.map_err(failed("close a session"))?;
    let all = one.read(&id).await?;
    ensure_equal("number of entries", &all.len(), &9)?;
    ensure_chained(&all)?;
    other.store.delete(&id).await.map_err(failed("delete a session"))?;
    ensure_not_found("reading", one.store.read(&id).await.err())
}
