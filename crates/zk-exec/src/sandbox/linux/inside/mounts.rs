//! Mounts of a sandbox: the view of the file system that commands see.

use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statx};
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, mount, mount_change, move_mount,
    open_tree,
};

use super::connector;
use super::plan::{FRESH, Plan, RUNTIME};
use super::sys::{NO_DEVICES, NO_SET_USER, READ_ONLY, Step, set_mount_attributes};

/// Devices that are safe to use.
pub(super) const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];
/// Paths in `/run` where some distributions keep their programs.
const KEPT: [&str; 1] = ["/run/current-system"];
/// Parts of `/proc` through which a superuser could change the machine.
const PROC_READ_ONLY: [&str; 5] = ["/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs"];
/// Parts of `/proc` that reveal data of the machine.
const PROC_HIDDEN: [&str; 7] = [
    "/proc/kcore",
    "/proc/keys",
    "/proc/kmsg",
    "/proc/timer_list",
    "/proc/acpi",
    "/proc/scsi",
    "/proc/kallsyms",
];

/// Empty file and directory that are mounted over hidden paths.
const NOTHING: &str = "/run/.nothing";
const NOTHING_DIR: &str = "/run/.nothing.d";

/// Makes all mounts. The process must be the first of a new process namespace, in a new mount namespace.
pub(super) fn build(plan: &Plan) -> io::Result<()> {
    let root = Path::new("/");
    mount_change(root, MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .step("detach the mounts")?;
    // Cloned before the whole tree becomes read-only, so that these stay writable.
    let writable = clone_trees(&plan.writable)?;
    let kept: Vec<PathBuf> = KEPT.iter().map(PathBuf::from).chain(hidden_resolv_conf(plan)).collect();
    let readable = clone_trees(plan.readable.iter().chain(kept.iter().filter(|path| path.exists())))?;
    let devices = clone_trees(DEVICES.map(|name| Path::new("/dev").join(name)))?;
    set_mount_attributes(root, true, READ_ONLY | NO_SET_USER | NO_DEVICES, 0)
        .step("make the files read-only")?;

    for dir in RUNTIME {
        mount_empty(dir, "mode=0755")?;
    }
    for dir in FRESH {
        mount_empty(dir, "mode=1777")?;
    }
    mount_devices(devices)?;
    fs::write(NOTHING, "").step("make an empty file")?;
    fs::create_dir(NOTHING_DIR).step("make an empty directory")?;
    for path in [NOTHING, NOTHING_DIR] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o000)).step("close an empty file")?;
    }
    if plan.connects
        && let Some((own, of_machine)) = connector::write().step("write the program that ssh connects by")?
    {
        bind(own, &of_machine)?;
    }
    for (path, tree) in readable {
        attach_tree_at_new_path(&path, &tree)?;
        set_mount_attributes(&path, true, READ_ONLY | NO_SET_USER | NO_DEVICES, 0)
            .step("make a file read-only")?;
    }
    for (path, tree) in writable {
        attach_tree_at_new_path(&path, &tree)?;
        set_mount_attributes(&path, true, NO_SET_USER | NO_DEVICES, 0).step("restrict the workspace")?;
    }
    // Without overlay support these directories stay read-only.
    for (at, dir) in plan.overlaid.iter().enumerate() {
        let _ = overlay(at, dir);
    }
    mount_proc(plan)?;
    protect(plan)?;
    for dir in RUNTIME.iter().map(Path::new).filter(|dir| is_mount_point(dir)) {
        set_mount_attributes(dir, false, READ_ONLY, 0).step("make /run read-only")?;
    }
    Ok(())
}

