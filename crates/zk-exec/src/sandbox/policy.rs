use std::path::{Path, PathBuf};

use super::hosts::HostRules;
use crate::Limits;

/// Access that commands in a sandbox have.
///
/// Everything that is not named here is read-only, and what holds credentials is hidden.
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

/// Connections that a command in a sandbox can make.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Network {
    /// None, not even to itself.
    #[default]
    None,
    /// Among the commands of the sandbox, over addresses of the loopback interface.
    Loopback,
    /// Connections as with [`Loopback`](Self::Loopback), and to [named hosts](SandboxPolicy::hosts) through a
    /// proxy: HTTP and whatever goes through its tunnels, never a datagram.
    Hosts,
    /// All that the machine can make.
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
    /// Commands that write to `workspace` and to a temporary directory of their own, without a network.
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

    /// Allows writes to this directory. One that does not exist is left out.
    #[must_use]
    pub fn writable(mut self, path: impl Into<PathBuf>) -> Self {
        self.writable.push(path.into());
        self
    }

    /// The repository that the workspace is a part of, which is written as well: `git commit`, a lock file and a build
    /// directory above the workspace need it. One that is too wide for a sandbox, that everybody can write to, or that
    /// is no repository around the workspace is left as it is.
    #[must_use]
    pub fn project(mut self, root: impl Into<PathBuf>) -> Self {
        self.project = Some(root.into());
        self
    }

    /// Allows reads of this file or directory where it would be hidden: below `/run`, `/tmp` or `/var/tmp`.
    #[must_use]
    pub fn readable(mut self, path: impl Into<PathBuf>) -> Self {
        self.readable.push(path.into());
        self
    }

    /// Denies writes of this file or directory inside of what is writable.
    #[must_use]
    pub fn protected(mut self, path: impl Into<PathBuf>) -> Self {
        self.protected.push(path.into());
        self
    }

    /// Sees nothing of this file or directory.
    #[must_use]
    pub fn hidden(mut self, path: impl Into<PathBuf>) -> Self {
        self.hidden.push(path.into());
        self
    }

    /// The person's home: what holds credentials there is hidden.
    #[must_use]
    pub fn home(mut self, home: impl Into<PathBuf>) -> Self {
        self.home = Some(home.into());
        self
    }

    /// A private directory of the host, hidden from commands, for what has to outlive a crash: the list of placeholders
    /// and the result of the self-test.
    #[must_use]
    pub fn state(mut self, directory: impl Into<PathBuf>) -> Self {
        let directory = directory.into();
        self.hidden.push(directory.clone());
        self.state = Some(directory);
        self
    }

    /// Sets which connections are possible.
    #[must_use]
    pub fn network(mut self, network: Network) -> Self {
        self.network = network;
        self
    }

    /// Reaches these hosts, through a proxy that is named to commands in `HTTP_PROXY` and its like.
    #[must_use]
    pub fn hosts(mut self, hosts: HostRules) -> Self {
        self.network = Network::Hosts;
        self.hosts = hosts;
        self
    }

    /// Sets the most processes of all commands at a time, from 301: 4096 unless set.
    #[must_use]
    pub fn processes(mut self, most: u32) -> Self {
        self.processes = most.max(301);
        self
    }

    /// Sets the limits of one command.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Does without namespaces and mounts, where the machine refuses them: Landlock and seccomp are what is left.
    ///
    /// Promises that still hold: nothing outside of the workspace and a temporary directory is written,
    /// credentials and the state of the host are not read, and no connection is made. Promises that do not:
    /// protected files inside the workspace can be changed, names of files and other processes are seen, and
    /// commands have no Unix sockets. Loopback and named hosts need more than this.
    #[must_use]
    pub fn landlock_only(mut self) -> Self {
        self.landlock_only = true;
        self
    }

    /// Makes what is writable readable only: commands write to a temporary directory of their own and to nothing else, and
    /// no name is guarded, since none can be made; credentials are hidden. Not together with [`SandboxPolicy::landlock_only`].
    ///
    /// Git inside starts no hook and no monitor, and leaves an index that it cannot refresh as it is.
    #[must_use]
    pub fn deny_writes(mut self) -> Self {
        self.denies_writes = true;
        self
    }

    /// Lets a command make the connections that its request names, through a proxy and beside those of the policy: see
    /// [`ExecRequest::connections`](zk_core::service::ExecRequest::connections). Needs namespaces, and a network other than
    /// [`Network::All`]; has no effect elsewhere.
    #[must_use]
    pub fn grant_connections(mut self) -> Self {
        self.grants_connections = true;
        self
    }

    /// The directories commands write to, the workspace first.
    #[must_use]
    pub fn writable_paths(&self) -> Vec<&Path> {
        self.writable.iter().map(PathBuf::as_path).collect()
    }
}
