use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::EngineError;

/// Maximum size in bytes of a name or id that an engine stores.
pub const MAX_ENGINE_NAME_BYTES: usize = 96;

/// Maximum size in bytes of a call id that an engine stores. Providers assign these ids.
pub const MAX_CALL_ID_BYTES: usize = 512;

/// Name of a worker, queue, preset, workspace, tenant or schedule: 1 to 96 letters, digits, `-`, `_`, `.` or
/// `:`. Paths, prompts and addresses are not valid names.
///
/// ```
/// use zk_core::service::EngineName;
///
/// assert_eq!(EngineName::new("nightly-2").unwrap().as_str(), "nightly-2");
/// assert!(EngineName::new("/home/me").is_err() && EngineName::new("").is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct EngineName(Arc<str>);

impl EngineName {
    /// Creates a name from a valid text.
    ///
    /// # Errors
    /// [`EngineError::InvalidName`].
    pub fn new(text: &str) -> Result<Self, EngineError> {
        check_name(text)?;
        Ok(Self(text.into()))
    }

    /// Returns the name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for EngineName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for EngineName {
    type Error = EngineError;

    fn try_from(text: String) -> Result<Self, EngineError> {
        Self::new(&text)
    }
}

impl From<EngineName> for String {
    fn from(name: EngineName) -> Self {
        name.as_str().to_owned()
    }
}

/// Checks a name or id that an engine stores.
pub(super) fn check_name(text: &str) -> Result<(), EngineError> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    let is_dots = text.bytes().all(|byte| byte == b'.');
    if is_dots || text.len() > MAX_ENGINE_NAME_BYTES || !text.bytes().all(allowed) {
        return Err(EngineError::InvalidName { start: text.chars().take(24).collect(), bytes: text.len() });
    }
    Ok(())
}

/// Checks the id of a call, which may contain more characters than a name.
pub(super) fn check_call_id(text: &str) -> Result<(), EngineError> {
    // Quotes and backslashes are excluded, because JSON escapes double their size.
    let allowed = |byte: u8| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\';
    if text.is_empty() || text.len() > MAX_CALL_ID_BYTES || !text.bytes().all(allowed) {
        return Err(EngineError::InvalidName { start: text.chars().take(24).collect(), bytes: text.len() });
    }
    Ok(())
}
