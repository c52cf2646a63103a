use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{FromRawFd, OwnedFd};

/// Blocks every signal that can be blocked and returns a descriptor that becomes readable when a child ends.
///
/// So a terminal's keys, a `kill $PPID` in a script or the end of a session cannot end a supervisor before
/// its commands. Children inherit the mask until [`unblock_all`].
#[expect(unsafe_code, reason = "signal masks and descriptors are not in rustix")]
pub(super) fn block_all() -> io::Result<OwnedFd> {
    // SAFETY: each set is filled before it is read, the pointers live through the calls, and the descriptor
    // is new and has no other owner.
    unsafe {
        let mut all = MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigfillset(all.as_mut_ptr());
        check(libc::pthread_sigmask(libc::SIG_BLOCK, all.as_ptr(), std::ptr::null_mut()))?;
        let mut child = MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigemptyset(child.as_mut_ptr());
        libc::sigaddset(child.as_mut_ptr(), libc::SIGCHLD);
        let fd = libc::signalfd(-1, child.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
        if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(fd)) }
    }
}

/// Unblocks all signals. Async-signal-safe: may be called between fork and exec.
#[expect(unsafe_code, reason = "signal masks are not in rustix")]
pub(super) fn unblock_all() -> io::Result<()> {
    // SAFETY: the set is filled before it is read and lives through the call.
    unsafe {
        let mut none = MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigemptyset(none.as_mut_ptr());
        check(libc::pthread_sigmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut()))
    }
}

fn check(code: i32) -> io::Result<()> {
    if code == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(code)) }
}

/// Empties the signal descriptor; its content does not matter.
pub(super) fn drain(fd: &OwnedFd) {
    let mut buffer = [0_u8; 1024];
    while rustix::io::read(fd, &mut buffer).is_ok_and(|read| read > 0) {}
}
