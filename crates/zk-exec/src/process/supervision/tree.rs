use std::collections::HashMap;
use std::fs;

use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};

/// A process below this one, and its parent when it was listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) pid: i32,
    parent: i32,
}

/// Everything that descends from this process and still runs. Because this process is a subreaper, that is
/// everything it ever started, whatever sessions, groups or environments were made since.
///
/// A process that is made while the list is made can be missing: only "no child is left to wait for" is proof
/// of an empty tree.
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

/// The children as the kernel lists them; nothing where it does not.
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
    // The name before the last parenthesis may contain anything.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace();
    let runs = !matches!(fields.next()?, "Z" | "X");
    Some(State { runs, parent: fields.next()?.parse().ok()? })
}

/// Signals processes of the list. A number that has become somebody else's since is left alone.
pub(super) fn signal(members: &[Member], signals: &[Signal]) {
    let own = std::process::id().cast_signed();
    for member in members {
        let Some(pid) = Pid::from_raw(member.pid) else { continue };
        let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else {
            // No such process, or a kernel without handles for them.
            if still_ours(*member, own) {
                for signal in signals {
                    let _ = kill_process(pid, *signal);
                }
            }
            continue;
        };
        // Checked once the handle is held: from now on the number cannot change its meaning.
        if still_ours(*member, own) {
            for signal in signals {
                let _ = pidfd_send_signal(&handle, *signal);
            }
        }
    }
}

/// Whether it still has the parent it had, or none of its own, so that it is a child of this process now.
fn still_ours(member: Member, own: i32) -> bool {
    state(member.pid).is_some_and(|state| state.parent == member.parent || state.parent == own)
}
