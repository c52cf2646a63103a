//! Plan of a sandbox: a policy applied to the existing files, in the form that the sandbox's first process
//! carries out.

use std::path::{Path, PathBuf};

use super::denial::Denials;
use super::git;
use super::places::{Placeholder, Places, outermost_first};
use super::policy::{Network, SandboxPolicy};
use super::report::SandboxError;
use crate::wire::{put_all, put_len, take_len, take_paths};

/// Directories that a command sees as empty private ones.
pub(super) const FRESH: [&str; 2] = ["/tmp", "/var/tmp"];
/// Directories with the sockets of services, which are hidden.
pub(super) const RUNTIME: [&str; 2] = ["/run", "/var/run"];

/// Physical paths and switches by which the sandbox's first process sets it up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Whether the sandbox consists of Landlock and seccomp only, without mounts.
    pub(super) landlock_only: bool,
    pub(super) network: Network,
    /// Whether there is a proxy; commands with and without the right to connect to it are kept apart.
    pub(super) connects: bool,
    pub(super) processes: u32,
    /// Paths that are mounted writable.
    pub(super) writable: Vec<PathBuf>,
    /// Paths that are mounted read-only, although a parent is hidden.
    pub(super) readable: Vec<PathBuf>,
    /// Directories that cannot be renamed or removed; their entries stay writable.
    pub(super) pins: Vec<PathBuf>,
    /// Directories with a private overlay: commands can write, but to memory that ends with the sandbox.
    pub(super) overlaid: Vec<PathBuf>,
    /// Paths that are read-only inside of writable directories, if they exist.
    pub(super) read_only: Vec<PathBuf>,
    /// Paths that are covered by an empty, inaccessible file or directory, if they exist.
    pub(super) hidden: Vec<PathBuf>,
    /// Names that commands must not create.
    pub(super) guarded: Vec<PathBuf>,
}

impl Plan {
    /// Computes the plan for a policy, and returns the places that it was made of.
    pub(super) fn of(policy: &SandboxPolicy) -> Result<(Self, Places), SandboxError> {
        if policy.landlock_only && matches!(policy.network, Network::Loopback | Network::Hosts) {
            let what = format!(
                "the network `{}` needs namespaces, which this machine refuses",
                policy.network.as_str()
            );
            return Err(SandboxError::Missing { what });
        }
        let places = Places::of(policy)?;
        let named = policy.readable.iter().filter_map(|path| path.canonicalize().ok());
        let readable = outermost_first(named.chain(places.readable.iter().cloned()).collect());
        // Without mounts, existing files of such names could be changed anyway.
        let guarded = if policy.landlock_only { &[] } else { places.placeholders.as_slice() };
        let plan = Self {
            landlock_only: policy.landlock_only,
            network: policy.network,
            connects: policy.network == Network::Hosts
                || (policy.grants_connections && !policy.landlock_only && policy.network != Network::All),
            processes: policy.processes,
            writable: outermost_first(places.writable.clone()),
            readable,
            pins: places.pins.clone(),
            overlaid: Vec::new(),
            read_only: places.read_only.clone(),
            hidden: places.hidden.clone(),
            guarded: guarded.iter().map(Placeholder::path).map(Path::to_owned).collect(),
        };
        Ok((plan, places))
    }

    /// Rules for recognising this sandbox's denials.
    pub(super) fn denials(&self) -> Denials {
        let paths = |paths: [&str; 2]| paths.map(PathBuf::from);
        Denials {
            writable: self.writable.clone(),
            read_only: self.read_only.clone(),
            kept_free: Vec::new(),
            hidden: self.hidden.iter().cloned().chain(paths(RUNTIME)).collect(),
            own: paths(FRESH).into_iter().chain(self.overlaid.iter().cloned()).collect(),
            network: self.network,
        }
    }

    /// Protects start files in repositories that commands have made; the rest of these repositories stays
    /// writable. Returns whether there are any.
    pub(super) fn protect_new_repositories(&mut self) -> bool {
        let is_made = |path: &&PathBuf| path.ends_with(".git") && git::is_initialised(path);
        let made: Vec<PathBuf> = self.guarded.iter().filter(is_made).cloned().collect();
        for dot_git in &made {
            let Some(tree) = dot_git.parent() else { continue };
            let mut places = Places::default();
            git::protect_tree(tree, true, &mut places);
            self.read_only.retain(|path| path != dot_git);
            self.guarded.retain(|path| path != dot_git);
            self.pins.extend(places.pins);
            self.read_only.extend(places.read_only);
            self.guarded.extend(places.placeholders.iter().map(Placeholder::path).map(Path::to_owned));
        }
        self.pins = outermost_first(std::mem::take(&mut self.pins));
        self.read_only = outermost_first(std::mem::take(&mut self.read_only));
        !made.is_empty()
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_len(&mut out, usize::from(self.landlock_only));
        put_len(
            &mut out,
            match self.network {
                Network::None => 0,
                Network::Loopback => 1,
                Network::All => 2,
                Network::Hosts => 3,
            },
        );
        put_len(&mut out, usize::from(self.connects));
        put_len(&mut out, usize::try_from(self.processes).unwrap_or(usize::MAX));
        for paths in [
            &self.writable,
            &self.readable,
            &self.pins,
            &self.overlaid,
            &self.read_only,
            &self.hidden,
            &self.guarded,
        ] {
            put_all(&mut out, paths);
        }
        out
    }

    pub(super) fn decode(mut bytes: &[u8]) -> Option<Self> {
        let from = &mut bytes;
        let landlock_only = take_len(from)? != 0;
        let network = match take_len(from)? {
            0 => Network::None,
            1 => Network::Loopback,
            2 => Network::All,
            3 => Network::Hosts,
            _ => return None,
        };
        let plan = Self {
            landlock_only,
            network,
            connects: take_len(from)? != 0,
            processes: u32::try_from(take_len(from)?).ok()?,
            writable: take_paths(from)?,
            readable: take_paths(from)?,
            pins: take_paths(from)?,
            overlaid: take_paths(from)?,
            read_only: take_paths(from)?,
            hidden: take_paths(from)?,
            guarded: take_paths(from)?,
        };
        from.is_empty().then_some(plan)
    }
}
