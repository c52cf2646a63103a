//! Seccomp filters: system calls that commands in a sandbox must not make.

use std::collections::BTreeMap;
use std::io;

use libc::c_long;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, sock_filter,
};

use super::broker;
use super::policy::Network;
use super::sys::Step;

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// System calls that are refused with any arguments.
const REFUSED: &[c_long] = &[
    // Access to other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_process_madvise,
    // Mounts and namespaces.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_mount_setattr,
    libc::SYS_setns,
    libc::SYS_unshare,
    // Access to files other than by path, and disk administration.
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    libc::SYS_quotactl,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    // Kernel facilities and machine settings.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_reboot,
    libc::SYS_syslog,
    libc::SYS_acct,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_vhangup,
    libc::SYS_fanotify_init,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_modify_ldt,
];

/// System calls that fail with "not implemented", so that programs fall back to older ones whose arguments a
/// filter can check.
const UNKNOWN: &[c_long] =
    &[libc::SYS_clone3, libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register];

/// `ioctl` requests that create names: subvolumes and snapshots of Btrfs, reflinks of OCFS2.
const NAME_MAKING_REQUESTS: [u32; 5] = [0x5000_9401, 0x5000_940e, 0x5000_9417, 0x5000_9418, 0x4018_6f04];

/// Requests of `ioctl` that type into the terminal. The C libraries disagree on the type of a request; its 32 bits are the
/// same in all.
const TYPING_REQUESTS: [u32; 2] = [libc::TIOCSTI as u32, libc::TIOCLINUX as u32];

/// System calls that create names with any arguments.
const NAME_MAKING: &[c_long] = &[
    libc::SYS_mkdirat,
    libc::SYS_mknodat,
    libc::SYS_symlinkat,
    libc::SYS_linkat,
    libc::SYS_renameat2,
    libc::SYS_bind,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_renameat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_creat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mkdir,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mknod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_symlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_link,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rename,
];
/// Placeholder for the notify action, which seccompiler does not have.
const TRACED: u32 = 0x7ff0_0000;
const NOTIFIED: u32 = 0x7fc0_0000;

/// Builds the filters, in the order in which they are installed.
///
/// Without mounts, sockets of other programs cannot be covered, so commands get no Unix sockets at all.
pub(super) fn filters(
    network: Network,
    landlock_only: bool,
    asks_for_names: bool,
) -> Result<Vec<BpfProgram>, BackendError> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let mut refused: Rules = REFUSED.iter().map(|call| (*call, Vec::new())).collect();
    refused.insert(libc::SYS_prlimit64, vec![rule([(0, SeccompCmpOp::Ne, 0)])?]);
    let requests = TYPING_REQUESTS.into_iter().chain(NAME_MAKING_REQUESTS);
    let requests = requests.map(|request| rule([(1, SeccompCmpOp::Eq, u64::from(request))]));
    refused.insert(libc::SYS_ioctl, requests.collect::<Result<_, _>>()?);
    let spaces = [
        libc::CLONE_NEWNS,
        libc::CLONE_NEWUSER,
        libc::CLONE_NEWPID,
        libc::CLONE_NEWNET,
        libc::CLONE_NEWIPC,
        libc::CLONE_NEWUTS,
        libc::CLONE_NEWCGROUP,
    ];
    let spaces = spaces.map(|flag| u64::from(flag.cast_unsigned()));
    let any_space = |flag: u64| rule([(0, SeccompCmpOp::MaskedEq(flag), flag)]);
    refused.insert(libc::SYS_clone, spaces.into_iter().map(any_space).collect::<Result<_, _>>()?);
    let mut families = if landlock_only { Vec::new() } else { vec![libc::AF_UNIX] };
    if network != Network::None {
        families.extend([libc::AF_INET, libc::AF_INET6]);
    }
    let other =
        families.into_iter().map(|family| condition(0, SeccompCmpOp::Ne, u64::from(family.unsigned_abs())));
    let other: Vec<SeccompCondition> = other.collect::<Result<_, _>>()?;
    // A rule without conditions matches any call.
    let mut socket = if other.is_empty() { Vec::new() } else { vec![SeccompRule::new(other)?] };
    if network != Network::None {
        // Raw sockets read traffic of others; the low bits are the socket's type, the rest flags.
        let raw = u64::from(libc::SOCK_RAW.unsigned_abs());
        socket.push(rule([(1, SeccompCmpOp::MaskedEq(0xf), raw)])?);
    }
    refused.insert(libc::SYS_socket, socket);
    // The flags of `openat2` lie in memory, where filters cannot read them.
    let opening = asks_for_names.then_some(&libc::SYS_openat2);
    let unknown: Rules = UNKNOWN.iter().chain(opening).map(|call| (*call, Vec::new())).collect();
    let denied = |rules, errno: i32| {
        let action = SeccompAction::Errno(errno.unsigned_abs());
        SeccompFilter::new(rules, SeccompAction::Allow, action, arch).and_then(BpfProgram::try_from)
    };
    let mut all = vec![denied(refused, libc::EPERM)?, denied(unknown, libc::ENOSYS)?];
    if cfg!(target_arch = "x86_64") {
        all.push(without_x32());
    }
    Ok(all)
}

