//! Writes a session, lets go of it, and resumes it from the disk.

use zk_core::events::{MessagesCause, SessionMessages};
use zk_core::kernel::{BoxError, Bus};
use zk_core::model::{Block, Message};
use zk_core::service::{NewSession, SessionStore};
use zk_session::{Recorder, SqliteStore, latest, load_history};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let folder = tempfile::tempdir()?;
    let store = SqliteStore::new(folder.path().join("sessions"));
    let cwd = std::env::current_dir()?;
    let session = store.create(NewSession { id: None, cwd: cwd.clone(), parent: None }).await?;

    // An agent emits this; the recorder writes it.
    let bus = Bus::new();
    bus.install(&Recorder::new(session.clone()))?;
    let prompt = (MessagesCause::Prompt, Message::user_text("fix the failing test"));
    let answer = (MessagesCause::Answer, Message::assistant(vec![Block::text("It passes now.")]));
    for (cause, message) in [prompt, answer] {
        let messages = vec![message.shared()];
        bus.cx().emit(SessionMessages { run_id: "r_1".into(), messages, usage: None, cause }).await?;
    }
    session.close().await?;

    // A session is listed once it has an answer.
    let found = latest(&store, &cwd).await?.ok_or("the session is gone")?;
    let loaded = load_history(&store.open(&found.id).await?.entries().await?);
    assert_eq!(loaded.messages.first().map(|prompt| prompt.text()), Some(found.title));
    Ok(())
}
