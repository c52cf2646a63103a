use std::path::Path;
use std::sync::{Arc, Mutex};

use zk_core::model::Message;
use zk_core::service::{Durability, EntryKind, LeftSession, StoreError};
use zk_session::{NoticeSink, OpeningError, SessionPlace, SessionStart};

fn place(dir: &Path) -> (SessionPlace, Arc<Mutex<Vec<String>>>) {
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let kept = told.clone();
    let place = SessionPlace {
        root: Some(dir.join("sessions")),
        store: None,
        saves: true,
        outputs: Some(dir.join("outputs")),
        temporary: dir.to_path_buf(),
        cwd: "/project".into(),
        notices: NoticeSink::new(move |notice| kept.lock().unwrap().push(format!("{notice:?}"))),
        explain: None,
        branch: None,
    };
    (place, told)
}

fn says(text: &str) -> EntryKind {
    EntryKind::Message { message: Message::user_text(text).shared(), usage: None }
}

#[tokio::test]
async fn a_place_that_cannot_be_written_costs_the_session_and_is_told() {
    let temp = tempfile::tempdir().unwrap();
    std::fs::write(temp.path().join("sessions"), "a file").unwrap();
    let (place, told) = place(temp.path());
    let session = place.begin(&SessionStart::New).await.unwrap();
    assert!(session.open.is_none() && session.outputs.as_ref().is_some_and(|dir| dir.is_dir()));
    assert!(told.lock().unwrap().concat().contains("NotSaved"), "{told:?}");
    assert_eq!(session.close().await.unwrap(), LeftSession::Nothing);
    assert!(!session.outputs.unwrap().exists(), "its results go with it");
}

#[tokio::test]
async fn a_session_that_is_asked_for_and_not_there_is_an_error() {
    let temp = tempfile::tempdir().unwrap();
    let (place, _) = place(temp.path());
    let latest = place.begin(&SessionStart::Latest).await;
    assert!(matches!(latest, Err(OpeningError::NothingToContinue { .. })), "{latest:?}");
    let matching = place.begin(&SessionStart::Matching("0a".to_owned())).await;
    assert!(matches!(matching, Err(OpeningError::Store(StoreError::NotFound { .. }))), "{matching:?}");
    let nowhere = SessionPlace { root: None, ..place }.begin(&SessionStart::Latest).await;
    assert!(matches!(nowhere, Err(OpeningError::NoPlace)), "{nowhere:?}");
}

#[tokio::test]
async fn the_last_run_is_previewed_and_a_copy_ends_at_the_entry_that_is_named() {
    let temp = tempfile::tempdir().unwrap();
    let (place, told) = place(temp.path());
    let session = place.begin(&SessionStart::New).await.unwrap();
    let open = session.open.clone().unwrap();
    let runs = ["r_1", "r_2"].map(|run| [EntryKind::RunStart { run_id: run.into() }, says(run)]);
    open.append(runs.concat(), Durability::Process).await.unwrap();
    let entries = open.entries().await.unwrap();
    let copy = session.copy_up_to(&place, &entries[1].id).await.unwrap();
    let missing = session.copy_up_to(&place, &"e_none".into()).await;
    assert!(matches!(missing, Err(OpeningError::NoEntry(_))), "{missing:?}");
    let id = open.id().clone();
    open.close().await.unwrap();
    drop((session, open));
    let preview = place.preview(&SessionStart::Matching(id.to_string())).await;
    assert_eq!(preview.iter().map(|entry| &entry.id).collect::<Vec<_>>(), [&entries[2].id, &entries[3].id]);
    let copied = place.begin(&SessionStart::Matching(copy.to_string())).await.unwrap();
    assert!(copied.resumed);
    assert_eq!(copied.loaded.messages.len(), 1);
    assert!(told.lock().unwrap().concat().contains("Interrupted"), "its run has no end: {told:?}");
}

#[tokio::test]
async fn the_leaf_of_an_open_session_moves_and_the_next_close_is_of_the_one_that_continues() {
    let temp = tempfile::tempdir().unwrap();
    let (place, _) = place(temp.path());
    let session = place.begin(&SessionStart::New).await.unwrap();
    let open = session.open.clone().unwrap();
    let kinds = vec![says("one"), says("two"), says("three")];
    let ids = open.append(kinds, Durability::Process).await.unwrap();
    let path = session.find_path(Some(&ids[0])).await.unwrap();
    let left: Vec<_> = path.left.iter().map(|message| message.text()).collect();
    assert_eq!((path.from.as_ref(), left), (ids.last(), vec!["two".to_owned(), "three".to_owned()]));
    let unknown = session.find_path(Some(&"e_none".into())).await;
    assert!(matches!(unknown, Err(OpeningError::Store(StoreError::NoEntry { .. }))), "{unknown:?}");
    let moved = session.move_leaf(&place, Some(&ids[0]), Some("a summary".to_owned())).await.unwrap();
    let texts = |messages: &[Arc<Message>]| messages.iter().map(|one| one.text()).collect::<Vec<_>>();
    assert_eq!(texts(&moved.loaded.messages), ["one", "a summary"]);
    // The session that was left no longer closes the store's session.
    assert_eq!(session.close().await.unwrap(), LeftSession::Nothing);
    moved.open.as_ref().unwrap().append(vec![says("another two")], Durability::Process).await.unwrap();
    moved.close().await.unwrap();
    // A copy of the other branch has that branch alone.
    let copy = place.copy(open.id(), "/project".into(), ids.last()).await.unwrap().id;
    let copied = place.begin(&SessionStart::Matching(copy.to_string())).await.unwrap();
    assert_eq!(texts(&copied.loaded.messages), ["one", "two", "three"]);
}