/// Filter that notifies the broker of calls that create names.
pub(super) fn asking() -> Result<BpfProgram, BackendError> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let mut asked: Rules = NAME_MAKING.iter().map(|call| (*call, Vec::new())).collect();
    let creates = u64::from(libc::O_CREAT.unsigned_abs());
    // `O_PATH` makes `O_CREAT` ineffective.
    let either = creates | u64::from(libc::O_PATH.unsigned_abs());
    let opens = |flags| rule([(flags, SeccompCmpOp::MaskedEq(either), creates)]);
    asked.insert(libc::SYS_openat, vec![opens(2)?]);
    #[cfg(target_arch = "x86_64")]
    asked.insert(libc::SYS_open, vec![opens(1)?]);
    let filter = SeccompFilter::new(asked, SeccompAction::Allow, SeccompAction::Trace(0), arch)?;
    let mut program = BpfProgram::try_from(filter)?;
    const RETURN: u16 = 0x06;
    for step in program.iter_mut().filter(|step| step.code == RETURN && step.k == TRACED) {
        step.k = NOTIFIED;
    }
    Ok(program)
}

/// Checks that the kernel accepts a filter, by installing one that allows everything on a short-lived thread.
pub(super) fn check(asks_for_names: bool) -> io::Result<()> {
    const ALLOW: sock_filter = sock_filter { code: 0x06, jt: 0, jf: 0, k: 0x7fff_0000 };
    let thread = std::thread::Builder::new().spawn(move || {
        seccompiler::apply_filter(&[ALLOW])
            .map_err(|error| match error {
                seccompiler::Error::Seccomp(error) | seccompiler::Error::Prctl(error) => error,
                other => io::Error::other(other),
            })
            .step("filter system calls (seccomp)")?;
        // Notifications fail in a container that uses them itself, or whose filter refuses them.
        if asks_for_names { broker::check() } else { Ok(()) }
    });
    let applied = thread.step("filter system calls (seccomp)")?.join();
    applied.unwrap_or_else(|_| Err(io::Error::other("it broke off")))
}

fn condition(arg: u8, op: SeccompCmpOp, value: u64) -> Result<SeccompCondition, BackendError> {
    // The kernel reads only the low half of these arguments.
    SeccompCondition::new(arg, SeccompCmpArgLen::Dword, op, value)
}

fn rule<const N: usize>(conditions: [(u8, SeccompCmpOp, u64); N]) -> Result<SeccompRule, BackendError> {
    let conditions = conditions.into_iter().map(|(arg, op, value)| condition(arg, op, value));
    SeccompRule::new(conditions.collect::<Result<_, _>>()?)
}

/// Refuses the x32 system calls, a second numbering on this processor that the rules above do not name.
fn without_x32() -> BpfProgram {
    const LOAD_NUMBER: sock_filter = sock_filter { code: 0x20, jt: 0, jf: 0, k: 0 };
    const X32: u32 = 0x4000_0000;
    const ALLOW: u32 = 0x7fff_0000;
    const ERRNO: u32 = 0x0005_0000;
    let errno = ERRNO | libc::ENOSYS.unsigned_abs();
    vec![
        LOAD_NUMBER,
        sock_filter { code: 0x35, jt: 0, jf: 1, k: X32 },
        sock_filter { code: 0x06, jt: 0, jf: 0, k: errno },
        sock_filter { code: 0x06, jt: 0, jf: 0, k: ALLOW },
    ]
}
