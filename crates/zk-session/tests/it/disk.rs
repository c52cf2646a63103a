use std::fs;
use std::os::unix::fs::PermissionsExt;

use zk_core::model::SessionId;
use zk_core::service::{Durability, SessionStore, StoreError};
use zk_session::SqliteStore;

use crate::processes::{appender, lines};
use crate::support::{Add, at, every, file, files, stored, unit, whole_units};

#[tokio::test]
async fn a_full_disk_is_an_error_and_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("s");
    let store = SqliteStore::new(root.clone());
    // Empty, partly created, and cut within the log.
    for (n, limit) in [0, 4, 8, 20, 100, 1000].into_iter().enumerate() {
        let id = SessionId::from(format!("s_{n}"));
        let mut child = appender(&root, &id, Some(limit));
        let said: Vec<String> = lines(&mut child).collect();
        child.wait().unwrap();
        let (last, acknowledged) = said.split_last().unwrap();
        assert!(last.starts_with("failed Io"), "{last}");
        match store.open(&id).await {
            Err(StoreError::NotFound { .. }) => assert!(acknowledged.is_empty()),
            Err(error) => panic!("{error}"),
            Ok(session) => {
                assert_eq!(whole_units(&session.entries().await.unwrap()), acknowledged.len());
                session.add(unit(acknowledged.len())).await.unwrap();
            }
        }
    }
}

#[tokio::test]
async fn a_session_goes_on_once_there_is_room_again() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("s");
    fs::write(&root, "a file where the folder should be").unwrap();
    let session = SqliteStore::new(root.clone()).create(at(dir.path())).await.unwrap();
    let error = session.add(unit(0)).await.unwrap_err();
    assert!(matches!(error, StoreError::Io { doing: "create the folder", .. }), "{error}");
    assert!(error.to_string().contains(&*root.to_string_lossy()), "{error}");
    fs::remove_file(&root).unwrap();
    session.add(unit(0)).await.unwrap();
    session.add(unit(1)).await.unwrap();
    assert_eq!(whole_units(&session.entries().await.unwrap()), 2);
}

#[tokio::test]
async fn a_read_only_folder_can_be_listed_and_not_written() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::new(dir.path().join("s"));
    let id = stored(&store, dir.path(), 3).await;
    let folder = file(dir.path(), ".db").parent().unwrap().to_path_buf();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o500)).unwrap();
    let bound = fs::write(folder.join("probe"), "").is_err();
    if bound {
        let listed = store.list(&every()).await.unwrap().remove(0);
        assert_eq!((listed.title.as_str(), listed.unreadable), ("prompt 0", None));
        let error = store.open(&id).await.err().unwrap();
        assert!(matches!(error, StoreError::Io { .. }), "{error}");
    } else {
        println!("skipped: this user may write to read-only folders");
    }
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
    if bound {
        assert_eq!(files(&folder).len(), 1);
        store.open(&id).await.unwrap();
    }
}

#[tokio::test]
async fn a_lock_that_is_a_link_is_refused_and_its_target_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::new(dir.path().join("s"));
    let id = stored(&store, dir.path(), 2).await;
    let lock = file(dir.path(), ".db").with_extension("lock");
    let target = dir.path().join("precious");
    fs::write(&target, "precious").unwrap();
    let (soft, hard) = (std::os::unix::fs::symlink(&target, &lock), "a symbolic link");
    for (made, what) in [(soft, hard), (Ok(()), "a hard link")] {
        made.unwrap();
        if !lock.is_symlink() {
            fs::hard_link(&target, &lock).unwrap();
        }
        let error = store.open(&id).await.err().unwrap().to_string();
        assert!(error.contains("lock file") && error.contains(what), "{error}");
        store.list(&every()).await.unwrap();
        assert!(store.delete(&id).await.is_err());
        assert_eq!(fs::read(&target).unwrap(), b"precious");
        fs::remove_file(&lock).unwrap();
    }
    assert_eq!(whole_units(&store.open(&id).await.unwrap().entries().await.unwrap()), 2);
}

#[tokio::test]
async fn a_folder_that_is_removed_under_an_open_session_is_written_again_and_said() {
    for at_the_end in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let store = SqliteStore::new(dir.path().join("s"));
        let session = store.create(at(dir.path())).await.unwrap();
        let mut units = 7;
        for n in 0..units {
            session.add(unit(n)).await.unwrap();
        }
        fs::remove_dir_all(dir.path().join("s")).unwrap();
        if !at_the_end {
            session.add(unit(units)).await.unwrap();
            units += 1;
            assert_eq!(
                whole_units(&store.read(session.id()).await.unwrap().entries),
                units,
                "it is there at once"
            );
            assert!(matches!(store.open(session.id()).await.err(), Some(StoreError::InUse { .. })));
            session.append(unit(units), Durability::Disk).await.unwrap();
            units += 1;
        }
        session.close().await.unwrap();
        let told = session.notices();
        assert!(told.len() == 1 && told[0].contains("were removed while it was open"), "{told:?}");
        let again = store.open(session.id()).await.unwrap();
        assert_eq!(whole_units(&again.entries().await.unwrap()), units);
        assert!(again.notices().is_empty(), "{:?}", again.notices());
    }
}

#[tokio::test]
async fn a_folder_that_cannot_be_written_again_stops_the_session() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("s");
    let store = SqliteStore::new(root.clone());
    let session = store.create(at(dir.path())).await.unwrap();
    session.add(unit(0)).await.unwrap();
    fs::remove_dir_all(&root).unwrap();
    fs::write(&root, "a file where the folder was").unwrap();
    let error = session.add(unit(1)).await.unwrap_err();
    assert!(matches!(error, StoreError::Io { .. }), "{error}");
    fs::remove_file(&root).unwrap();
    session.add(unit(1)).await.unwrap();
    assert_eq!(whole_units(&session.entries().await.unwrap()), 2);
}

#[tokio::test]
async fn what_is_put_on_the_disk_is_stored_like_everything_else() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::new(dir.path().join("s"));
    let session = store.create(at(dir.path())).await.unwrap();
    session.append(unit(0), Durability::Disk).await.unwrap();
    session.add(unit(1)).await.unwrap();
    assert!(session.append(Vec::new(), Durability::Disk).await.unwrap().is_empty());
    session.append(unit(2), Durability::Disk).await.unwrap();
    session.close().await.unwrap();
    assert_eq!(whole_units(&store.open(session.id()).await.unwrap().entries().await.unwrap()), 3);
}
