use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use zk_core::model::SessionId;
use zk_core::service::Unreadable;

use crate::InterruptedCall;

/// Notice of a session: what its person should know and nothing fails of.
#[derive(Debug)]
pub enum SessionNotice<'a> {
    /// The conversation goes on without being stored, or without being stored any more.
    NotSaved {
        /// Cause, in words.
        reason: String,
    },
    /// The conversation goes on without being stored, since nobody said where sessions are.
    NoPlace,
    /// The newest session of the directory cannot be read.
    Unreadable {
        /// Session that was to be continued.
        id: SessionId,
        /// State of its file.
        state: Unreadable,
        /// The session that is continued in its place, if there is one.
        taken: Option<SessionId>,
    },
    /// The last run of a resumed session was cut off.
    Interrupted {
        /// Calls of the turn that was cut off while it made them.
        calls: &'a [InterruptedCall],
    },
    /// Large results could not be put into a copy.
    OutputsNotCopied {
        /// Directory of the large results.
        from: PathBuf,
        /// Cause.
        error: io::Error,
    },
    /// Remark of the store about the session's files.
    Files(&'a str),
}

/// Receiver of the notices of sessions.
#[derive(Clone)]
pub struct NoticeSink(Arc<dyn Fn(SessionNotice<'_>) + Send + Sync>);

impl NoticeSink {
    /// A receiver that calls `tell`.
    #[must_use]
    pub fn new(tell: impl Fn(SessionNotice<'_>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(tell))
    }

    pub(super) fn tell(&self, notice: SessionNotice<'_>) {
        (self.0)(notice);
    }
}

impl Default for NoticeSink {
    /// A receiver that tells nobody.
    fn default() -> Self {
        Self::new(|_| ())
    }
}

impl fmt::Debug for NoticeSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NoticeSink").finish_non_exhaustive()
    }
}