/// Mounts a private writable overlay over a directory.
fn overlay(at: usize, dir: &Path) -> io::Result<()> {
    let invalid = || io::Error::from(io::ErrorKind::InvalidInput);
    // Characters with a meaning in mount options.
    let lower = dir.to_str().filter(|dir| !dir.contains([',', ':', '\\'])).ok_or_else(invalid)?;
    let own = PathBuf::from(format!("/run/.overlay-{at}"));
    let (upper, work) = (own.join("upper"), own.join("work"));
    fs::create_dir_all(&upper)?;
    fs::create_dir_all(&work)?;
    let options =
        format!("userxattr,lowerdir={lower},upperdir={},workdir={}", upper.display(), work.display());
    let options = std::ffi::CString::new(options)?;
    mount("overlay", dir, "overlay", MountFlags::NOSUID | MountFlags::NODEV, Some(options.as_c_str()))?;
    Ok(())
}

/// Mounts all missing protection over existing paths of the plan.
///
/// When the host replaces a file, as `git config` does, the mount over it is removed, so this runs before
/// each command.
pub(super) fn protect(plan: &Plan) -> io::Result<()> {
    for path in &plan.pins {
        if let Some(false) = mount_state(path) {
            bind(path, path)?;
        }
    }
    // A repository that a permitted command makes must not be covered by a mount.
    let is_open = |path: &&PathBuf| path.ends_with(".git") && plan.guarded.contains(path);
    for path in plan.read_only.iter().filter(|path| !is_open(path)) {
        if let Some(false) = mount_state(path) {
            bind(path, path)?;
            set_mount_attributes(path, true, READ_ONLY | NO_SET_USER | NO_DEVICES, 0)
                .step("protect a file")?;
        }
    }
    for path in &plan.hidden {
        if let Some(false) = mount_state(path) {
            hide(path)?;
        }
    }
    Ok(())
}

/// Whether a path is a mount point; `None` if it is missing or a symbolic link.
fn mount_state(path: &Path) -> Option<bool> {
    let found = statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::TYPE).ok()?;
    let kind = rustix::fs::FileType::from_raw_mode(found.stx_mode.into());
    (kind != rustix::fs::FileType::Symlink)
        .then(|| found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

fn is_mount_point(path: &Path) -> bool {
    mount_state(path) == Some(true)
}

fn hide(path: &Path) -> io::Result<()> {
    let stand_in = if path.is_dir() { NOTHING_DIR } else { NOTHING };
    bind(Path::new(stand_in), path)?;
    if is_mount_point(path) {
        set_mount_attributes(path, false, READ_ONLY, 0).step("close a hidden file")?;
    }
    Ok(())
}

/// Unix sockets of the machine's programs, those made after the sandbox included.
///
/// Connecting to a socket needs no right to write to its directory, so each visible socket is covered by a
/// mount.
pub(super) struct Sockets {
    /// `/proc/net/unix`, opened before the process left the machine's network namespace.
    table: File,
}

impl Sockets {
    pub(super) fn of_machine() -> io::Result<Self> {
        Ok(Self { table: File::open("/proc/self/net/unix").step("list the sockets of the machine")? })
    }

    /// Covers the sockets that exist now.
    pub(super) fn hide(&self) -> io::Result<()> {
        let mut text = String::new();
        (&self.table).rewind()?;
        (&self.table).read_to_string(&mut text).step("list the sockets of the machine")?;
        let named = text.lines().filter_map(|line| line.split_once(" /")).map(|(_, path)| format!("/{path}"));
        for path in named.map(PathBuf::from) {
            let covered =
                FRESH.iter().chain(&RUNTIME).chain(&["/dev", "/proc"]).any(|dir| path.starts_with(dir));
            if !covered && is_socket(&path) && mount_state(&path) == Some(false) {
                match hide(&path) {
                    // The socket was removed since it was listed; one that comes back is covered before the next command.
                    Err(error) if error.kind() == io::ErrorKind::NotFound && !is_socket(&path) => {}
                    hidden => hidden?,
                }
            }
        }
        Ok(())
    }
}

fn is_socket(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket())
}

fn clone_tree(path: &Path) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE
        | OpenTreeFlags::AT_SYMLINK_NOFOLLOW;
    open_tree(CWD, path, flags).step(&format!("take {}", path.display()))
}

fn clone_trees<P: AsRef<Path>>(paths: impl IntoIterator<Item = P>) -> io::Result<Vec<(PathBuf, OwnedFd)>> {
    paths.into_iter().map(|path| Ok((path.as_ref().to_owned(), clone_tree(path.as_ref())?))).collect()
}

