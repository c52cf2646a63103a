use std::fs;
use std::path::Path;
use std::time::Duration;

use zk_core::service::{SessionStore, StoreError};
use zk_session::{LeftoverKind, Leftovers, SessionPlace, SqliteStore, Trash, TrashError};

use crate::support::{Add, at, every, files, kinds, says, stored, whole_units};

fn place(dir: &Path) -> SessionPlace {
    let (root, outputs) = (Some(dir.join("s")), Some(dir.join("outputs")));
    SessionPlace { root, saves: true, outputs, cwd: dir.to_path_buf(), ..SessionPlace::default() }
}

#[tokio::test]
async fn a_deleted_session_comes_back_with_all_that_belongs_to_it() {
    let dir = tempfile::tempdir().unwrap();
    let place = place(dir.path());
    let (store, trash) = (place.store().unwrap(), place.trash().unwrap());
    let id = stored(&store, dir.path(), 7).await;
    store.rename(&id, "kept").await.unwrap();
    let outputs = place.outputs_of(&id).unwrap();
    fs::create_dir_all(outputs.join("journal")).unwrap();
    fs::write(outputs.join("journal/one"), "pre-image").unwrap();

    let open = store.open(&id).await.unwrap();
    let busy = trash.put(&id).await.unwrap_err();
    assert!(busy.to_string().contains(&std::process::id().to_string()), "{busy}");
    open.close().await.unwrap();
    drop(open);

    let before = files(dir.path());
    let put = trash.put(&id).await.unwrap();
    assert_eq!((put.title.as_str(), put.bytes > 0), ("kept", true));
    assert!(store.list(&every()).await.unwrap().is_empty() && !outputs.exists());
    assert!(matches!(store.open(&id).await, Err(StoreError::NotFound { .. })));
    assert!(matches!(trash.put(&id).await, Err(TrashError::InTrashAlready(_))));
    assert_eq!(trash.list().await.unwrap(), [put]);

    let unknown = trash.restore("zzz").await.unwrap_err();
    assert!(matches!(unknown, TrashError::NotInTrash { .. }));
    let prefix = id.as_str().get(..id.as_str().len() - 2).unwrap();
    assert_eq!(trash.restore(prefix).await.unwrap(), id);
    assert_eq!(files(dir.path()), before);
    let open = store.open(&id).await.unwrap();
    assert_eq!(whole_units(&open.entries().await.unwrap()), 7);
    assert_eq!(kinds(&open).await.len(), 11);
    assert!(trash.list().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_damaged_session_and_a_lost_record_come_back_too() {
    let dir = tempfile::tempdir().unwrap();
    let place = place(dir.path());
    let (store, trash) = (place.store().unwrap(), place.trash().unwrap());
    let id = stored(&store, dir.path(), 2).await;
    let db = files(dir.path()).into_iter().find(|path| path.ends_with(format!("{id}.db"))).unwrap();
    let whole = fs::read(&db).unwrap();
    fs::write(&db, "garbage").unwrap();
    trash.put(&id).await.unwrap();
    trash.restore(id.as_str()).await.unwrap();
    assert_eq!(fs::read(&db).unwrap(), b"garbage");
    fs::write(&db, whole).unwrap();

    trash.put(&id).await.unwrap();
    let record = dir.path().join("s/.trash").join(id.as_str()).join("trashed.json");
    fs::write(&record, "{").unwrap();
    assert_eq!(trash.list().await.unwrap().len(), 1);
    trash.restore(id.as_str()).await.unwrap();
    assert_eq!(store.read(&id).await.unwrap().entries.len(), 3);

    trash.put(&id).await.unwrap();
    fs::write(&record, r#"{"version": 9, "folder": "x"}"#).unwrap();
    assert!(matches!(
        trash.restore(id.as_str()).await,
        Err(TrashError::Store(StoreError::TooNew { found: 9, .. }))
    ));
    fs::write(&record, r#"{"version": 1, "folder": "../../escape"}"#).unwrap();
    trash.restore(id.as_str()).await.unwrap();
    assert!(dir.path().join("s/escape").join(format!("{id}.db")).exists());
}

#[tokio::test]
async fn nothing_is_overwritten_by_a_restored_session() {
    let dir = tempfile::tempdir().unwrap();
    let place = place(dir.path());
    let (store, trash) = (place.store().unwrap(), place.trash().unwrap());
    let id = stored(&store, dir.path(), 1).await;
    trash.put(&id).await.unwrap();
    let again =
        store.create(zk_core::service::NewSession { id: Some(id.clone()), ..at(dir.path()) }).await.unwrap();
    again.add(vec![says("another")]).await.unwrap();
    again.close().await.unwrap();
    assert!(matches!(trash.restore(id.as_str()).await, Err(TrashError::PlaceTaken { .. })));
    assert!(matches!(trash.put(&id).await, Err(TrashError::InTrashAlready(_))));
    assert_eq!(store.read(&id).await.unwrap().entries.len(), 1);
    let removed = trash.remove_older(Duration::ZERO).await.unwrap();
    assert_eq!(removed.len(), 1);
    assert!(trash.remove_older(Duration::ZERO).await.unwrap().is_empty());
    assert_eq!(store.read(&id).await.unwrap().entries.len(), 1);
}

#[tokio::test]
async fn leftovers_are_removed_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let place = place(dir.path());
    let store = SqliteStore::new(dir.path().join("s"));
    let kept = stored(&store, dir.path(), 4).await;
    fs::create_dir_all(place.outputs_of(&kept).unwrap()).unwrap();
    let unanswered = stored(&store, dir.path(), 1).await;
    let open = store.create(at(dir.path())).await.unwrap();
    open.add(vec![says("being answered")]).await.unwrap();
    let trashed = stored(&store, dir.path(), 3).await;
    let outputs = place.outputs_of(&trashed).unwrap();
    fs::create_dir_all(&outputs).unwrap();
    fs::write(outputs.join("big"), "x".repeat(1000)).unwrap();
    Trash::new(dir.path().join("s"), place.outputs.clone()).put(&trashed).await.unwrap();
    let copy = store.incomplete().create(at(dir.path())).await.unwrap();
    copy.add(vec![says("half")]).await.unwrap();
    copy.close().await.unwrap();
    fs::create_dir_all(dir.path().join("outputs/s_orphan")).unwrap();
    fs::create_dir_all(dir.path().join("outputs/not a session")).unwrap();

    let day = Duration::from_hours(24);
    assert_eq!(Leftovers::find(&place, day, day).await.unwrap().all, []);
    assert_eq!(Leftovers::last_removal(&dir.path().join("s")), None);
    let found = Leftovers::find(&place, Duration::ZERO, Duration::ZERO).await.unwrap();
    let mut what: Vec<_> = found.all.iter().map(|leftover| (leftover.kind, leftover.id.clone())).collect();
    what.sort();
    assert_eq!(
        what,
        [
            (LeftoverKind::Unanswered, unanswered.clone()),
            (LeftoverKind::AbandonedCopy, copy.id().clone()),
            (LeftoverKind::OrphanedOutputs, "s_orphan".into()),
            (LeftoverKind::ExpiredTrash, trashed.clone()),
        ]
    );
    assert_eq!(found.remove().await.unwrap().len(), 4);
    assert!(Leftovers::last_removal(&dir.path().join("s")).is_some());
    assert_eq!(Leftovers::find(&place, Duration::ZERO, Duration::ZERO).await.unwrap().all, []);
    let mut left: Vec<_> = store.list(&every()).await.unwrap().into_iter().map(|info| info.id).collect();
    left.sort();
    let mut expected = vec![kept.clone(), open.id().clone()];
    expected.sort();
    assert_eq!(left, expected);
    assert!(place.outputs_of(&kept).unwrap().exists() && dir.path().join("outputs/not a session").exists());
    open.add(vec![says("still writable")]).await.unwrap();
}
