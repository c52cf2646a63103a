//! Limits of one command, enforced by periodic scans of all processes below its reaper.

use std::fs;
use std::time::{Duration, Instant};

use super::tree::{self, Member};
use crate::Limits;
use crate::limits::Exceeded;

/// Interval between scans.
const ROUND: Duration = Duration::from_millis(50);

/// Limits of a command, and the time of the next scan.
pub(super) struct Bounds {
    limits: Limits,
    next_look: Instant,
}

impl Bounds {
    /// Bounds for these limits; `None` without a limit of memory or processes.
    pub(super) fn new(limits: Limits) -> Option<Self> {
        let is_limited = limits.memory.is_some() || limits.processes.is_some();
        is_limited.then(|| Self { limits, next_look: Instant::now() + ROUND })
    }

    /// Time until the next scan is due.
    pub(super) fn until_next_scan(&self) -> Duration {
        self.next_look.saturating_duration_since(Instant::now())
    }

    /// Scans if a scan is due, and returns the limit that is exceeded.
    pub(super) fn check(&mut self) -> Option<Exceeded> {
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

/// Counts processes with their threads, as the kernel's own limits do.
fn count(members: &[Member]) -> u64 {
    members.iter().map(|member| threads(member.pid).unwrap_or(1)).sum()
}

fn threads(pid: i32) -> Option<u64> {
    status_value(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?, "Threads:")
}

fn uses_more_than(most: u64, members: &[Member]) -> bool {
    // A cheap upper bound: pages that processes share since a fork count once for each process.
    let roughly: u64 = members.iter().filter_map(|member| resident(member.pid)).sum();
    roughly > most && members.iter().filter_map(|member| proportional(member.pid)).sum::<u64>() > most
}

/// Bytes of anonymous memory of a process (`RssAnon`).
fn resident(pid: i32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let kib = status_value(&status, "RssAnon:")? + status_value(&status, "RssShmem:").unwrap_or(0);
    Some(kib << 10)
}

/// Bytes of anonymous memory of a process, in which shared pages are divided among their processes.
fn proportional(pid: i32) -> Option<u64> {
    let Ok(rollup) = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")) else { return resident(pid) };
    let kib = status_value(&rollup, "Pss_Anon:")? + status_value(&rollup, "Pss_Shmem:").unwrap_or(0);
    Some(kib << 10)
}

fn status_value(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}
