use std::path::PathBuf;

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Effects of a tool call on the world, as data for permissions, sandbox and audit.
///
/// ```
/// use zk_core::model::{Effect, Effects};
///
/// assert!(Effects::reads(["src/main.rs"]).is_read_only());
/// assert!(Effects::none().is_read_only());
/// assert!(!Effects::executes("cargo test").is_read_only());
/// assert!(!Effects::Unknown.is_read_only(), "a tool that does not say what it does is asked about");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(tag = "effects", rename_all = "snake_case")]
pub enum Effects {
    /// The tool does not declare its effects. It may do anything, so a permission gate asks a person.
    #[default]
    Unknown,
    /// Exactly these effects; none when empty.
    Known {
        /// List of all effects.
        list: Vec<Effect>,
    },
}

/// One effect of a tool call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(tag = "effect", rename_all = "snake_case")]
pub enum Effect {
    /// Reads these paths, as the call names them; empty if the paths are not known in advance.
    Reads {
        /// Paths that are read.
        paths: Vec<PathBuf>,
    },
    /// Writes, creates or removes these paths; empty if the paths are not known in advance.
    Writes {
        /// Paths that are written, created or removed.
        paths: Vec<PathBuf>,
    },
    /// Runs a program.
    Executes {
        /// Command line for the shell, if there is one.
        command: Option<String>,
        /// Program and arguments, if known without a shell.
        argv: Vec<String>,
    },
    /// Opens connections to these hosts; empty if the hosts are not known in advance.
    Network {
        /// The hosts, as `host` or `host:port`.
        hosts: Vec<String>,
    },
    /// Runs outside of the execution context (sandbox, container) that confines all other commands.
    LeavesContext {
        /// Purpose as stated by the caller; not verified.
        reason: String,
    },
}

impl Effects {
    /// Declares no effect at all.
    #[must_use]
    pub fn none() -> Self {
        Self::Known { list: Vec::new() }
    }

    /// Declares reading these paths as the only effect.
    pub fn reads<P: Into<PathBuf>>(paths: impl IntoIterator<Item = P>) -> Self {
        Self::one(Effect::Reads { paths: paths.into_iter().map(Into::into).collect() })
    }

    /// Declares writing these paths as the only effect.
    pub fn writes<P: Into<PathBuf>>(paths: impl IntoIterator<Item = P>) -> Self {
        Self::one(Effect::Writes { paths: paths.into_iter().map(Into::into).collect() })
    }

    /// Declares running this command line as the only effect.
    pub fn executes(command: impl Into<String>) -> Self {
        Self::one(Effect::Executes { command: Some(command.into()), argv: Vec::new() })
    }

    /// Declares exactly one effect.
    #[must_use]
    pub fn one(effect: Effect) -> Self {
        Self::Known { list: vec![effect] }
    }

    /// Whether the call runs outside of the execution context that confines all other commands.
    #[must_use]
    pub fn leaves_context(&self) -> bool {
        match self {
            Self::Unknown => false,
            Self::Known { list } => list.iter().any(|effect| matches!(effect, Effect::LeavesContext { .. })),
        }
    }

    /// Returns these effects for a call that stays in the confining context.
    #[must_use]
    pub fn without_leaving(&self) -> Self {
        match self {
            Self::Unknown => Self::Unknown,
            Self::Known { list } => {
                let stays = |effect: &&Effect| !matches!(effect, Effect::LeavesContext { .. });
                Self::Known { list: list.iter().filter(stays).cloned().collect() }
            }
        }
    }

    /// Whether reading is the only effect. Undeclared effects are not read-only.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        match self {
            Self::Unknown => false,
            Self::Known { list } => list.iter().all(|effect| match effect {
                Effect::Reads { .. } => true,
                Effect::Writes { .. }
                | Effect::Executes { .. }
                | Effect::Network { .. }
                | Effect::LeavesContext { .. } => false,
            }),
        }
    }
}
