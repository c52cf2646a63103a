use std::fmt;
use std::path::PathBuf;

/// Layer of a sandbox: one mechanism of containment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Layer {
    /// User namespace, which allows making the other namespaces.
    UserNamespace,
    /// Mount namespace: a view of the files in which only the policy's directories are writable.
    Mounts,
    /// Process namespace, which hides processes outside.
    Processes,
    /// Network namespace with no interface but its own loopback.
    NetworkNamespace,
    /// File rules of Landlock, checked by the kernel for each system call.
    Landlock,
    /// Filter that refuses system calls.
    Seccomp,
    /// Bound on the number of processes.
    ProcessLimit,
}

impl Layer {
    /// All layers, the outermost first.
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

/// Availability of a layer, found out by setting it up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerState {
    /// Layer that was set up.
    pub layer: Layer,
    /// Whether the set-up succeeded.
    pub present: bool,
    /// Version of the layer, or the reason for its absence. May be empty.
    pub detail: String,
}

/// Layers of a sandbox on this machine, and rules that they cannot enforce.
///
/// [`Display`](fmt::Display) writes it in one line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SandboxReport {
    /// Layers that were set up or are missing.
    pub layers: Vec<LayerState>,
    /// Parts of the policy that no layer can enforce, one sentence each.
    pub limits: Vec<String>,
}

impl SandboxReport {
    /// State of a layer; `None` if the policy did not request it.
    #[must_use]
    pub fn layer(&self, layer: Layer) -> Option<&LayerState> {
        self.layers.iter().find(|state| state.layer == layer)
    }

    /// Missing layers.
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

/// Result of a sandbox's self-test.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SelfTest {
    /// Acts that succeeded outside and failed inside.
    pub held: Vec<String>,
    /// Acts that failed both inside and outside, and so prove nothing.
    pub unproven: Vec<String>,
    /// Whether the result is from an earlier test with the same sandbox and program since the machine was
    /// started.
    pub cached: bool,
}

/// Reason why there is no sandbox.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// This build has no sandbox.
    #[error(
        "this build of the program has no sandbox: it needs Linux and the feature `sandbox`; run commands in the `process` context"
    )]
    Unsupported,
    /// A writable directory is so wide that the sandbox would protect nothing.
    #[error("cannot contain commands in {path}: {why}; work in a directory of the project")]
    TooWide {
        /// Path of the directory.
        path: PathBuf,
        /// Reason why the directory is too wide.
        why: &'static str,
    },
    /// The host's state directory is writable for commands, so the self-test has no place outside of the
    /// sandbox.
    #[error(
        "cannot contain commands in {writable}: the state directory {state} lies in it; keep it in a directory that \
         commands do not write"
    )]
    StateWithin {
        /// The state directory.
        state: PathBuf,
        /// Writable directory that contains it: the workspace, or the repository around it.
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
    /// A required layer is missing.
    #[error(
        "the sandbox cannot be set up: {what}; run commands in the `process` context, or see `zk doctor`"
    )]
    Missing {
        /// Missing layer, and the message of the system.
        what: String,
    },
    /// The self-test found an act that the sandbox does not prevent.
    #[error("the sandbox does not hold: {}; run commands in the `process` context", .open.join(", "))]
    SelfTest {
        /// Acts that a command could perform.
        open: Vec<String>,
    },
}
