//! Sections of the settings that bound commands: `[limits]`, `[sandbox]` and `[docker]`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::limits::Limits;
#[cfg(feature = "sandbox")]
use crate::sandbox::{HostRules, Network, SandboxPolicy};

/// Limits of one command, in every context.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(extend("x-guarded" = true, "x-by-projects" = false))]
pub struct LimitSettings {
    /// Memory of a command's processes together, in MB.
    #[schemars(range(min = 1))]
    pub memory_mb: Option<u32>,
    /// Processes that a command may have at once.
    #[schemars(range(min = 1))]
    pub processes: Option<u32>,
    /// Output of a command, in MB.
    #[schemars(range(min = 1))]
    pub output_mb: Option<u32>,
    /// Longest run of a command, also in the background, in seconds.
    #[schemars(range(min = 1))]
    pub seconds: Option<u32>,
}

impl LimitSettings {
    /// Limits of memory, processes and output; the time limit is in [`LimitSettings::time`].
    #[must_use]
    pub fn limits(&self) -> Limits {
        let bytes = |size: Option<u32>| size.map(|mebibytes| u64::from(mebibytes) << 20);
        Limits { memory: bytes(self.memory_mb), processes: self.processes, output: bytes(self.output_mb) }
    }

    /// Time limit of a command.
    #[must_use]
    pub fn time(&self) -> Option<Duration> {
        self.seconds.map(|seconds| Duration::from_secs(seconds.into()))
    }
}

/// Settings of the sandbox: further directories and hosts that commands may reach.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(extend("x-guarded" = true, "x-by-projects" = false))]
pub struct SandboxSettings {
    /// Directories that commands may write to, besides the project.
    #[schemars(inner(regex(pattern = "^(/|~/)")))]
    #[schemars(extend(
        "x-expected" = "a list of paths that begin with / or ~/, such as [\"~/.cache/pip\"]"
    ))]
    pub writable: Vec<String>,
    /// Files and directories that are hidden from commands, in every context.
    #[schemars(inner(regex(pattern = "^(/|~/)")))]
    #[schemars(extend(
        "x-expected" = "a list of paths that begin with / or ~/, such as [\"~/.cache/pip\"]"
    ))]
    pub hidden: Vec<String>,
    /// Hosts that commands reach without approval.
    #[schemars(with = "NetworkText", extend(
        "x-expected" = "`none`, `loopback` or `all` or a list of hosts, such as [\"crates.io\", \"*.npmjs.org\"]"
    ))]
    pub network: NetworkSetting,
    /// Processes of all commands together.
    #[schemars(range(min = 1))]
    pub processes: Option<u32>,
}

impl SandboxSettings {
    /// Applies the settings to `policy`; `home` stands for `~`.
    #[cfg(feature = "sandbox")]
    #[must_use]
    pub fn policy(&self, policy: SandboxPolicy, home: Option<&Path>) -> SandboxPolicy {
        let writable = self.writable.iter().filter_map(|path| at_home(path, home));
        let policy = writable.fold(policy, SandboxPolicy::writable);
        let policy = self.hidden_paths(home).into_iter().fold(policy, SandboxPolicy::hidden);
        let policy = match self.processes {
            Some(processes) => policy.processes(processes),
            None => policy,
        };
        match &self.network {
            // Checked when the settings were read.
            NetworkSetting::Hosts(hosts) => policy.hosts(HostRules::parse(hosts).unwrap_or_default()),
            NetworkSetting::Loopback => policy.network(Network::Loopback),
            NetworkSetting::All => policy.network(Network::All),
            NetworkSetting::None => policy.network(Network::None),
        }
    }

    /// Files and directories that are hidden from commands; `home` stands for `~`.
    #[must_use]
    pub fn hidden_paths(&self, home: Option<&Path>) -> Vec<PathBuf> {
        self.hidden.iter().filter_map(|path| at_home(path, home)).collect()
    }

    /// Describes the sandbox to the model, in one line. `grants` says whether single commands can be given
    /// network access.
    #[must_use]
    pub fn describe(&self, grants: bool) -> String {
        let network = match &self.network {
            NetworkSetting::Hosts(hosts) => format!("the network reaches only {}", hosts.join(", ")),
            NetworkSetting::All => "the network is open".to_owned(),
            NetworkSetting::Loopback => "the network reaches only commands in the sandbox".to_owned(),
            NetworkSetting::None => "there is no network".to_owned(),
        };
        let more = if grants {
            ", and what one command names (URL, git remote, package manager) once the user agrees: name the hosts in the \
             command"
        } else {
            ""
        };
        format!(
            "Runs in a sandbox: writes only to the project and /tmp, credentials are hidden; {network}{more}."
        )
    }
}

/// Expands a path of the settings that may begin with `~/`; `None` if it does and `home` is unknown.
#[must_use]
pub fn at_home(path: &str, home: Option<&Path>) -> Option<PathBuf> {
    match path.strip_prefix("~/") {
        Some(rest) => Some(home?.join(rest)),
        None => Some(PathBuf::from(path)),
    }
}

/// Network access of commands in the sandbox.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "NetworkText")]
pub enum NetworkSetting {
    /// No connections.
    #[default]
    None,
    /// Connections among commands in the sandbox.
    Loopback,
    /// All connections.
    All,
    /// Connections to these hosts; each is a rule of [`HostRules`].
    Hosts(Vec<String>),
}

/// Value of `network` in the settings file.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
enum NetworkText {
    Word(NetworkWord),
    Hosts(Vec<String>),
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum NetworkWord {
    None,
    Loopback,
    All,
}

impl TryFrom<NetworkText> for NetworkSetting {
    type Error = String;

    fn try_from(text: NetworkText) -> Result<Self, String> {
        Ok(match text {
            NetworkText::Word(NetworkWord::None) => Self::None,
            NetworkText::Word(NetworkWord::Loopback) => Self::Loopback,
            NetworkText::Word(NetworkWord::All) => Self::All,
            NetworkText::Hosts(hosts) => {
                #[cfg(feature = "sandbox")]
                HostRules::parse(&hosts).map_err(|error| error.to_string())?;
                Self::Hosts(hosts)
            }
        })
    }
}

/// Settings of the context `docker`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(extend("x-guarded" = true, "x-by-projects" = false))]
pub struct DockerSettings {
    /// Socket of the container engine.
    pub socket: Option<PathBuf>,
    /// Whether commands have the engine's usual network.
    pub network: bool,
}
