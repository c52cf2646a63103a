//! Keeps a session in a map of keys, and reads it again.

use std::sync::Arc;

use zk_core::model::Message;
use zk_core::service::{Durability, EntryKind, NewSession, SessionStore, StoreError};
use zk_stores::{FileMapStore, MemoryMap};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), StoreError> {
    let store = FileMapStore::new(Arc::new(MemoryMap::default()));
    let session = store.create(NewSession { id: None, cwd: "/project".into(), parent: None }).await?;
    let prompt = EntryKind::Message { message: Message::user_text("hello").shared(), usage: None };
    session.append(vec![prompt], Durability::Disk).await?;
    session.close().await?;
    let read = store.read(session.id()).await?;
    assert_eq!(read.info.title, "hello");
    Ok(())
}
