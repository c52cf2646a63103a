use std::fs;
use std::os::unix::fs::PermissionsExt;

use zk_core::model::SessionId;
use zk_core::service::{SessionFilter, SessionStore, StoreError};
use zk_session::SqliteStore;

use crate::processes::{appender, lines};
use crate::support::{at, file, files, stored, unit, whole_units};

#[tokio::test]
async fn a_full_disk_is_an_error_and_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("s");
    let store = SqliteStore::new(root.clone());
    // Nothing at all, in the middle of creating, in the middle of the log.
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
                session.append(unit(acknowledged.len())).await.unwrap();
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
    let error = session.append(unit(0)).await.unwrap_err();
    assert!(matches!(error, StoreError::Io { doing: "create the folder", .. }), "{error}");
    assert!(error.to_string().contains(&*root.to_string_lossy()), "{error}");
    fs::remove_file(&root).unwrap();
    session.append(unit(0)).await.unwrap();
    session.append(unit(1)).await.unwrap();
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
        let listed = store.list(&SessionFilter::default()).await.unwrap().remove(0);
        assert_eq!((listed.title.as_str(), listed.damaged), ("prompt 0", None));
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
