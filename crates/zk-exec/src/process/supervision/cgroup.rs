//! Control groups (cgroup v2): one for each command, if this user may make them.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::Limits;
use crate::limits::Exceeded;

/// Prefix of the name of each group; the process id of this program follows.
const NAME: &str = "zk-command-";

/// Maker of control groups. The directory for them is looked up for the first command with a limit.
#[derive(Debug, Default)]
pub(super) struct Cgroups {
    place: OnceLock<Option<Place>>,
    serial: AtomicU64,
    /// Groups that still had processes when they were to be removed.
    left: Mutex<Vec<PathBuf>>,
}

/// Directory in which groups can be made, with the controllers that they have there.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    dir: PathBuf,
    memory: bool,
    processes: bool,
}

/// Control group of one command.
#[derive(Debug)]
pub(super) struct Cgroup {
    dir: PathBuf,
    /// Limits that the group enforces.
    pub(super) limits: Limits,
}

impl Cgroups {
    /// Makes a group with the limits that groups can enforce here; `None` if they enforce none. The
    /// descriptor is for the process that moves into the group.
    pub(super) fn make(&self, limits: Limits) -> Option<(Cgroup, OwnedFd)> {
        if limits.memory.is_none() && limits.processes.is_none() {
            return None;
        }
        self.sweep();
        let place = self.place.get_or_init(|| find(Path::new("/proc/self"))).as_ref()?;
        let limits = Limits {
            memory: limits.memory.filter(|_| place.memory),
            processes: limits.processes.filter(|_| place.processes),
            output: None,
        };
        let number = self.serial.fetch_add(1, Ordering::Relaxed);
        let dir = place.dir.join(format!("{NAME}{}-{number}", std::process::id()));
        fs::create_dir(&dir).ok()?;
        let group = Cgroup { dir, limits };
        match group.set_up() {
            Ok(door) => Some((group, door)),
            Err(_) => {
                self.remove(group);
                None
            }
        }
    }

    /// Removes the group of a command that has ended. A group that is not empty yet is removed later.
    pub(super) fn remove(&self, group: Cgroup) {
        if fs::remove_dir(&group.dir).is_err() {
            self.lock().push(group.dir);
        }
    }

    /// Removes groups that were not empty before.
    pub(super) fn sweep(&self) {
        self.lock().retain(|dir| fs::remove_dir(dir).is_err() && dir.exists());
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<PathBuf>> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Cgroups {
    fn drop(&mut self) {
        self.sweep();
    }
}

impl Cgroup {
    /// Sets the limits; returns a descriptor: a process that writes `0` to it moves into the group.
    fn set_up(&self) -> io::Result<OwnedFd> {
        if let Some(bytes) = self.limits.memory {
            fs::write(self.dir.join("memory.max"), bytes.to_string())?;
            // Swapped-out memory counts as well. Some kernels have no such control.
            let _ = fs::write(self.dir.join("memory.swap.max"), "0");
        }
        if let Some(most) = self.limits.processes {
            // The reaper of the command is in the group as well.
            fs::write(self.dir.join("pids.max"), most.saturating_add(1).to_string())?;
        }
        Ok(File::options().write(true).open(self.dir.join("cgroup.procs"))?.into())
    }

    /// Limit that the kernel enforced on the group, if any.
    pub(super) fn exceeded(&self) -> Option<Exceeded> {
        let happened = |file: &str, event: &str| {
            let text = fs::read_to_string(self.dir.join(file)).unwrap_or_default();
            let count = text.lines().find_map(|line| line.strip_prefix(event)?.trim().parse::<u64>().ok());
            count.is_some_and(|count| count > 0)
        };
        if self.limits.memory.is_some() && happened("memory.events", "oom_kill ") {
            Some(Exceeded::Memory)
        } else if self.limits.processes.is_some() && happened("pids.events", "max ") {
            Some(Exceeded::Processes)
        } else {
            None
        }
    }
}

/// Finds the directory for groups: the group of this process or its parent, whichever allows groups with
/// limits first.
fn find(process: &Path) -> Option<Place> {
    let mounts = fs::read_to_string(process.join("mounts")).ok()?;
    let root = mounts.lines().find_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let (dir, kind) = (fields.next()?, fields.next()?);
        (kind == "cgroup2").then(|| PathBuf::from(dir))
    })?;
    let own = fs::read_to_string(process.join("cgroup")).ok()?;
    let own = own.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let own = root.join(own);
    let places = own.ancestors().take(2).filter(|dir| dir.starts_with(&root));
    let place = places.filter_map(usable_place).next()?;
    remove_stale(&place.dir);
    Some(place)
}

fn usable_place(dir: &Path) -> Option<Place> {
    let given = fs::read_to_string(dir.join("cgroup.subtree_control")).ok()?;
    let has = |name| given.split_ascii_whitespace().any(|word| word == name);
    let (memory, processes) = (has("memory"), has("pids"));
    let may_write = rustix::fs::access(dir, rustix::fs::Access::WRITE_OK).is_ok();
    (may_write && (memory || processes)).then(|| Place { dir: dir.to_owned(), memory, processes })
}

/// Removes groups of programs that have ended.
fn remove_stale(dir: &Path) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let of = name.to_str().and_then(|name| name.strip_prefix(NAME)?.split('-').next());
        if of.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { memory: Some(64 << 20), processes: Some(20), output: None };

    /// Directories with the files of a cgroup tree, and of a process in the group `slice/scope`; `given` names the
    /// delegated controllers.
    fn fake_cgroup_tree(given: &str) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let (process, root) = (dir.path().join("process"), dir.path().join("cgroups"));
        fs::create_dir_all(root.join("slice/scope")).unwrap();
        fs::create_dir(&process).unwrap();
        let mount = format!("cgroup {0} cgroup rw 0 0\ncgroup2 {0} cgroup2 rw 0 0\n", root.display());
        fs::write(process.join("mounts"), mount).unwrap();
        fs::write(process.join("cgroup"), "1:name=systemd:/\n0::/slice/scope\n").unwrap();
        fs::write(root.join("slice/cgroup.subtree_control"), given).unwrap();
        fs::write(root.join("slice/scope/cgroup.subtree_control"), "").unwrap();
        (dir, process)
    }

    #[test]
    fn a_place_for_groups_is_found_where_controllers_are_delegated() {
        let (dir, process) = fake_cgroup_tree("cpu memory pids");
        let slice = dir.path().join("cgroups/slice");
        assert_eq!(find(&process), Some(Place { dir: slice, memory: true, processes: true }));
        let (_dir, process) = fake_cgroup_tree("cpu hugetlb");
        assert_eq!(find(&process), None);
    }

    #[test]
    fn a_group_has_the_limits_and_tells_which_was_exceeded() {
        let dir = tempfile::tempdir().unwrap();
        let group = Cgroup { dir: dir.path().to_owned(), limits: LIMITS };
        fs::write(dir.path().join("cgroup.procs"), "").unwrap();
        group.set_up().unwrap();
        let read = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
        assert_eq!((read("memory.max"), read("pids.max")), ("67108864".into(), "21".into()));
        assert_eq!(group.exceeded(), None);
        fs::write(dir.path().join("pids.events"), "max 3\n").unwrap();
        assert_eq!(group.exceeded(), Some(Exceeded::Processes));
        fs::write(dir.path().join("memory.events"), "low 0\noom 1\noom_kill 1\n").unwrap();
        assert_eq!(group.exceeded(), Some(Exceeded::Memory));
    }
}
