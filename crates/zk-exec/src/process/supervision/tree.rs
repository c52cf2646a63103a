use std::collections::HashMap;
use std::fs;

use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};

/// Descendant of this process, with its parent at the time of the scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) pid: i32,
    parent: i32,
}

/// Lists all running descendants of this process. This process is a subreaper, so these are all processes
/// that it ever caused, in any session, group or environment.
///
/// A process that is forked during the scan can be missing: only "no child to wait for" proves an empty tree.
pub(super) fn descendants() -> Vec<Member> {
    let own = std::process::id().cast_signed();
    let mut found = Vec::new();
    if children(own).is_some() {
        let mut todo = vec![own];
        while let Some(parent) = todo.pop() {
            for pid in children(parent).unwrap_or_default() {
                found.push(Member { pid, parent });
                todo.push(pid);
            }
        }
    } else {
        found = from_all_processes(own);
    }
    found.retain(|member| state(member.pid).is_some_and(|state| state.runs));
    found
}

/// Children as the kernel lists them; `None` on kernels without such lists.
fn children(pid: i32) -> Option<Vec<i32>> {
    let mut found = Vec::new();
    let mut listed = false;
    for thread in fs::read_dir(format!("/proc/{pid}/task")).ok()? {
        let Ok(thread) = thread else { continue };
        if let Ok(text) = fs::read_to_string(thread.path().join("children")) {
            listed = true;
            found.extend(text.split_ascii_whitespace().filter_map(|pid| pid.parse::<i32>().ok()));
        }
    }
    listed.then_some(found)
}

fn from_all_processes(own: i32) -> Vec<Member> {
    let mut by_parent: HashMap<i32, Vec<i32>> = HashMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let pid = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok());
        if let Some((pid, state)) = pid.and_then(|pid| Some((pid, state(pid)?))) {
            by_parent.entry(state.parent).or_default().push(pid);
        }
    }
    let mut found = Vec::new();
    let mut todo = vec![own];
    while let Some(parent) = todo.pop() {
        for pid in by_parent.remove(&parent).unwrap_or_default() {
            found.push(Member { pid, parent });
            todo.push(pid);
        }
    }
    found
}

struct State {
    runs: bool,
    parent: i32,
}

fn state(pid: i32) -> Option<State> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may itself contain anything, so the last parenthesis ends it.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace();
    let runs = !matches!(fields.next()?, "Z" | "X");
    Some(State { runs, parent: fields.next()?.parse().ok()? })
}

/// Signals listed processes. A process id that was reused since is left alone.
pub(super) fn signal(members: &[Member], signals: &[Signal]) {
    let own = std::process::id().cast_signed();
    for member in members {
        let Some(pid) = Pid::from_raw(member.pid) else { continue };
        let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else {
            // The process has ended, or the kernel has no pidfds.
            if still_ours(*member, own) {
                for signal in signals {
                    let _ = kill_process(pid, *signal);
                }
            }
            continue;
        };
        // Checked while the pidfd is held, which keeps the process id from being reused.
        if still_ours(*member, own) {
            for signal in signals {
                let _ = pidfd_send_signal(&handle, *signal);
            }
        }
    }
}

/// Whether the process still has its parent, or was reparented to this process.
fn still_ours(member: Member, own: i32) -> bool {
    state(member.pid).is_some_and(|state| state.parent == member.parent || state.parent == own)
}
