use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::model::{Budget, CallId, EntryId, MailId, RunId};
use crate::service::{StoreError, UiAnswer};

/// Maximum size of one piece of mail as JSON, in bytes.
pub const MAX_MAIL_BYTES: usize = 1 << 20;

/// Mail to a session, whichever process has it open: it waits in the store until a run takes it.
///
/// ```
/// use zk_core::service::{Mail, MailKind};
///
/// let mail = Mail::new(MailKind::Steer { text: "Look at the tests first.".into() });
/// let json = mail.to_json()?;
/// assert_eq!(Mail::from_json(&json)?, mail);
/// # Ok::<(), zk_core::service::StoreError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mail {
    /// Id of the mail, which a steering message or follow-up also has as its message's id.
    pub id: MailId,
    /// Content of the mail.
    #[serde(flatten)]
    pub kind: MailKind,
}

/// Content of mail to a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "mail", rename_all = "snake_case")]
pub enum MailKind {
    /// A message that interrupts the run, delivered before its next turn.
    Steer {
        /// Text of the message.
        text: String,
    },
    /// A message for when the run would end.
    FollowUp {
        /// Text of the message.
        text: String,
    },
    /// A request to stop the run.
    Abort {
        /// Reason for the stop.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// The answer to a question on which the run is parked.
    Answer {
        /// Entry of the question.
        question: EntryId,
        /// Answer of the person.
        answer: UiAnswer,
    },
    /// The result of a child run, for the call that started it.
    Result {
        /// Id of the child.
        run: RunId,
        /// Call that started the child.
        call: CallId,
        /// Result of the child, or the reason for which it has none.
        text: String,
    },
    /// A message of the harness that interrupts no call, such as about files that a lost worker took with it.
    Notice {
        /// Source of the message, by name.
        source: String,
        /// Text of the message.
        text: String,
    },
    /// A budget for the run, in place of the one that it has.
    Budget {
        /// The whole budget, not an addition.
        budget: Budget,
    },
}

impl Mail {
    /// Creates mail with an id of its own; an answer has the id of its question, and a result that of its run, so that a
    /// second one is refused.
    #[must_use]
    pub fn new(kind: MailKind) -> Self {
        let id = match &kind {
            MailKind::Answer { question, .. } => MailId::from(format!("answer:{question}")),
            MailKind::Result { run, .. } => MailId::from(format!("result:{run}")),
            MailKind::Steer { .. }
            | MailKind::FollowUp { .. }
            | MailKind::Abort { .. }
            | MailKind::Notice { .. }
            | MailKind::Budget { .. } => MailId::fresh(),
        };
        Self { id, kind }
    }

    /// Returns the mail as JSON, for a store.
    ///
    /// # Errors
    /// [`StoreError::Refused`] for more than [`MAX_MAIL_BYTES`].
    pub fn to_json(&self) -> Result<String, StoreError> {
        let json = serde_json::to_string(self)
            .map_err(|error| StoreError::Failed(format!("mail `{}` does not serialise: {error}", self.id)))?;
        if json.len() > MAX_MAIL_BYTES {
            return Err(StoreError::Refused(format!(
                "mail to a session has at most {MAX_MAIL_BYTES} bytes, and this has {}; write the text to a file and name the file",
                json.len()
            )));
        }
        Ok(json)
    }

    /// Reads mail that [`Mail::to_json`] wrote.
    ///
    /// # Errors
    /// [`StoreError::Failed`] for other text.
    pub fn from_json(json: &str) -> Result<Self, StoreError> {
        serde_json::from_str(json)
            .map_err(|error| StoreError::Failed(format!("mail of a session cannot be read: {error}")))
    }
}

/// Mailbox of the session that a run is stored in: `cx.service::<dyn Mailbox>()`.
#[async_trait]
pub trait Mailbox: Send + Sync {
    /// Returns the mail that no earlier call returned, oldest first.
    ///
    /// # Errors
    /// [`StoreError`] when the store cannot be read.
    async fn unread(&self) -> Result<Vec<Mail>, StoreError>;

    /// Takes mail out of the store together with the next entries. A message is taken by itself, together with its entry.
    fn take(&self, id: &MailId);
}
