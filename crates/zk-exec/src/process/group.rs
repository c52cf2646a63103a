use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process_group};

use super::process_table::{self, Stat};
use super::spawn::MARK;

/// All processes that one command started: its process group, and every process that carries its mark.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) leader: Option<Pid>,
    /// Start time of the leader, in clock ticks since the machine was started.
    pub(super) started: u64,
    /// Environment entry `ZK_EXEC=…`: the whole entry, or the prefix that all commands of one instance share.
    pub(super) entry: String,
}

/// Kind of request to end a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    /// `TERM`, with `CONT` so that a stopped process receives it.
    End,
    /// `KILL`.
    Kill,
}

impl Group {
    /// The group led by `pid`, marked `mark`.
    pub(super) fn new(pid: u32, mark: &str) -> Self {
        let leader = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let started = Stat::of(pid).map_or(u64::MAX, |stat| stat.started);
        Self { leader, started, entry: format!("{MARK}={mark}\0") }
    }

    /// All processes that an instance started, found by the mark alone.
    pub(super) fn of_instance(mark: &str) -> Self {
        Self { leader: None, started: u64::MAX, entry: format!("{MARK}={mark}.") }
    }

    /// Whether the process group may have members. Cheap; an unreaped process counts.
    pub(super) fn may_live(&self) -> bool {
        self.leader.is_some_and(|leader| test_kill_process_group(leader).is_ok())
    }

    /// Ids of the running processes.
    pub(super) async fn members(&self) -> Vec<u32> {
        let group = self.clone();
        tokio::task::spawn_blocking(move || group.members_now()).await.unwrap_or_default()
    }

    /// Signals every member.
    pub(super) async fn signal(&self, ask: Ask) {
        let group = self.clone();
        let _ = tokio::task::spawn_blocking(move || group.signal_now(ask)).await;
    }

    /// Signals as [`Group::signal`] does, but blocks this thread while it scans all processes of the machine.
    pub(super) fn signal_now(&self, ask: Ask) {
        self.signal_group(ask);
        ask.signal_all(&self.members_now());
    }

    /// Signals the process group, with one system call.
    pub(super) fn signal_group(&self, ask: Ask) {
        if let Some(leader) = self.leader {
            for signal in ask.signals() {
                let _ = kill_process_group(leader, *signal);
            }
        }
    }

    /// Finds members as [`Group::members`] does, but blocks this thread.
    ///
    /// A process is invisible for a moment while it forks or calls exec, so the group counts as empty only
    /// after two scans without members.
    pub(super) fn members_now(&self) -> Vec<u32> {
        let mut nothing = 0;
        for _ in 0..12 {
            let look = process_table::scan(&[self]).pop().unwrap_or_default();
            if !look.members.is_empty() {
                return look.members;
            }
            nothing = if look.unclear { 0 } else { nothing + 1 };
            if nothing == 2 {
                break;
            }
            std::thread::sleep(Duration::from_millis(3));
        }
        Vec::new()
    }
}

impl Ask {
    /// Signals these processes.
    pub(super) fn signal_all(self, pids: &[u32]) {
        for pid in pids.iter().filter_map(|pid| Pid::from_raw(i32::try_from(*pid).ok()?)) {
            for signal in self.signals() {
                let _ = kill_process(pid, *signal);
            }
        }
    }

    fn signals(self) -> &'static [Signal] {
        match self {
            Self::End => &[Signal::TERM, Signal::CONT],
            Self::Kill => &[Signal::KILL],
        }
    }
}
