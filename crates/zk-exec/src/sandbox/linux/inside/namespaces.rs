//! Namespaces: from a process of the machine to the first process of a sandbox.

use std::fs;
use std::io;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use rustix::process::{
    DumpableBehavior, Signal, WaitOptions, getgid, getuid, set_dumpable_behavior,
    set_parent_process_death_signal, waitpid,
};
use rustix::thread::UnshareFlags;

use super::plan::Plan;
use super::policy::Network;
use super::sys::{Step, unshare};
use crate::process::{Side, fork, leave};

/// Enters new namespaces; returns in the first process of the new process namespace.
///
/// The calling process waits for it and ends with it; if the caller is killed, the kernel kills all processes
/// inside.
pub(super) fn enter(plan: &Plan) -> io::Result<()> {
    let (user, group) = (getuid().as_raw(), getgid().as_raw());
    // Otherwise the files of `/proc/self` belong to root. This process does not hold any secret yet.
    set_dumpable_behavior(DumpableBehavior::Dumpable)?;
    unshare(UnshareFlags::NEWUSER).step("make a user namespace")?;
    fs::write("/proc/self/setgroups", "deny").step("fix the groups")?;
    fs::write("/proc/self/uid_map", format!("{user} {user} 1")).step("map the user")?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1")).step("map the group")?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    let mut spaces = UnshareFlags::NEWNS | UnshareFlags::NEWPID | UnshareFlags::NEWIPC;
    if plan.network != Network::All {
        spaces |= UnshareFlags::NEWNET;
    }
    unshare(spaces).step("make mount, process and network namespaces")?;
    let child = match fork().step("start the first process")? {
        Side::Child => {
            set_parent_process_death_signal(Some(Signal::KILL))?;
            if plan.network == Network::Loopback || plan.connects {
                bring_up_loopback().step("bring up the loopback interface")?;
            }
            return Ok(());
        }
        Side::Parent(child) => child,
    };
    let _ = rustix::thread::set_name(c"sandbox-parent");
    let status = loop {
        match waitpid(Some(child), WaitOptions::empty()) {
            Ok(Some((_, status))) => break status.exit_status().unwrap_or(1),
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => break 1,
        }
    };
    leave(status)
}

/// Brings the loopback interface up, which is the first interface of a new network namespace.
fn bring_up_loopback() -> io::Result<()> {
    const NEW_LINK: u16 = 16;
    const REQUEST_AND_ACKNOWLEDGE: u16 = 5;
    const UP: u32 = 1;
    // Protocol 0 of netlink is `NETLINK_ROUTE`, for routes and interfaces.
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    // Header of 16 bytes: length, type, flags, number, port. Then family, type, index, flags and flag mask of
    // the interface.
    let mut request = Vec::with_capacity(32);
    request.extend_from_slice(&32_u32.to_ne_bytes());
    request.extend_from_slice(&NEW_LINK.to_ne_bytes());
    request.extend_from_slice(&REQUEST_AND_ACKNOWLEDGE.to_ne_bytes());
    request.extend_from_slice(&1_u32.to_ne_bytes());
    request.extend_from_slice(&0_u32.to_ne_bytes());
    request.extend_from_slice(&[0, 0, 0, 0]);
    request.extend_from_slice(&1_i32.to_ne_bytes());
    request.extend_from_slice(&UP.to_ne_bytes());
    request.extend_from_slice(&UP.to_ne_bytes());
    rustix::net::send(&socket, &request, rustix::net::SendFlags::empty())?;
    let mut answer = [0_u8; 64];
    rustix::net::recv(&socket, &mut answer, rustix::net::RecvFlags::empty())?;
    // After the answer's header: 0, or a negative error number.
    let code = answer.get(16..20).and_then(|bytes| bytes.try_into().ok()).map_or(0, i32::from_ne_bytes);
    if code == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(-code)) }
}
