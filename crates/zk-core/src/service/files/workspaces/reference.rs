use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::WorkspaceError;

/// Maximum size in bytes of a reference to the files of a run.
pub const MAX_WORKSPACE_REF_BYTES: usize = 512;

/// Reference to stored files of a run: the kind of the store, a colon, and what that store needs to find them. Contains
/// letters, digits, `-`, `_`, `.`, `:`, `/` and `@` alone, and no path of a machine.
///
/// ```
/// use zk_core::service::WorkspaceRef;
///
/// let reference = WorkspaceRef::new("files:5df6e0e2").unwrap();
/// assert_eq!((reference.kind(), reference.rest()), ("files", "5df6e0e2"));
/// assert!(WorkspaceRef::new("files").is_err() && WorkspaceRef::new("git:a b").is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct WorkspaceRef(Arc<str>);

impl WorkspaceRef {
    /// Creates a reference from a valid text.
    ///
    /// # Errors
    /// [`WorkspaceError::InvalidReference`].
    pub fn new(text: &str) -> Result<Self, WorkspaceError> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:/@".contains(&byte);
        let has_kind = text.split_once(':').is_some_and(|(kind, rest)| !kind.is_empty() && !rest.is_empty());
        if !has_kind || text.len() > MAX_WORKSPACE_REF_BYTES || !text.bytes().all(allowed) {
            return Err(WorkspaceError::InvalidReference(text.chars().take(80).collect()));
        }
        Ok(Self(text.into()))
    }

    /// Returns the reference as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the kind of the store.
    #[must_use]
    pub fn kind(&self) -> &str {
        self.0.split_once(':').map_or("", |(kind, _)| kind)
    }

    /// Returns the text after the kind.
    #[must_use]
    pub fn rest(&self) -> &str {
        self.0.split_once(':').map_or("", |(_, rest)| rest)
    }

    /// Returns the text after the kind, if the reference is of this kind.
    ///
    /// # Errors
    /// [`WorkspaceError::OtherKind`].
    pub fn rest_of(&self, kind: &'static str) -> Result<&str, WorkspaceError> {
        if self.kind() == kind {
            return Ok(self.rest());
        }
        Err(WorkspaceError::OtherKind { reference: self.clone(), kind })
    }
}

impl fmt::Display for WorkspaceRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for WorkspaceRef {
    type Error = WorkspaceError;

    fn try_from(text: String) -> Result<Self, WorkspaceError> {
        Self::new(&text)
    }
}

impl From<WorkspaceRef> for String {
    fn from(reference: WorkspaceRef) -> Self {
        reference.0.as_ref().to_owned()
    }
}
