use std::path::{Path, PathBuf};
use std::sync::Arc;

use zk_core::kernel::Cx;
use zk_core::model::SessionId;

/// Bundle that skills and commands belong to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BundlePlace {
    /// Name of the bundle, the prefix of its skills' names.
    pub name: String,
    /// Canonical directory of the bundle.
    pub root: PathBuf,
    /// Variables of directories, which are replaced in its texts: `${NAME}`.
    pub variables: Vec<(String, String)>,
}

/// Skill of a bundle, before it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BundleSkill {
    /// Canonical directory of the skill.
    pub dir: PathBuf,
    /// Bundle of the skill.
    pub place: Arc<BundlePlace>,
}

/// Command of a bundle, before it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BundleCommand {
    /// Name of the command, prefixed with that of the bundle.
    pub name: String,
    /// Canonical path of the command's file.
    pub path: PathBuf,
    /// Description in place of the file's own.
    pub help: Option<String>,
    /// Bundle of the command.
    pub place: Arc<BundlePlace>,
}

impl BundlePlace {
    /// Replaces the variables of a text, in this conversation.
    pub(crate) fn expand(&self, text: &str, skill_dir: Option<&Path>, cx: &Cx) -> String {
        let known = self.variables.iter().map(|(name, value)| (name.as_str(), value.clone()));
        let session = cx.service::<SessionId>().map(|id| ("CLAUDE_SESSION_ID", id.as_str().to_owned()));
        let dir = skill_dir.map(|dir| ("CLAUDE_SKILL_DIR", dir.to_string_lossy().into_owned()));
        let replaced =
            |text: String, (name, value): (&str, String)| text.replace(&format!("${{{name}}}"), &value);
        known.chain(session).chain(dir).fold(text.to_owned(), replaced)
    }
}
