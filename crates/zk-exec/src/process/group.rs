use std::fs;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process_group};

use super::spawn::MARK;

/// Everything one command started: its process group, and whatever carries its mark.
#[derive(Clone, Debug)]
pub(super) struct Group {
    leader: Option<Pid>,
    /// When the leader was started, in ticks since the machine was.
    started: u64,
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
        let started = Stat::of(pid).map_or(u64::MAX, |stat| stat.started);
        Self { leader, started, entry: format!("{MARK}={mark}\0") }
    }

    /// Everything an instance started, by its mark alone.
    pub(super) fn of_instance(mark: &str) -> Self {
        Self { leader: None, started: u64::MAX, entry: format!("{MARK}={mark}.") }
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
    ///
    /// A process cannot be seen for a moment while it is being made or changes its program, so only two looks
    /// that find nothing count as nothing.
    #[cfg(target_os = "linux")]
    pub(super) fn members_now(&self) -> Vec<u32> {
        let mut nothing = 0;
        for _ in 0..12 {
            let (members, unclear) = self.look();
            if !members.is_empty() {
                return members;
            }
            nothing = if unclear { 0 } else { nothing + 1 };
            if nothing == 2 {
                break;
            }
            std::thread::sleep(Duration::from_millis(3));
        }
        Vec::new()
    }

    /// Who is there, and whether there is somebody of whom that cannot be told now.
    #[cfg(target_os = "linux")]
    fn look(&self) -> (Vec<u32>, bool) {
        let Ok(processes) = fs::read_dir("/proc") else { return (self.leader_if_alive(), false) };
        let (mut members, mut unclear) = (Vec::new(), false);
        for pid in processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok()) {
            match self.has(pid) {
                Belongs::Yes => members.push(pid),
                Belongs::Unclear => unclear = true,
                Belongs::No => {}
            }
        }
        (members, unclear)
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn members_now(&self) -> Vec<u32> {
        self.leader_if_alive()
    }

    fn leader_if_alive(&self) -> Vec<u32> {
        let leader = self.leader.filter(|_| self.may_live());
        leader.map(|pid| pid.as_raw_nonzero().get().unsigned_abs()).into_iter().collect()
    }

    fn has(&self, pid: u32) -> Belongs {
        let Some(stat) = Stat::of(pid).filter(|stat| stat.runs) else { return Belongs::No };
        let leader = self.leader.map(|leader| leader.as_raw_nonzero().get());
        if leader == Some(stat.group) {
            return Belongs::Yes;
        }
        match fs::read(format!("/proc/{pid}/environ")) {
            Ok(environ) if environ.is_empty() && stat.started >= self.started => Belongs::Unclear,
            Ok(environ) if self.marks(&environ) => Belongs::Yes,
            Ok(_) | Err(_) => Belongs::No,
        }
    }

    fn marks(&self, environ: &[u8]) -> bool {
        let entry = self.entry.as_bytes();
        environ.starts_with(entry)
            || environ.windows(entry.len() + 1).any(|part| part.first() == Some(&0) && part.ends_with(entry))
    }
}

enum Belongs {
    Yes,
    No,
    /// It is newer than the group and has no environment, as in the middle of a change of program.
    Unclear,
}

/// What the system says of a process.
struct Stat {
    /// Whether it is more than an entry nobody has waited for yet.
    runs: bool,
    group: i32,
    started: u64,
}

impl Stat {
    fn of(pid: u32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name before the last parenthesis may contain anything.
        let (_, fields) = stat.rsplit_once(')')?;
        let mut fields = fields.split_ascii_whitespace();
        let runs = !matches!(fields.next()?, "Z" | "X");
        let group = fields.nth(1)?.parse().ok()?;
        let started = fields.nth(16)?.parse().ok()?;
        Some(Self { runs, group, started })
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
