use std::ops::ControlFlow;
use std::sync::Arc;

use zk_core::model::SessionId;
use zk_core::service::{NewSession, Redactor, SessionStore, StoreError};

use crate::export::redact::EntryRedactor;
use crate::{ImportError, Transcript};

/// Session that was created from a transcript.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredTranscript {
    /// Id of the session.
    pub session: SessionId,
    /// Number of the session's messages.
    pub messages: usize,
    /// Messages for the person.
    pub notices: Vec<String>,
}

/// Whether a store has the session of a transcript already.
async fn is_known(store: &dyn SessionStore, id: &SessionId) -> Result<bool, StoreError> {
    match store.scan(id, Box::new(|_, _| ControlFlow::Break(()))).await {
        Ok(_) => Ok(true),
        Err(StoreError::NotFound { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Stores a transcript as a session, all of it or nothing. Secrets that the redactor knows are removed.
///
/// # Errors
/// [`ImportError::Known`] when the session is there already; [`ImportError::Store`].
pub async fn store_transcript(
    store: &dyn SessionStore,
    transcript: Transcript,
    redactor: &Arc<Redactor>,
) -> Result<StoredTranscript, ImportError> {
    if is_known(store, &transcript.session).await? {
        return Err(ImportError::Known(transcript.session));
    }
    let messages = transcript.messages();
    let Transcript { session, cwd, title, parent, entries, mut notices, .. } = transcript;
    let new = NewSession { id: Some(session), cwd, parent };
    let mut clean = EntryRedactor::new(redactor.clone());
    let entries = entries.into_iter().filter_map(|entry| clean.redact_entry(entry)).collect();
    notices.extend(clean.notice());
    let session = store.restore(new, entries).await?;
    if let Some(title) = title {
        // A session without a title is titled with the beginning of its first prompt.
        if let Err(error) = store.rename(&session, &redactor.redact(&title)).await {
            notices.push(format!("its title was not kept: {error}"));
        }
    }
    Ok(StoredTranscript { session, messages, notices })
}
