use std::sync::Arc;

use zk_core::service::{HostFileError, HostFiles, HostRead};

use super::{Skill, frontmatter};

/// Largest text of a skill, in bytes.
const MAX_BYTES: usize = 1 << 20;

/// Reason why a skill's text cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// The file cannot be read.
    #[error("the SKILL.md of `{skill}` cannot be read: {source}")]
    Read {
        /// Name of the skill.
        skill: String,
        /// Cause of the failure.
        source: HostFileError,
    },
    /// The file has no valid frontmatter any more.
    #[error("the SKILL.md of `{skill}` has no frontmatter any more: lines of three dashes around its fields")]
    Frontmatter {
        /// Name of the skill.
        skill: String,
    },
}

/// Reads the text of a skill after its frontmatter.
///
/// # Errors
/// `BodyError`.
pub fn body(skill: &Skill, files: &dyn HostFiles) -> Result<Arc<str>, BodyError> {
    let name = || skill.name().to_owned();
    let whole: Arc<str> = match (&skill.inline, &skill.dir) {
        (Some(text), _) => text.clone(),
        (None, dir) => {
            let dir = dir.clone().unwrap_or_default();
            let read = files.read(&dir.join(&skill.file), &HostRead::whole(MAX_BYTES));
            let bytes = read.map_err(|source| BodyError::Read { skill: name(), source })?.bytes;
            String::from_utf8_lossy(&bytes).as_ref().into()
        }
    };
    let parts = frontmatter::split(&whole).ok_or_else(|| BodyError::Frontmatter { skill: name() })?;
    Ok(parts.body.replace("\r\n", "\n").trim().into())
}
