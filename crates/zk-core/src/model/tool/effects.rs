use std::path::PathBuf;

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Effects of a tool call on the world, as data: permission, sandbox and audit judge them.
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
    /// The tool does not say. It may do anything, so a permission gate asks a person.
    #[default]
    Unknown,
    /// Exactly these effects; none when empty.
    Known {
        /// The effects.
        list: Vec<Effect>,
    },
}

/// One effect of a tool call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(tag = "effect", rename_all = "snake_case")]
pub enum Effect {
    /// Reads these paths, as the call names them; empty when it cannot tell which.
    Reads {
        /// The paths.
        paths: Vec<PathBuf>,
    },
    /// Writes, creates or removes these paths; empty when it cannot tell which.
    Writes {
        /// The paths.
        paths: Vec<PathBuf>,
    },
    /// Runs a program.
    Executes {
        /// The command as the shell gets it, if it is one command line.
        command: Option<String>,
        /// Program and arguments, where known without a shell.
        argv: Vec<String>,
    },
    /// Opens connections to these hosts; empty when it cannot tell which.
    Network {
        /// The hosts, as `host` or `host:port`.
        hosts: Vec<String>,
    },
    /// Runs outside of the context that bounds all other commands.
    LeavesContext {
        /// Purpose, in the words of whoever calls. It is no evidence.
        reason: String,
    },
}

impl Effects {
    /// No effect at all.
    #[must_use]
    pub fn none() -> Self {
        Self::Known { list: Vec::new() }
    }

    /// Reads these paths and nothing else.
    pub fn reads<P: Into<PathBuf>>(paths: impl IntoIterator<Item = P>) -> Self {
        Self::one(Effect::Reads { paths: paths.into_iter().map(Into::into).collect() })
    }

    /// Writes these paths and nothing else.
    pub fn writes<P: Into<PathBuf>>(paths: impl IntoIterator<Item = P>) -> Self {
        Self::one(Effect::Writes { paths: paths.into_iter().map(Into::into).collect() })
    }

    /// Runs this command line.
    pub fn executes(command: impl Into<String>) -> Self {
        Self::one(Effect::Executes { command: Some(command.into()), argv: Vec::new() })
    }

    /// Exactly one effect.
    #[must_use]
    pub fn one(effect: Effect) -> Self {
        Self::Known { list: vec![effect] }
    }

    /// Whether the call runs outside of the context that bounds all others.
    #[must_use]
    pub fn leaves_context(&self) -> bool {
        match self {
            Self::Unknown => false,
            Self::Known { list } => list.iter().any(|effect| matches!(effect, Effect::LeavesContext { .. })),
        }
    }

    /// These effects for a call that stays in the context which bounds all others.
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

    /// Whether nothing but reading happens. Unknown effects are not read-only.
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
