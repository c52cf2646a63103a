//! Restrictions of a command, applied just before it starts, on top of its namespaces.

use std::io;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, LandlockStatus, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, Scope,
};
use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::thread::{
    CapabilitySet, CapabilitySets, clear_ambient_capability_set, remove_capability_from_bounding_set,
    set_capabilities, set_no_new_privs,
};
use seccompiler::BpfProgram;

use super::broker::{Broker, Reports};
use super::mounts::DEVICES;
use super::plan::{FRESH, Plan, RUNTIME};
use super::policy::Network;
use super::seccomp;

/// Newest Landlock version whose rules are used; an older kernel enforces the rules that it knows.
const NEWEST_ABI: ABI = ABI::V7;

/// Restrictions for the thread that starts a command, prepared once per sandbox.
pub(crate) struct Confinement {
    /// `None` if the kernel has no Landlock.
    landlock: Option<RulesetCreated>,
    filters: Vec<BpfProgram>,
    /// Filters for a command that may connect to the proxy.
    connecting: Vec<BpfProgram>,
    /// `None` if no names are guarded.
    names: Option<Names>,
    processes: u32,
}

/// Restrictions on the names that a command creates.
struct Names {
    /// Filter that notifies the broker before a name is created.
    filter: BpfProgram,
    guarded: Vec<PathBuf>,
    reports: Reports,
}

impl Confinement {
    /// Prepares the restrictions. Runs after the mounts, so that it sees the same paths as commands.
    pub(super) fn prepare(plan: &Plan, reports: Option<Reports>) -> io::Result<Self> {
        let landlock = ruleset(plan).map_err(io::Error::other)?;
        let guards = !plan.guarded.is_empty();
        let filters =
            |network| seccomp::filters(network, plan.landlock_only, guards).map_err(io::Error::other);
        let network =
            if plan.connects && plan.network == Network::None { Network::Hosts } else { plan.network };
        let (filters, connecting) = (filters(plan.network)?, filters(network)?);
        let names = match reports.filter(|_| guards) {
            Some(reports) => {
                let filter = seccomp::asking().map_err(io::Error::other)?;
                Some(Names { filter, guarded: plan.guarded.clone(), reports })
            }
            None => None,
        };
        Ok(Self { landlock, filters, connecting, names, processes: plan.processes })
    }

    /// Replaces the guarded names, from the next command on.
    pub(super) fn guard(&mut self, guarded: &[PathBuf]) {
        if let Some(names) = &mut self.names {
            names.guarded = guarded.to_vec();
        }
    }

    /// Restricts this thread and its future children. Other threads of the process are not affected.
    pub(crate) fn apply(self, connects: bool, makes_repository: bool) -> io::Result<()> {
        // No core dump is written to the command's directories.
        setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
        let most = Some(u64::from(self.processes));
        setrlimit(Resource::Nproc, Rlimit { current: most, maximum: most })?;
        set_no_new_privs(true)?;
        let has_broker = self.names.is_some();
        // The broker reads paths in the memory of commands that are not dumpable.
        drop_capabilities(if has_broker { CapabilitySet::SYS_PTRACE } else { CapabilitySet::empty() })?;
        if let Some(ruleset) = self.landlock {
            ruleset.restrict_self().map_err(io::Error::other)?;
        }
        let broker = match self.names {
            Some(Names { filter, mut guarded, reports }) => {
                // The command is going to make this repository, which is checked afterwards.
                guarded.retain(|path| !(makes_repository && path.ends_with(".git")));
                Some((filter, Broker::start(&guarded, reports)?))
            }
            None => None,
        };
        keep_capabilities(CapabilitySet::empty())?;
        for filter in if connects { &self.connecting } else { &self.filters } {
            seccompiler::apply_filter(filter).map_err(io::Error::other)?;
        }
        match broker {
            Some((filter, broker)) => broker.answer(&filter),
            None => Ok(()),
        }
    }
}

/// Drops all capabilities but `kept`, which children do not inherit either.
fn drop_capabilities(kept: CapabilitySet) -> io::Result<()> {
    clear_ambient_capability_set()?;
    for capability in CapabilitySet::all().iter() {
        // An error means that the kernel does not know the capability.
        let _ = remove_capability_from_bounding_set(capability);
    }
    keep_capabilities(kept)
}

