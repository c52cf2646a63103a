//! Limits of one command, enforced by looking at everything below its reaper.

use std::fs;
use std::time::{Duration, Instant};

use super::tree::{self, Member};
use crate::Limits;
use crate::limits::Exceeded;

/// Interval between looks at a command.
const ROUND: Duration = Duration::from_millis(50);

/// The limits of a command, and when it is looked at next.
pub(super) struct Bounds {
    limits: Limits,
    next_look: Instant,
}

impl Bounds {
    /// Nothing if there is nothing to enforce.
    pub(super) fn new(limits: Limits) -> Option<Self> {
        let is_limited = limits.memory.is_some() || limits.processes.is_some();
        is_limited.then(|| Self { limits, next_look: Instant::now() + ROUND })
    }

    /// Time until the next look is due.
    pub(super) fn patience(&self) -> Duration {
        self.next_look.saturating_duration_since(Instant::now())
    }

    /// The limit that is exceeded, if it is time to look.
    pub(super) fn look(&mut self) -> Option<Exceeded> {
        if Instant::now() < self.next_look {
            return None;
        }
        self.next_look = Instant::now() + ROUND;
        let members = tree::descendants();
        let too_many = self.limits.processes.is_some_and(|most| count(&members) > u64::from(most));
        if too_many {
            return Some(Exceeded::Processes);
        }
        self.limits.memory.is_some_and(|most| uses_more_than(most, &members)).then_some(Exceeded::Memory)
    }
}

/// Processes with their threads, as the kernel counts for its own limits.
fn count(members: &[Member]) -> u64 {
    members.iter().map(|member| threads(member.pid).unwrap_or(1)).sum()
}

fn threads(pid: i32) -> Option<u64> {
    status_value(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?, "Threads:")
}

fn uses_more_than(most: u64, members: &[Member]) -> bool {
    // Cheap, but what two processes share since a fork is counted twice.
    let roughly: u64 = members.iter().filter_map(|member| resident(member.pid)).sum();
    roughly > most && members.iter().filter_map(|member| proportional(member.pid)).sum::<u64>() > most
}

/// Memory of a process that is in no file.
fn resident(pid: i32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let kib = status_value(&status, "RssAnon:")? + status_value(&status, "RssShmem:").unwrap_or(0);
    Some(kib << 10)
}

/// Memory of a process that is in no file, where what several share is divided among them.
fn proportional(pid: i32) -> Option<u64> {
    let Ok(rollup) = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")) else { return resident(pid) };
    let kib = status_value(&rollup, "Pss_Anon:")? + status_value(&rollup, "Pss_Shmem:").unwrap_or(0);
    Some(kib << 10)
}

fn status_value(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}
