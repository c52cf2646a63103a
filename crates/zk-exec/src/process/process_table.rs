use std::fs;

use super::group::Group;
use super::spawn::MARK;

/// Members of a group, found by one scan of the machine's processes.
#[derive(Clone, Debug, Default)]
pub(super) struct Scan {
    /// Running processes of the group.
    pub(super) members: Vec<u32>,
    /// Whether the membership of some process cannot be determined at this moment.
    pub(super) unclear: bool,
}

/// Scans the processes once, for any number of groups.
#[cfg(target_os = "linux")]
pub(super) fn scan(groups: &[&Group]) -> Vec<Scan> {
    let mut looks = vec![Scan::default(); groups.len()];
    let Ok(processes) = fs::read_dir("/proc") else { return scan_without_proc(groups) };
    for pid in processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok()) {
        let Some(stat) = Stat::of(pid).filter(|stat| stat.runs) else { continue };
        let mark = Mark::of(pid);
        for (group, look) in groups.iter().zip(&mut looks) {
            let in_group = group.leader.is_some_and(|leader| leader.as_raw_nonzero().get() == stat.group);
            match &mark {
                Mark::Is(mark) if mark.starts_with(group.entry.as_bytes()) => look.members.push(pid),
                Mark::Is(_) | Mark::None | Mark::Unclear if in_group => look.members.push(pid),
                // Only a process that is younger than the group can be a member.
                Mark::Unclear => look.unclear |= stat.started >= group.started,
                Mark::Is(_) | Mark::None => {}
            }
        }
    }
    looks
}

#[cfg(not(target_os = "linux"))]
pub(super) fn scan(groups: &[&Group]) -> Vec<Scan> {
    scan_without_proc(groups)
}

fn scan_without_proc(groups: &[&Group]) -> Vec<Scan> {
    let members = |group: &&Group| {
        let leader = group.leader.filter(|_| group.may_live());
        leader.map(|pid| pid.as_raw_nonzero().get().unsigned_abs()).into_iter().collect()
    };
    groups.iter().map(|group| Scan { members: members(group), unclear: false }).collect()
}

/// Result of reading the mark in a process's environment.
enum Mark {
    /// The entry `ZK_EXEC=…` with the NUL at its end.
    Is(Vec<u8>),
    None,
    /// The environment is empty, as during exec.
    Unclear,
}

impl Mark {
    fn of(pid: u32) -> Self {
        let Ok(environ) = fs::read(format!("/proc/{pid}/environ")) else { return Self::None };
        if environ.is_empty() {
            return Self::Unclear;
        }
        let entry = environ.split_inclusive(|byte| *byte == 0).find(|entry| {
            entry.strip_prefix(MARK.as_bytes()).is_some_and(|rest| rest.first() == Some(&b'='))
        });
        entry.map_or(Self::None, |entry| Self::Is(entry.to_owned()))
    }
}

/// Fields of `/proc/PID/stat`.
pub(super) struct Stat {
    /// Whether the process runs; false for an unreaped one.
    runs: bool,
    group: i32,
    /// Start time, in clock ticks since the machine was started.
    pub(super) started: u64,
}

impl Stat {
    pub(super) fn of(pid: u32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name in parentheses may itself contain anything, so the last parenthesis ends it.
        let (_, fields) = stat.rsplit_once(')')?;
        let mut fields = fields.split_ascii_whitespace();
        let runs = !matches!(fields.next()?, "Z" | "X");
        let group = fields.nth(1)?.parse().ok()?;
        let started = fields.nth(16)?.parse().ok()?;
        Some(Self { runs, group, started })
    }
}