fn attach_tree(path: &Path, tree: &OwnedFd) -> io::Result<()> {
    move_mount(tree, c"", CWD, path, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
        .step(&format!("mount {}", path.display()))
}

/// Mounts a tree at its path, which may first have to be created in one of the empty directories.
fn attach_tree_at_new_path(path: &Path, tree: &OwnedFd) -> io::Result<()> {
    if fs::symlink_metadata(path).is_err() {
        if let Some(above) = path.parent() {
            fs::create_dir_all(above).step(&format!("make {}", above.display()))?;
        }
        let is_dir = rustix::fs::fstat(tree).is_ok_and(|stat| {
            rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::Directory
        });
        let made = if is_dir { fs::create_dir(path) } else { fs::write(path, "") };
        made.step(&format!("make {}", path.display()))?;
    }
    attach_tree(path, tree)
}

fn bind(from: &Path, to: &Path) -> io::Result<()> {
    match clone_tree(from) {
        Ok(tree) => attach_tree(to, &tree),
        // The file was removed since it was checked.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Mounts an empty in-memory directory. A missing directory, or a link, is skipped.
fn mount_empty(dir: &str, options: &str) -> io::Result<()> {
    if fs::symlink_metadata(dir).is_ok_and(|found| found.is_dir()) {
        mount_memory(dir, options)
    } else {
        Ok(())
    }
}

fn mount_memory(dir: &str, options: &str) -> io::Result<()> {
    let options = std::ffi::CString::new(options)?;
    mount("tmpfs", dir, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, Some(options.as_c_str()))
        .step(&format!("mount an empty {dir}"))
}

/// Mounts a `/dev` with the usual devices and private terminals.
fn mount_devices(devices: Vec<(PathBuf, OwnedFd)>) -> io::Result<()> {
    use std::os::unix::fs::symlink;
    let fail = "fill /dev";
    mount_memory("/dev", "mode=0755")?;
    for (path, tree) in devices {
        attach_tree_at_new_path(&path, &tree)?;
    }
    for (name, target) in [
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
        ("ptmx", "pts/ptmx"),
    ] {
        symlink(target, Path::new("/dev").join(name)).step(fail)?;
    }
    for dir in ["/dev/shm", "/dev/pts"] {
        fs::create_dir(dir).step(fail)?;
    }
    mount_memory("/dev/shm", "mode=1777")?;
    let options = c"newinstance,ptmxmode=0666,mode=0620";
    mount("devpts", "/dev/pts", "devpts", MountFlags::NOSUID | MountFlags::NOEXEC, Some(options))
        .step("mount terminals")?;
    set_mount_attributes(Path::new("/dev"), false, READ_ONLY, 0).step(fail)
}

/// Mounts a `/proc` of the sandbox's processes, with the parts that affect the machine read-only or hidden.
fn mount_proc(plan: &Plan) -> io::Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("proc", "/proc", "proc", flags, None).step("mount a fresh /proc")?;
    // Older kernels have one machine-wide limit, which this process may not change.
    let _ = fs::write("/proc/sys/kernel/pid_max", plan.processes.to_string());
    for path in PROC_READ_ONLY.iter().map(Path::new).filter(|path| path.exists()) {
        bind(path, path)?;
        set_mount_attributes(path, true, READ_ONLY, 0).step("protect /proc")?;
    }
    for path in PROC_HIDDEN.iter().map(Path::new).filter(|path| path.exists()) {
        hide(path)?;
    }
    Ok(())
}

/// Target of `/etc/resolv.conf` that would be hidden, if commands have the machine's network and so need it.
fn hidden_resolv_conf(plan: &Plan) -> Option<PathBuf> {
    let target = fs::canonicalize("/etc/resolv.conf").ok()?;
    let is_covered = RUNTIME.iter().any(|dir| target.starts_with(dir));
    (plan.network == super::policy::Network::All && is_covered).then_some(target)
}
