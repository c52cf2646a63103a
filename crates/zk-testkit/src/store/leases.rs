use zk_core::model::SessionId;
use zk_core::service::{
    Durability, Lease, MAX_MAIL_BYTES, Mail, MailKind, OpenSession, SessionStore, StoreError,
};

use super::data::{add, ensure_chained, entries, prompt_entry, turn};
use super::{AbilityOutcome, Case, Outcome, ensure, ensure_equal, failed};

macro_rules! or_skip {
    ($asked:expr, $doing:literal) => {
        match $asked {
            Err(StoreError::Refused(_)) => return Ok(None),
            asked => asked.map_err(failed($doing))?,
        }
    };
}

fn ensure_fenced(id: &SessionId, doing: &str, error: Option<StoreError>) -> Outcome {
    match error {
        Some(StoreError::Fenced { id: named }) => ensure_equal("id in Fenced", &named, id),
        Some(error) => Err(format!("{doing} under an older lease is not Fenced, but: {error}")),
        None => Err(format!("{doing} under an older lease succeeds")),
    }
}

async fn append(session: &dyn OpenSession, text: &str) -> Option<StoreError> {
    session.append(vec![prompt_entry(text)], Durability::Disk).await.err()
}

async fn open(
    store: &dyn SessionStore,
    id: &SessionId,
    token: u64,
) -> Result<std::sync::Arc<dyn OpenSession>, String> {
    store.open_leased(id, &Lease::new(token)).await.map_err(failed("open a session under a lease"))
}

/// Checks that an older leg writes nothing once a newer leg opened the session.
pub(super) async fn check_fenced_append(one: Case<'_>, other: Case<'_>) -> AbilityOutcome {
    let id = one.store_session(1).await?;
    let old = or_skip!(one.store.open_leased(&id, &Lease::new(7)).await, "open a session under a lease");
    add(&*old, turn(1)).await?;
    let new = open(other.store, &id, 8).await?;
    ensure_fenced(&id, "an append", append(&*old, "late").await)?;
    ensure_fenced(&id, "an append", append(&*old, "later").await)?;
    ensure_fenced(&id, "opening", one.store.open_leased(&id, &Lease::new(7)).await.err())?;
    ensure_equal("number of entries", &entries(&*new).await?.len(), &6)?;
    add(&*new, turn(2)).await?;
    ensure_fenced(&id, "an append", append(&*old, "latest").await)?;
    old.close().await.map_err(failed("close a fenced session"))?;
    drop(old);
    add(&*new, turn(3)).await?;
    new.close().await.map_err(failed("close a session"))?;
    let all = one.read(&id).await?;
    ensure_equal("number of entries", &all.len(), &12)?;
    ensure_chained(&all)?;
    // The lease token stays in force after its writer closed the session.
    ensure_fenced(&id, "opening", other.store.open_leased(&id, &Lease::new(7)).await.err())?;
    drop(open(one.store, &id, 8).await?);
    Ok(Some(()))
}

/// Checks that a leg and a writer without a lease exclude each other.
pub(super) async fn check_exclusion(one: Case<'_>, other: Case<'_>) -> AbilityOutcome {
    let id = one.store_session(1).await?;
    let leg = or_skip!(one.store.open_leased(&id, &Lease::new(1)).await, "open a session under a lease");
    let in_use = |error: Option<StoreError>, doing: &str| match error {
        Some(StoreError::InUse { .. }) => Ok(()),
        error => Err(format!("{doing} is not InUse: {error:?}")),
    };
    in_use(other.store.open(&id).await.err(), "opening a session of a leg")?;
    in_use(other.store.delete(&id).await.err(), "deleting a session of a leg")?;
    ensure(other.find_listed(&id).await?.lock.is_some(), "a listing shows no lock of a leg")?;
    leg.close().await.map_err(failed("close a session"))?;
    drop(leg);
    ensure(other.find_listed(&id).await?.lock.is_none(), "a listing shows the lock of a leg that ended")?;
    let person = other.open(&id).await?;
    in_use(one.store.open_leased(&id, &Lease::new(2)).await.err(), "a leg of an open session")?;
    add(&*person, turn(1)).await?;
    person.close().await.map_err(failed("close a session"))?;
    let leg = open(one.store, &id, 2).await?;
    ensure_equal("number of entries", &entries(&*leg).await?.len(), &6)?;
    Ok(Some(()))
}

/// Checks that mail keeps its order, is taken once with its entries, and is posted only once.
pub(super) async fn check_mail(one: Case<'_>, other: Case<'_>) -> AbilityOutcome {
    let id = one.store_session(1).await?;
    let steer = Mail::new(MailKind::Steer { text: "first".to_owned() });
    or_skip!(other.store.post_mail(&id, &steer).await, "post mail");
    let session = one.open(&id).await?;
    let stop = Mail::new(MailKind::Abort { reason: None });
    other.store.post_mail(&id, &stop).await.map_err(failed("post mail to an open session"))?;
    let waiting = async || session.mail().await.map_err(failed("read mail"));
    ensure_equal("waiting mail", &waiting().await?, &vec![steer.clone(), stop.clone()])?;
    let taken = vec![steer.id.clone(), "l_unknown".into()];
    let taking = session.append_taking(vec![prompt_entry("first")], taken, Durability::Process).await;
    taking.map_err(failed("append entries that take mail"))?;
    ensure_equal("waiting mail", &waiting().await?, &vec![stop.clone()])?;
    ensure_equal("number of entries", &entries(&*session).await?.len(), &4)?;
    for again in [&steer, &stop] {
        match other.store.post_mail(&id, again).await {
            Err(StoreError::PostedBefore { mail, .. }) => ensure_equal("id of the mail", &mail, &again.id)?,
            posted => return Err(format!("mail posted twice is not PostedBefore: {posted:?}")),
        }
    }
    let large = Mail::new(MailKind::FollowUp { text: "x".repeat(MAX_MAIL_BYTES) });
    match other.store.post_mail(&id, &large).await {
        Err(StoreError::Refused(why)) => ensure(why.contains("at most"), format_args!("no limit in: {why}"))?,
        posted => return Err(format!("mail over the limit is not refused: {posted:?}")),
    }
    let unknown = other.store.post_mail(&"s_nowhere".into(), &steer).await;
    ensure(
        matches!(unknown, Err(StoreError::NotFound { .. })),
        format_args!("mail to an unknown session is not NotFound: {unknown:?}"),
    )?;
    session.close().await.map_err(failed("close a session"))?;
    drop(session);
    let session = one.open(&id).await?;
    ensure_equal("mail after reopening", &session.mail().await.map_err(failed("read mail"))?, &vec![stop])?;
    Ok(Some(()))
}

/// Checks that a fenced append takes no mail.
pub(super) async fn check_fenced_mail(one: Case<'_>, other: Case<'_>) -> AbilityOutcome {
    let id = one.store_session(1).await?;
    let old = or_skip!(one.store.open_leased(&id, &Lease::new(1)).await, "open a session under a lease");
    let steer = Mail::new(MailKind::Steer { text: "once".to_owned() });
    or_skip!(one.store.post_mail(&id, &steer).await, "post mail");
    let new = open(other.store, &id, 2).await?;
    let late = old.append_taking(vec![prompt_entry("once")], vec![steer.id.clone()], Durability::Disk).await;
    ensure_fenced(&id, "an append", late.err())?;
    ensure_equal("waiting mail", &new.mail().await.map_err(failed("read mail"))?, &vec![steer])?;
    Ok(Some(()))
}
