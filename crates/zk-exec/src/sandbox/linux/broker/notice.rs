//! Seccomp user notification, for which no crate has safe functions.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use rustix::io::Errno;
use seccompiler::sock_filter;

/// Flag `SECCOMP_ADDFD_FLAG_SEND`: adds a file to the caller and answers with its number in one step.
const ADD_AND_ANSWER: u32 = 2;

/// Descriptor that delivers the system calls of filtered threads.
pub(super) struct Listener(OwnedFd);

/// System call that waits for its answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Notice {
    pub(super) id: u64,
    /// Id of the calling thread, in this process's namespace.
    pub(super) thread: u32,
    pub(super) call: libc::c_long,
    pub(super) args: [u64; 6],
}

/// Installs a filter on this thread; its notifications arrive at the returned listener.
#[expect(unsafe_code, reason = "seccompiler installs no filter that notifies")]
pub(super) fn install(filter: &[sock_filter]) -> io::Result<Listener> {
    let mut filter: Vec<libc::sock_filter> = filter
        .iter()
        .map(|step| libc::sock_filter { code: step.code, jt: step.jt, jf: step.jf, k: step.k })
        .collect();
    let len = u16::try_from(filter.len()).map_err(io::Error::other)?;
    let program = libc::sock_fprog { len, filter: filter.as_mut_ptr() };
    let install = |flags: libc::c_ulong| {
        // SAFETY: the program points to the stated number of instructions, which live through the call.
        unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program) }
    };
    let mut fd =
        install(libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV);
    if fd < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::EINVAL) {
        // Before Linux 5.19, a signal restarts a waiting call.
        fd = install(libc::SECCOMP_FILTER_FLAG_NEW_LISTENER);
    }
    let fd = i32::try_from(fd).ok().filter(|fd| *fd >= 0).ok_or_else(io::Error::last_os_error)?;
    // SAFETY: the descriptor is new and has no other owner.
    let listener = Listener(unsafe { OwnedFd::from_raw_fd(fd) });
    // Since Linux 6.6: runs the answering thread on the caller's processor. Slower without.
    // SAFETY: the argument of this request is a number.
    unsafe { libc::ioctl(listener.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SET_FLAGS, 1_u64) };
    Ok(listener)
}

#[expect(unsafe_code, reason = "the requests of a listener are in no crate")]
impl Listener {
    /// Waits for the next call.
    pub(super) fn next(&self) -> io::Result<Notice> {
        loop {
            // SAFETY: all zero is a valid value of this structure, and the kernel requires it.
            let mut notice: libc::seccomp_notif = unsafe { std::mem::zeroed() };
            // SAFETY: the request fills the structure, which lives through the call.
            let done =
                unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut notice) };
            if done == 0 {
                return Ok(Notice {
                    id: notice.id,
                    thread: notice.pid,
                    call: notice.data.nr.into(),
                    args: notice.data.args,
                });
            }
            let error = io::Error::last_os_error();
            // The caller has ended, or a signal arrived.
            if !matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EINTR)) {
                return Err(error);
            }
        }
    }

    /// Whether a call is still waiting, so that its thread id has not been reused.
    pub(super) fn is_waiting(&self, id: u64) -> bool {
        // SAFETY: the request reads a number that lives through the call.
        unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ID_VALID, &raw const id) == 0 }
    }

    /// Checks that the kernel can answer a call with an open file in one step.
    pub(super) fn check(&self) -> io::Result<()> {
        // No call has this id. A kernel that knows the request reports that the call is missing.
        let nobody = self.answer_with_file(u64::MAX, &self.0, true);
        match nobody {
            Err(Errno::NOENT) | Ok(()) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Answers a call with its result.
    pub(super) fn answer(&self, id: u64, result: Result<(), Errno>) {
        let error = result.err().map_or(0, |errno| -errno.raw_os_error());
        let mut answer = libc::seccomp_notif_resp { id, val: 0, error, flags: 0 };
        // SAFETY: the request reads the structure, which lives through the call. A caller that has ended
        // needs no answer.
        unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw mut answer) };
    }

    /// Answers a call with an open file, for which the caller gets its lowest free descriptor.
    pub(super) fn answer_with_file(&self, id: u64, file: &OwnedFd, close_at_exec: bool) -> Result<(), Errno> {
        let flags = if close_at_exec { libc::O_CLOEXEC.cast_unsigned() } else { 0 };
        let mut added = libc::seccomp_notif_addfd {
            id,
            flags: ADD_AND_ANSWER,
            srcfd: file.as_raw_fd().cast_unsigned(),
            newfd: 0,
            newfd_flags: flags,
        };
        // SAFETY: the request reads the structure, which lives through the call.
        let fd = unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ADDFD, &raw mut added) };
        if fd >= 0 { Ok(()) } else { Err(last_error()) }
    }
}

/// Reads memory of another process from `address` on, up to the end of its page.
#[expect(unsafe_code, reason = "process_vm_readv is not in rustix")]
pub(super) fn read_memory(thread: u32, address: u64, into: &mut [u8]) -> Result<usize, Errno> {
    let here = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let address = usize::try_from(address).map_err(|_| Errno::FAULT)?;
    let there = libc::iovec { iov_base: std::ptr::without_provenance_mut(address), iov_len: into.len() };
    // SAFETY: the kernel writes to `into` only, within its length. The other address is in the other process
    // and only read.
    let read =
        unsafe { libc::process_vm_readv(thread.cast_signed(), &raw const here, 1, &raw const there, 1, 0) };
    usize::try_from(read).map_err(|_| last_error())
}

/// Binds a socket to a raw address of the caller.
#[expect(unsafe_code, reason = "rustix takes no address in the form it has in memory")]
pub(super) fn bind(socket: &OwnedFd, address: &[u8]) -> Result<(), Errno> {
    let len = libc::socklen_t::try_from(address.len()).map_err(|_| Errno::INVAL)?;
    // SAFETY: the kernel reads `len` bytes of the address, with any content.
    let done = unsafe { libc::bind(socket.as_raw_fd(), address.as_ptr().cast(), len) };
    if done == 0 { Ok(()) } else { Err(last_error()) }
}

fn last_error() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)
}
