use zk_core::model::SessionId;
use zk_core::service::{NewSession, StoreError};

use super::data::{add, chained, entries, every, says, turn};
use super::{Case, Outcome, ensure, equal, failed};

/// Checks that an error says by which process session `id` is in use.
fn in_use(id: &SessionId, doing: &str, error: Option<StoreError>) -> Outcome {
    match error {
        Some(StoreError::InUse { id: named, pid }) => {
            equal("id in InUse", &named, id)?;
            equal("process in InUse", &pid, &std::process::id())
        }
        Some(error) => Err(format!("{doing} an open session is not InUse, but: {error}")),
        None => Err(format!("{doing} an open session succeeds")),
    }
}

fn not_found(doing: &str, error: Option<StoreError>) -> Outcome {
    match error {
        Some(StoreError::NotFound { .. }) => Ok(()),
        Some(error) => Err(format!("{doing} an unknown session is not NotFound, but: {error}")),
        None => Err(format!("{doing} an unknown session succeeds")),
    }
}

pub(super) async fn one_writer(case: Case<'_>) -> Outcome {
    let session = case.create().await?;
    add(&*session, turn(0)).await?;
    let id = session.id().clone();
    in_use(&id, "opening", case.store.open(&id).await.err())?;
    in_use(&id, "opening", case.store.open(&id).await.err())?;
    add(&*session, turn(1)).await?;
    session.close().await.map_err(failed("close a session"))?;
    let second = case.open(&id).await?;
    in_use(&id, "opening", case.store.open(&id).await.err())?;
    equal("number of entries", &entries(&*second).await?.len(), &6)?;
    add(&*second, turn(2)).await?;
    // A closed handle that is dropped late frees no lock of another handle.
    drop(session);
    in_use(&id, "opening", case.store.open(&id).await.err())?;
    second.close().await.map_err(failed("close a session"))
}

pub(super) async fn dropped(case: Case<'_>) -> Outcome {
    let session = case.create().await?;
    add(&*session, turn(0)).await?;
    let id = session.id().clone();
    drop(session);
    // Some stores free it in the background.
    for _ in 0..500 {
        match case.store.open(&id).await {
            Ok(session) => return equal("number of entries", &entries(&*session).await?.len(), &3),
            Err(StoreError::InUse { .. }) => {
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
            Err(error) => return Err(format!("cannot open a session whose handle was dropped: {error}")),
        }
    }
    Err("a session whose handle was dropped is still in use".to_owned())
}

pub(super) async fn closed(case: Case<'_>) -> Outcome {
    let session = case.create().await?;
    add(&*session, turn(0)).await?;
    session.close().await.map_err(failed("close a session"))?;
    session.close().await.map_err(failed("close a session twice"))?;
    ensure(add(&*session, turn(1)).await.is_err(), "a closed session takes entries")?;
    ensure(session.entries().await.is_err(), "a closed session gives its entries")?;
    equal("number of entries", &case.read(session.id()).await?.len(), &3)
}

pub(super) async fn ids(case: Case<'_>) -> Outcome {
    let first = case.create_as(Some("s_own")).await?;
    equal("id of a session created with an id", &first.id().as_str(), &"s_own")?;
    add(&*first, turn(0)).await?;
    // A store may check the id on creation or on the first append.
    if let Ok(second) = case.create_as(Some("s_own")).await {
        ensure(add(&*second, turn(5)).await.is_err(), "an id is taken twice")?;
        ensure(second.entries().await.is_ok_and(|all| all.is_empty()), "a refused append left entries")?;
        drop(second);
    }
    equal("number of entries", &entries(&*first).await?.len(), &3)?;
    add(&*first, turn(1)).await?;
    chained(&entries(&*first).await?)
}

pub(super) async fn unknown(case: Case<'_>) -> Outcome {
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
        not_found("opening", case.store.open(&id).await.err())?;
        not_found("reading", case.store.read(&id).await.err())?;
        not_found("deleting", case.store.delete(&id).await.err())?;
        if case.options.renames {
            not_found("renaming", case.store.rename(&id, "a title").await.err())?;
        }
    }
    equal("number of listed sessions", &case.list(&every()).await?.len(), &1)
}

pub(super) async fn delete_open(case: Case<'_>) -> Outcome {
    let session = case.create().await?;
    add(&*session, turn(0)).await?;
    in_use(session.id(), "deleting", case.store.delete(session.id()).await.err())?;
    add(&*session, turn(1)).await?;
    equal("number of entries", &entries(&*session).await?.len(), &6)
}

pub(super) async fn delete(case: Case<'_>) -> Outcome {
    let (id, other) = (case.stored(2).await?, case.stored(1).await?);
    case.store.delete(&id).await.map_err(failed("delete a session"))?;
    not_found("opening", case.store.open(&id).await.err())?;
    not_found("reading", case.store.read(&id).await.err())?;
    not_found("deleting", case.store.delete(&id).await.err())?;
    let left: Vec<SessionId> = case.list(&every()).await?.into_iter().map(|info| info.id).collect();
    equal("listed sessions", &left, &vec![other])?;
    // The id is free again.
    let again = case.create_as(Some(id.as_str())).await?;
    add(&*again, vec![says("new")]).await?;
    equal("number of entries", &entries(&*again).await?.len(), &1)
}

pub(super) async fn side_by_side(case: Case<'_>) -> Outcome {
    let (one, other) = (case.create().await?, case.create().await?);
    ensure(one.id() != other.id(), "two sessions have one id")?;
    for n in 0..5 {
        let (one, other) = tokio::join!(add(&*one, turn(n)), add(&*other, vec![says(&format!("{n}"))]));
        one?;
        other?;
    }
    let (first, second) = (entries(&*one).await?, entries(&*other).await?);
    equal("number of entries", &(first.len(), second.len()), &(15, 5))?;
    chained(&first)?;
    chained(&second)
}

pub(super) async fn two_stores(one: Case<'_>, other: Case<'_>) -> Outcome {
    let session = one.create().await?;
    add(&*session, turn(0)).await?;
    let id = session.id().clone();
    in_use(&id, "opening", other.store.open(&id).await.err())?;
    in_use(&id, "deleting", other.store.delete(&id).await.err())?;
    equal("number of entries", &other.read(&id).await?.len(), &3)?;
    ensure(other.listed(&id).await?.lock.is_some(), "another store's listing shows no lock")?;
    let new = NewSession { id: Some(id.clone()), cwd: other.here().to_path_buf(), parent: None };
    if let Ok(twin) = other.store.create(new).await {
        ensure(add(&*twin, turn(7)).await.is_err(), "an id is taken by two stores")?;
    }
    add(&*session, turn(1)).await?;
    session.close().await.map_err(failed("close a session"))?;
    let second = other.open(&id).await?;
    in_use(&id, "opening", one.store.open(&id).await.err())?;
    add(&*second, turn(2)).await?;
    ensure(add(&*session, turn(9)).await.is_err(), "a closed session takes entries")?;
    second.close().await.map_err(failed("close a session"))?;
    let all = one.read(&id).await?;
    equal("number of entries", &all.len(), &9)?;
    chained(&all)?;
    other.store.delete(&id).await.map_err(failed("delete a session"))?;
    not_found("reading", one.store.read(&id).await.err())
}
