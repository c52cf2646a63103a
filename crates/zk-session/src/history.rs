mod legs;
mod loaded;
mod open_turn;

use std::path::PathBuf;
use std::sync::Arc;

use zk_core::model::RunId;
use zk_core::service::{
    Durability, EntryKind, LiveEntries, NewSession, OpenSession, SessionStore, StoreError,
    StoredConversation, UnfinishedRun,
};

pub(crate) use self::legs::take_unfinished;
pub use self::legs::{AnswerRefused, answer_question, open_questions};
pub(crate) use self::loaded::Reader;
pub use self::loaded::{Earlier, Loaded, PluginEntry, load_history, load_live};
pub use self::open_turn::{CallState, InterruptedCall, InterruptedTurn};
use crate::{Recorder, latest};

async fn resume_live(session: &dyn OpenSession) -> Result<(Loaded, LiveEntries), StoreError> {
    let live = session.live().await?;
    let loaded = load_live(&live);
    store_interrupted(session, &loaded).await?;
    // Read again, now with the stored answer and results.
    let live = if loaded.interrupted.is_some() { session.live().await? } else { live };
    Ok((loaded, live))
}

/// Loads the history of an open session for its next run, and stores the results of an interrupted turn.
///
/// # Errors
/// As [`OpenSession::entries`] and [`store_interrupted`].
pub async fn resume(session: &dyn OpenSession) -> Result<Loaded, StoreError> {
    Ok(resume_live(session).await?.0)
}

/// Loads the conversation of an open session, new or not, for `AgentBuilder::resume`: the agent continues it
/// and stores new messages in it.
///
/// ```
/// # async fn example(store: &dyn zk_core::service::SessionStore) -> Result<(), zk_core::service::StoreError> {
/// let session = store.open(&"s_1".into()).await?;
/// let stored = zk_session::resume_conversation(session).await?;
/// println!("{} messages", stored.messages.len());
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// As [`resume`].
pub async fn resume_conversation(session: Arc<dyn OpenSession>) -> Result<StoredConversation, StoreError> {
    let (loaded, live) = resume_live(&*session).await?;
    Ok(StoredConversation {
        session: session.id().clone(),
        entries: live.entries.into(),
        recorder: Arc::new(Recorder::resuming(session, &loaded)),
        messages: loaded.messages,
        unfinished: None,
    })
}

/// Loads the conversation of a session for a leg of `run`, for `AgentBuilder::resume` and `RunOptions::drive_leg`. A turn that
/// an earlier leg left open is handed over as it is, to be settled; that of another run is completed as by [`resume`].
///
/// ```
/// # async fn example(store: &dyn zk_core::service::SessionStore) -> Result<(), zk_core::service::StoreError> {
/// use zk_core::service::Lease;
///
/// let session = store.open_leased(&"s_1".into(), &Lease::new(3)).await?;
/// let stored = zk_session::resume_leg(session, &"r_1".into()).await?;
/// if let Some(open) = stored.unfinished.and_then(|run| run.open_turn) {
///     println!("{} calls are to be settled", open.calls.len());
/// }
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// As [`resume`].
pub async fn resume_leg(
    session: Arc<dyn OpenSession>,
    run: &RunId,
) -> Result<StoredConversation, StoreError> {
    let live = session.live().await?;
    let mut loaded = load_live(&live);
    let Some(unfinished) = take_unfinished(run, &live, &mut loaded) else {
        return resume_conversation(session).await;
    };
    Ok(StoredConversation {
        session: session.id().clone(),
        recorder: Arc::new(leg_recorder(session, &loaded, &unfinished)),
        unfinished: Some(unfinished),
        entries: live.entries.into(),
        messages: loaded.messages,
    })
}

/// Recorder of a leg that goes on with a run; one whose end is stored begins once more if it goes on.
pub(crate) fn leg_recorder(
    session: Arc<dyn OpenSession>,
    loaded: &Loaded,
    unfinished: &UnfinishedRun,
) -> Recorder {
    match unfinished.ended {
        None => Recorder::continuing(session, loaded, unfinished.run_id.clone()),
        Some(_) => Recorder::resuming(session, loaded),
    }
}

/// Continues the newest session of the directory `cwd` in `store`, or begins the first one there, for
/// `AgentBuilder::resume`.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// use zk_session::{MemoryStore, continue_conversation};
///
/// let stored = continue_conversation(&MemoryStore::new(), "/project").await.unwrap();
/// assert!(stored.messages.is_empty());
/// # });
/// ```
///
/// # Errors
/// [`StoreError`] when the store cannot be read or written, or another process has the session open.
pub async fn continue_conversation(
    store: &dyn SessionStore,
    cwd: impl Into<PathBuf>,
) -> Result<StoredConversation, StoreError> {
    let cwd = cwd.into();
    let session = match latest(store, &cwd).await? {
        Some(found) => store.open(&found.id).await?,
        None => store.create(NewSession { id: None, cwd, parent: None }).await?,
    };
    resume_conversation(session).await
}

/// Stores the answer and results of the interrupted turn in `loaded`, if there is one. If the process is
/// killed before, the next resume does the same.
///
/// # Errors
/// [`StoreError`] when the entries cannot be stored.
pub async fn store_interrupted(session: &dyn OpenSession, loaded: &Loaded) -> Result<(), StoreError> {
    if let Some(turn) = &loaded.interrupted {
        let pair = vec![
            EntryKind::Message { message: turn.message.clone(), usage: Some(turn.usage.clone().into()) },
            EntryKind::Message { message: turn.results.clone(), usage: None },
        ];
        session.append(pair, Durability::Process).await?;
    }
    Ok(())
}
