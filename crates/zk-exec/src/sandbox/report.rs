use std::fmt;
use std::path::PathBuf;

/// One means of containment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Layer {
    /// A user namespace: the right to make the others.
    UserNamespace,
    /// A view of the files in which only the workspace can be written.
    Mounts,
    /// Processes that see no others.
    Processes,
    /// No interface but a loopback of its own.
    NetworkNamespace,
    /// File rules that the kernel checks for each call.
    Landlock,
    /// System calls that are refused.
    Seccomp,
    /// A bound on the number of processes.
    ProcessLimit,
}

impl Layer {
    /// All of them, the outermost first.
    pub const ALL: [Self; 7] = [
        Self::UserNamespace,
        Self::Mounts,
        Self::Processes,
        Self::NetworkNamespace,
        Self::Landlock,
        Self::Seccomp,
        Self::ProcessLimit,
    ];

    /// Name of the layer, as a person reads it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::UserNamespace => "user namespace",
            Self::Mounts => "mounts",
            Self::Processes => "process namespace",
            Self::NetworkNamespace => "network namespace",
            Self::Landlock => "Landlock",
            Self::Seccomp => "seccomp",
            Self::ProcessLimit => "process limit",
        }
    }

    /// Consequence of the layer's absence.
    #[must_use]
    pub fn consequence(self) -> &'static str {
        match self {
            Self::UserNamespace | Self::Seccomp => "no sandbox without it",
            Self::Mounts => "protected files inside the project can be changed",
            Self::Processes => "the names of other processes are seen",
            Self::NetworkNamespace => "the network is the machine's",
            Self::Landlock => "file rules rest on mounts alone",
            Self::ProcessLimit => "the number of processes is not bounded",
        }
    }
}

/// Whether a layer stands, found out by setting it up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerState {
    /// Layer that was tried.
    pub layer: Layer,
    /// Whether it is there.
    pub present: bool,
    /// Facts known of the layer: a version, or why it is missing. May be empty.
    pub detail: String,
}

/// Layers of a sandbox on this machine, and what they cannot enforce.
///
/// [`Display`](fmt::Display) gives it in one line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SandboxReport {
    /// The layers that were set up or missed.
    pub layers: Vec<LayerState>,
    /// Parts of the policy that no layer can enforce, one sentence each.
    pub limits: Vec<String>,
}

impl SandboxReport {
    /// The state of a layer; nothing for one that was not asked for.
    #[must_use]
    pub fn layer(&self, layer: Layer) -> Option<&LayerState> {
        self.layers.iter().find(|state| state.layer == layer)
    }

    /// The layers that are missing.
    pub fn missing(&self) -> impl Iterator<Item = &LayerState> {
        self.layers.iter().filter(|state| !state.present)
    }

    #[cfg_attr(not(feature = "sandbox"), expect(dead_code, reason = "the sandbox asks for it"))]
    pub(crate) fn add(&mut self, layer: Layer, present: bool, detail: impl Into<String>) {
        self.layers.push(LayerState { layer, present, detail: detail.into() });
    }
}

impl fmt::Display for SandboxReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, LayerState { layer, present, detail }) in self.layers.iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            let name = layer.as_str();
            match (present, detail.as_str()) {
                (true, "") => write!(f, "{comma}{name}")?,
                (true, detail) => write!(f, "{comma}{name} ({detail})")?,
                (false, detail) => {
                    write!(f, "{comma}no {name}")?;
                    if !detail.is_empty() {
                        write!(f, " ({detail})")?;
                    }
                    write!(f, ": {}", layer.consequence())?;
                }
            }
        }
        Ok(())
    }
}

/// Findings of a self-test of a sandbox.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SelfTest {
    /// Acts that worked outside and failed inside.
    pub held: Vec<String>,
    /// Acts that failed inside, and outside too: they prove nothing.
    pub unproven: Vec<String>,
    /// Whether the result is that of an earlier test of the same sandbox, program and start of the machine.
    pub cached: bool,
}

/// Reason why there is no sandbox.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// This build has none.
    #[error(
        "this build of the program has no sandbox: it needs Linux and the feature `sandbox`; run commands in the `process` context"
    )]
    Unsupported,
    /// The policy would protect nothing.
    #[error("cannot contain commands in {path}: {why}; work in a directory of the project")]
    TooWide {
        /// The directory.
        path: PathBuf,
        /// Reason for which the directory is refused.
        why: &'static str,
    },
    /// The state directory of the host lies where commands write, so that the self-test has no place outside of that.
    #[error(
        "cannot contain commands in {writable}: the state directory {state} lies in it; keep it in a directory that \
         commands do not write"
    )]
    StateWithin {
        /// The state directory.
        state: PathBuf,
        /// Directory that commands write: the workspace, or the repository around it.
        writable: PathBuf,
    },
    /// A path of the policy cannot be used.
    #[error("cannot use {path} in a sandbox: {source}")]
    Path {
        /// Path that cannot be used.
        path: PathBuf,
        /// Cause of the failure.
        source: std::io::Error,
    },
    /// A layer is missing that nothing replaces.
    #[error(
        "the sandbox cannot be set up: {what}; run commands in the `process` context, or see `zk doctor`"
    )]
    Missing {
        /// Missing layer, and the message of the system.
        what: String,
    },
    /// The self-test found something open.
    #[error("the sandbox does not hold: {}; run commands in the `process` context", .open.join(", "))]
    SelfTest {
        /// Acts that a command could do.
        open: Vec<String>,
    },
}
