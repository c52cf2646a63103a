use std::fs;

use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process_group};

use super::spawn::MARK;

/// Everything one command started: its process group, and whatever carries its mark.
#[derive(Clone, Debug)]
pub(super) struct Group {
    leader: Option<Pid>,
    /// `ZK_EXEC=…`, the whole entry or the beginning all commands of one instance share.
    entry: String,
}

/// What a group is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    /// `TERM`, and `CONT` so that a suspended process hears it.
    End,
    /// `KILL`.
    Kill,
}

impl Group {
    /// The group led by `pid`, marked `mark`.
    pub(super) fn new(pid: u32, mark: &str) -> Self {
        let leader = i32::try_from(pid).ok().and_then(Pid::from_raw);
        Self { leader, entry: format!("{MARK}={mark}\0") }
    }

    /// Everything an instance started, by its mark alone.
    pub(super) fn of_instance(mark: &str) -> Self {
        Self { leader: None, entry: format!("{MARK}={mark}.") }
    }

    /// Whether the process group may have members. Cheap; a process nobody has waited for counts.
    pub(super) fn may_live(&self) -> bool {
        self.leader.is_some_and(|leader| test_kill_process_group(leader).is_ok())
    }

    /// The processes that still run.
    pub(super) async fn members(&self) -> Vec<u32> {
        let group = self.clone();
        tokio::task::spawn_blocking(move || group.members_now()).await.unwrap_or_default()
    }

    /// Signals every member.
    pub(super) async fn signal(&self, ask: Ask) {
        let group = self.clone();
        let _ = tokio::task::spawn_blocking(move || group.signal_now(ask)).await;
    }

    /// As [`Group::signal`], on this thread; looks through all processes of the machine.
    pub(super) fn signal_now(&self, ask: Ask) {
        self.signal_group(ask);
        for pid in self.members_now() {
            let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { continue };
            for signal in ask.signals() {
                let _ = kill_process(pid, *signal);
            }
        }
    }

    /// Signals the process group, which takes one system call.
    pub(super) fn signal_group(&self, ask: Ask) {
        if let Some(leader) = self.leader {
            for signal in ask.signals() {
                let _ = kill_process_group(leader, *signal);
            }
        }
    }

    /// As [`Group::members`], on this thread.
    #[cfg(target_os = "linux")]
    pub(super) fn members_now(&self) -> Vec<u32> {
        let Ok(processes) = fs::read_dir("/proc") else { return self.leader_if_alive() };
        processes
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok())
            .filter(|pid| self.has(*pid))
            .collect()
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn members_now(&self) -> Vec<u32> {
        self.leader_if_alive()
    }

    fn leader_if_alive(&self) -> Vec<u32> {
        let leader = self.leader.filter(|_| self.may_live());
        leader.map(|pid| pid.as_raw_nonzero().get().unsigned_abs()).into_iter().collect()
    }

    fn has(&self, pid: u32) -> bool {
        let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
        // The name before the last parenthesis may contain anything.
        let Some((_, fields)) = stat.rsplit_once(')') else { return false };
        let mut fields = fields.split_ascii_whitespace();
        let (Some(state), _, Some(group)) = (fields.next(), fields.next(), fields.next()) else {
            return false;
        };
        if matches!(state, "Z" | "X") {
            return false;
        }
        let leader = self.leader.map(|leader| leader.as_raw_nonzero().get());
        leader.is_some_and(|leader| group.parse() == Ok(leader)) || self.marks(pid)
    }

    fn marks(&self, pid: u32) -> bool {
        let entry = self.entry.as_bytes();
        fs::read(format!("/proc/{pid}/environ")).is_ok_and(|environ| {
            environ.starts_with(entry)
                || environ
                    .windows(entry.len() + 1)
                    .any(|part| part.first() == Some(&0) && part.ends_with(entry))
        })
    }
}

impl Ask {
    fn signals(self) -> &'static [Signal] {
        match self {
            Self::End => &[Signal::TERM, Signal::CONT],
            Self::Kill => &[Signal::KILL],
        }
    }
}
