use std::path::Path;
use std::time::{Duration, SystemTime};

use zk_core::model::{Message, SessionId};
use zk_core::service::{EntryKind, NewSession, RunStatus, SessionFilter};

use super::data::{add, all_sessions, entry, prompt_entry, turn};
use super::{Case, Outcome, ensure, ensure_equal, failed};

/// Waits until the clock shows another millisecond, so that dates differ.
async fn next_date() {
    let now = SystemTime::now();
    while now.elapsed().unwrap_or_default() < Duration::from_millis(2) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

pub(super) async fn check_listing_order(case: Case<'_>) -> Outcome {
    let mut ids = Vec::new();
    for (n, cwd) in [case.first_dir(), case.second_dir(), case.first_dir()].into_iter().enumerate() {
        let new = NewSession { id: None, cwd: cwd.to_path_buf(), parent: None };
        let session = case.store.create(new).await.map_err(failed("create a session"))?;
        next_date().await;
        add(&*session, turn(n)).await?;
        session.close().await.map_err(failed("close a session"))?;
        ids.push(session.id().clone());
    }
    let [first, second, third] =
        <[SessionId; 3]>::try_from(ids).map_err(|ids| format!("{} sessions were created", ids.len()))?;
    // The oldest becomes the newest.
    next_date().await;
    let session = case.open(&first).await?;
    add(&*session, vec![prompt_entry("again")]).await?;
    session.close().await.map_err(failed("close a session"))?;
    let list = async |cwd: Option<&Path>, limit| -> Result<Vec<SessionId>, String> {
        let filter = SessionFilter { cwd: cwd.map(Path::to_path_buf), limit, unanswered: true };
        Ok(case.list(&filter).await?.into_iter().map(|info| info.id).collect())
    };
    let newest = vec![first.clone(), third.clone(), second.clone()];
    ensure_equal("all sessions", &list(None, None).await?, &newest)?;
    ensure_equal("two sessions", &list(None, Some(2)).await?, &vec![first.clone(), third.clone()])?;
    ensure_equal("no sessions", &list(None, Some(0)).await?, &Vec::new())?;
    ensure_equal(
        "sessions of one directory",
        &list(Some(case.first_dir()), None).await?,
        &vec![first.clone(), third],
    )?;
    ensure_equal("sessions of the other", &list(Some(case.second_dir()), Some(5)).await?, &vec![second])?;
    ensure_equal(
        "sessions of no directory",
        &list(Some(Path::new("/zk/nowhere")), None).await?,
        &Vec::new(),
    )?;
    let info = case.find_listed(&first).await?;
    ensure_equal("number of messages", &info.messages, &4)?;
    ensure_equal("title", &info.title.as_str(), &"prompt 0")?;
    ensure_equal("directory", &&*info.cwd, &case.first_dir())?;
    ensure(info.created <= info.updated, "a session is older than its last entry")?;
    ensure(
        info.unreadable.is_none() && info.lock.is_none(),
        format_args!("state of a closed session: {info:?}"),
    )
}

pub(super) async fn check_unanswered(case: Case<'_>) -> Outcome {
    let session = case.create().await?;
    add(&*session, vec![prompt_entry("a question")]).await?;
    let answered = SessionFilter::default();
    ensure(case.list(&answered).await?.is_empty(), "an unanswered session is listed")?;
    ensure_equal("sessions with unanswered ones", &case.list(&all_sessions()).await?.len(), &1)?;
    add(&*session, vec![entry(Message::assistant(Vec::new()))]).await?;
    session.close().await.map_err(failed("close a session"))?;
    let listed = case.list(&answered).await?;
    ensure_equal("answered sessions", &listed.iter().map(|info| info.answered).collect(), &vec![true])
}

pub(super) async fn check_parent(case: Case<'_>) -> Outcome {
    let first = case.create().await?;
    add(&*first, turn(0)).await?;
    let parent = Some(first.id().clone());
    let new = NewSession { id: None, cwd: case.first_dir().to_path_buf(), parent: parent.clone() };
    let child = case.store.create(new).await.map_err(failed("create a session with a parent"))?;
    add(&*child, turn(0)).await?;
    child.close().await.map_err(failed("close a session"))?;
    let again = case.open(child.id()).await?;
    add(&*again, turn(1)).await?;
    ensure_equal("parent of the first session", &case.find_listed(first.id()).await?.parent, &None)?;
    ensure_equal("parent in a listing", &case.find_listed(child.id()).await?.parent, &parent)?;
    let read = case.store.read(child.id()).await.map_err(failed("read a session"))?;
    ensure_equal("parent in a snapshot", &read.info.parent, &parent)
}

pub(super) async fn check_session_states(case: Case<'_>) -> Outcome {
    let session = case.create().await?;
    add(&*session, vec![EntryKind::RunStart { run_id: "r_1".into() }, prompt_entry("a question")]).await?;
    let open = case.find_listed(session.id()).await?;
    ensure(open.lock.is_some(), "the listing shows no lock of an open session")?;
    ensure(!open.interrupted, "an open session is listed as interrupted")?;
    session.close().await.map_err(failed("close a session"))?;
    let closed = case.find_listed(session.id()).await?;
    ensure(closed.lock.is_none(), "the listing shows a lock of a closed session")?;
    ensure(closed.interrupted, "a session whose run has no end is not listed as interrupted")?;
    let again = case.open(session.id()).await?;
    add(&*again, vec![EntryKind::RunEnd { run_id: "r_1".into(), status: RunStatus::Completed }]).await?;
    again.close().await.map_err(failed("close a session"))?;
    ensure(
        !case.find_listed(session.id()).await?.interrupted,
        "a session whose run has ended is listed as interrupted",
    )
}

pub(super) async fn check_branch(case: Case<'_>) -> Outcome {
    let session = case.create().await?;
    session.note_branch("main".to_owned());
    add(&*session, turn(0)).await?;
    ensure_equal("branch", &case.find_listed(session.id()).await?.branch.as_deref(), &Some("main"))?;
    session.note_branch("feature/ß".to_owned());
    add(&*session, turn(1)).await?;
    session.close().await.map_err(failed("close a session"))?;
    ensure_equal(
        "branch after a change",
        &case.find_listed(session.id()).await?.branch.as_deref(),
        &Some("feature/ß"),
    )
}

pub(super) async fn check_rename(case: Case<'_>) -> Outcome {
    let id = case.store_session(1).await?;
    let title = async || Ok::<String, String>(case.find_listed(&id).await?.title);
    let rename = async |title: &str| {
        case.store.rename(&id, title).await.map_err(failed("change the title of a session"))
    };
    ensure_equal("title", &title().await?, &"prompt 0".to_owned())?;
    rename("a name, großartig").await?;
    ensure_equal("title after a change", &title().await?, &"a name, großartig".to_owned())?;
    let session = case.open(&id).await?;
    rename("while it is open").await?;
    add(&*session, turn(1)).await?;
    session.close().await.map_err(failed("close a session"))?;
    ensure_equal("title after an append", &title().await?, &"while it is open".to_owned())?;
    rename("").await?;
    ensure_equal("title after an empty one", &title().await?, &"prompt 0".to_owned())
}