fn keep_capabilities(kept: CapabilitySet) -> io::Result<()> {
    let inheritable = CapabilitySet::empty();
    Ok(set_capabilities(None, CapabilitySets { effective: kept, permitted: kept, inheritable })?)
}

/// Landlock version of the kernel, as text; `None` without Landlock.
pub(super) fn landlock_version() -> Option<String> {
    let thread = std::thread::Builder::new().spawn(|| {
        // Landlock reports its version only when a ruleset is applied; an empty one in a short-lived thread
        // does no harm.
        let status = Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .scope(Scope::Signal)
            .and_then(|ruleset| ruleset.create())
            .and_then(RulesetCreated::restrict_self);
        status.ok().map(|status| status.landlock)
    });
    match thread.ok()?.join().ok()?? {
        LandlockStatus::Available { effective_abi, kernel_abi } => {
            Some(format!("version {}", kernel_abi.unwrap_or(effective_abi as i32)))
        }
        LandlockStatus::NotEnabled | LandlockStatus::NotImplemented => None,
    }
}

fn ruleset(plan: &Plan) -> Result<Option<RulesetCreated>, landlock::RulesetError> {
    if landlock_version().is_none() {
        return Ok(None);
    }
    let all = AccessFs::from_all(NEWEST_ABI);
    let read = AccessFs::from_read(NEWEST_ABI);
    let device = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::ReadDir | AccessFs::IoctlDev;
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(all)?
        .scope(Scope::AbstractUnixSocket | Scope::Signal)?
        .create()?;
    if plan.landlock_only {
        return without_mounts(ruleset, plan).map(Some);
    }
    ruleset = allow(ruleset, Path::new("/"), read)?;
    ruleset = allow(ruleset, Path::new("/dev"), device)?;
    let own = FRESH.iter().map(PathBuf::from).chain(["/dev/shm".into()]);
    for path in own.chain(plan.writable.iter().chain(&plan.overlaid).cloned()) {
        ruleset = allow(ruleset, &path, all)?;
    }
    Ok(Some(ruleset))
}

/// Ruleset for a sandbox without mounts: rules only allow, so hidden paths are left out of the readable ones.
fn without_mounts(
    mut ruleset: RulesetCreated,
    plan: &Plan,
) -> Result<RulesetCreated, landlock::RulesetError> {
    let mut hidden: Vec<PathBuf> = plan.hidden.clone();
    hidden.extend(FRESH.iter().chain(&RUNTIME).chain(&["/dev"]).map(PathBuf::from));
    ruleset = allow(ruleset, Path::new("/"), AccessFs::ReadDir.into())?;
    let read = AccessFs::from_read(NEWEST_ABI);
    for path in all_but(&hidden) {
        ruleset = allow(ruleset, &path, read)?;
    }
    for path in &plan.readable {
        ruleset = allow(ruleset, path, read)?;
    }
    for name in DEVICES {
        let device = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev;
        ruleset = allow(ruleset, &Path::new("/dev").join(name), device)?;
    }
    for path in &plan.writable {
        ruleset = allow(ruleset, path, AccessFs::from_all(NEWEST_ABI))?;
    }
    Ok(ruleset)
}

/// Smallest set of files and directories that covers all paths but the hidden ones.
fn all_but(hidden: &[PathBuf]) -> Vec<PathBuf> {
    let (mut found, mut todo) = (Vec::new(), vec![PathBuf::from("/")]);
    while let Some(path) = todo.pop() {
        if hidden.contains(&path) {
            continue;
        }
        if !hidden.iter().any(|dir| dir.starts_with(&path)) {
            found.push(path);
            continue;
        }
        let inside = std::fs::read_dir(&path).into_iter().flatten().flatten();
        // The target of a link has a separate rule, or none.
        todo.extend(
            inside
                .filter(|entry| entry.file_type().is_ok_and(|kind| !kind.is_symlink()))
                .map(|entry| entry.path()),
        );
    }
    found
}

fn allow(
    ruleset: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, landlock::RulesetError> {
    match PathFd::new(path) {
        Ok(fd) => {
            let access = if path.is_dir() { access } else { access & AccessFs::from_file(NEWEST_ABI) };
            ruleset.add_rule(PathBeneath::new(fd, access))
        }
        // A missing path needs no rule.
        Err(_) => Ok(ruleset),
    }
}
