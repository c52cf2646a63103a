use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use zk_core::model::SessionId;
use zk_core::service::Unreadable;

use crate::InterruptedCall;

/// Notice about a session for the person; the conversation continues.
#[derive(Debug)]
pub enum SessionNotice<'a> {
    /// The conversation is not stored, or no longer.
    NotSaved {
        /// Description of the error.
        reason: String,
    },
    /// The conversation is not stored because there is no directory for sessions.
    NoPlace,
    /// The newest session of the directory cannot be read.
    Unreadable {
        /// Id of the unreadable session.
        id: SessionId,
        /// State of the session's file.
        state: Unreadable,
        /// Session that is continued instead, if any.
        taken: Option<SessionId>,
    },
    /// The last run of a resumed session was cut off.
    Interrupted {
        /// Calls of the interrupted turn.
        calls: &'a [InterruptedCall],
    },
    /// Large results could not be copied.
    OutputsNotCopied {
        /// Directory of the original results.
        from: PathBuf,
        /// Cause of the failed copy.
        error: io::Error,
    },
    /// Notice of the store about the session's files.
    Files(&'a str),
}

/// Receiver of notices.
#[derive(Clone)]
pub struct NoticeSink(Arc<dyn Fn(SessionNotice<'_>) + Send + Sync>);

impl NoticeSink {
    /// Receiver that calls `tell`.
    #[must_use]
    pub fn new(tell: impl Fn(SessionNotice<'_>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(tell))
    }

    pub(super) fn send(&self, notice: SessionNotice<'_>) {
        (self.0)(notice);
    }
}

impl Default for NoticeSink {
    /// Receiver that ignores all notices.
    fn default() -> Self {
        Self::new(|_| ())
    }
}

impl fmt::Debug for NoticeSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NoticeSink").finish_non_exhaustive()
    }
}
