use std::path::{Path, PathBuf};

use super::hosts::HostRules;
use crate::Limits;

/// Policy of a sandbox: paths and connections that its commands may use.
///
/// All other files are read-only, and credentials are hidden.
///
/// ```
/// use zk_exec::{Network, SandboxPolicy};
///
/// let policy = SandboxPolicy::new("/home/me/project").network(Network::Loopback).hidden("/home/me/.local/state/zk");
/// assert_eq!(policy.writable_paths(), [std::path::Path::new("/home/me/project")]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxPolicy {
    pub(crate) writable: Vec<PathBuf>,
    pub(crate) project: Option<PathBuf>,
    pub(crate) readable: Vec<PathBuf>,
    pub(crate) protected: Vec<PathBuf>,
    pub(crate) hidden: Vec<PathBuf>,
    pub(crate) home: Option<PathBuf>,
    pub(crate) state: Option<PathBuf>,
    pub(crate) network: Network,
    pub(crate) hosts: HostRules,
    pub(crate) processes: u32,
    pub(crate) limits: Limits,
    pub(crate) landlock_only: bool,
    pub(crate) denies_writes: bool,
    pub(crate) grants_connections: bool,
}

/// Network access of commands in a sandbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Network {
    /// No connections, not even to themselves.
    #[default]
    None,
    /// Connections among the commands of the sandbox, over loopback addresses.
    Loopback,
    /// Connections as with [`Loopback`](Self::Loopback), and to [named hosts](SandboxPolicy::hosts) through a
    /// proxy: HTTP, and other protocols through its tunnels, but no datagrams.
    Hosts,
    /// All connections that the machine can make.
    All,
}

impl Network {
    /// Name of the network access in settings.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Loopback => "loopback",
            Self::Hosts => "hosts",
            Self::All => "all",
        }
    }
}

impl SandboxPolicy {
    /// Policy for commands that write to `workspace` and to a private temporary directory, without a network.
    #[must_use]
    pub fn new(workspace: impl Into<PathBuf>) -> Self {
        Self {
            writable: vec![workspace.into()],
            project: None,
            readable: Vec::new(),
            protected: Vec::new(),
            hidden: Vec::new(),
            home: None,
            state: None,
            network: Network::None,
            hosts: HostRules::default(),
            processes: 4096,
            limits: Limits::default(),
            landlock_only: false,
            denies_writes: false,
            grants_connections: false,
        }
    }

    /// Allows writes to this directory. A missing directory is left out.
    #[must_use]
    pub fn writable(mut self, path: impl Into<PathBuf>) -> Self {
        self.writable.push(path.into());
        self
    }

    /// Sets the repository around the workspace, which becomes writable as well: `git commit`, lock files and
    /// build directories above the workspace need that. A directory that is too wide for a sandbox, is
    /// writable for everybody, or is no repository around the workspace is ignored.
    #[must_use]
    pub fn project(mut self, root: impl Into<PathBuf>) -> Self {
        self.project = Some(root.into());
        self
    }

    /// Allows reads of this file or directory below `/run`, `/tmp` or `/var/tmp`, which are hidden otherwise.
    #[must_use]
    pub fn readable(mut self, path: impl Into<PathBuf>) -> Self {
        self.readable.push(path.into());
        self
    }

    /// Denies writes of this file or directory inside of a writable directory.
    #[must_use]
    pub fn protected(mut self, path: impl Into<PathBuf>) -> Self {
        self.protected.push(path.into());
        self
    }

    /// Hides this file or directory.
    #[must_use]
    pub fn hidden(mut self, path: impl Into<PathBuf>) -> Self {
        self.hidden.push(path.into());
        self
    }

    /// Sets the person's home directory, whose credentials are hidden.
    #[must_use]
    pub fn home(mut self, home: impl Into<PathBuf>) -> Self {
        self.home = Some(home.into());
        self
    }

    /// Sets a private directory of the host, hidden from commands, for data that must survive a crash: the
    /// list of placeholders and the result of the self-test.
    #[must_use]
    pub fn state(mut self, directory: impl Into<PathBuf>) -> Self {
        let directory = directory.into();
        self.hidden.push(directory.clone());
        self.state = Some(directory);
        self
    }

    /// Sets the network access.
    #[must_use]
    pub fn network(mut self, network: Network) -> Self {
        self.network = network;
        self
    }

    /// Allows connections to these hosts, through a proxy that commands find in `HTTP_PROXY` and similar
    /// variables.
    #[must_use]
    pub fn hosts(mut self, hosts: HostRules) -> Self {
        self.network = Network::Hosts;
        self.hosts = hosts;
        self
    }

    /// Sets the most processes of all commands at a time, at least 301; the default is 4096.
    #[must_use]
    pub fn processes(mut self, most: u32) -> Self {
        self.processes = most.max(301);
        self
    }

    /// Sets the limits of each command.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Uses Landlock and seccomp alone, for machines that refuse namespaces and mounts.
    ///
    /// Guarantees that still hold: commands write only to the workspace and a temporary directory, read
    /// neither credentials nor the host's state, and make no connection. Guarantees that do not: protected
    /// files inside the workspace can be changed, names of hidden files and other processes are visible, and
    /// commands have no Unix sockets. Loopback and named hosts are not available.
    #[must_use]
    pub fn landlock_only(mut self) -> Self {
        self.landlock_only = true;
        self
    }

    /// Makes the writable directories read-only: commands write only to a private temporary directory.
    /// Credentials are hidden; no names are guarded, since none can be created. Cannot be combined with
    /// [`SandboxPolicy::landlock_only`].
    ///
    /// Git inside starts no hook or file monitor, and does not refresh the index.
    #[must_use]
    pub fn deny_writes(mut self) -> Self {
        self.denies_writes = true;
        self
    }

    /// Lets a command make the connections that its request names, in addition to those of the policy and
    /// through a proxy: see [`ExecRequest::connections`](zk_core::service::ExecRequest::connections). Needs
    /// namespaces, and a network other than [`Network::All`]; otherwise it has no effect.
    #[must_use]
    pub fn grant_connections(mut self) -> Self {
        self.grants_connections = true;
        self
    }

    /// Directories that commands may write to, the workspace first.
    #[must_use]
    pub fn writable_paths(&self) -> Vec<&Path> {
        self.writable.iter().map(PathBuf::as_path).collect()
    }
}
