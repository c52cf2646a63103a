//! System calls without safe functions in rustix.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::thread::UnshareFlags;

/// Restricting mount attributes, which can be added to those that a mount already has.
pub(super) const READ_ONLY: u64 = libc::MOUNT_ATTR_RDONLY;
pub(super) const NO_DEVICES: u64 = libc::MOUNT_ATTR_NODEV;
pub(super) const NO_SET_USER: u64 = libc::MOUNT_ATTR_NOSUID;

/// Adds the mount attributes `set` and removes `clear` at `path`, and at the mounts below it if `recursive`. Other
/// attributes stay, since those of a more privileged namespace cannot be cleared.
#[expect(unsafe_code, reason = "mount_setattr is not in rustix")]
pub(super) fn set_mount_attributes(path: &Path, recursive: bool, set: u64, clear: u64) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let attributes = libc::mount_attr { attr_set: set, attr_clr: clear, propagation: 0, userns_fd: 0 };
    let flags = if recursive { libc::AT_RECURSIVE } else { 0 } | libc::AT_SYMLINK_NOFOLLOW;
    // SAFETY: the path ends with NUL, the structure has the given size, and both live through the call.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            path.as_ptr(),
            flags,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Moves this single-threaded process to new namespaces.
#[expect(unsafe_code, reason = "rustix cannot know that the table of descriptors is not unshared")]
pub(super) fn unshare(flags: UnshareFlags) -> io::Result<()> {
    // SAFETY: no caller gives `FILES`.
    unsafe { rustix::thread::unshare_unsafe(flags.difference(UnshareFlags::FILES)) }.map_err(Into::into)
}

/// Adds the failed set-up step to an error.
pub(super) trait Step<T> {
    fn step(self, what: &str) -> io::Result<T>;
}

impl<T, E: Into<io::Error>> Step<T> for Result<T, E> {
    fn step(self, what: &str) -> io::Result<T> {
        self.map_err(|error| {
            let error = error.into();
            io::Error::new(error.kind(), format!("cannot {what}: {error}"))
        })
    }
}
