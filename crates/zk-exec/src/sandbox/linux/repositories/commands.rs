//! Register of running commands, each kept until its last process ends.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Running commands, by number in order of their start.
#[derive(Debug, Default)]
pub(super) struct Commands {
    pub(super) last: u64,
    /// Connection that closes with the last process of a command; `None` while the command is being started.
    living: BTreeMap<u64, Option<OwnedFd>>,
}

impl Commands {
    /// Registers a command that is about to be started, and returns its number.
    pub(super) fn begin(&mut self) -> u64 {
        self.forget_ended();
        self.last += 1;
        self.living.insert(self.last, None);
        self.last
    }

    /// Records that a command was started. Without a connection it counts as running for ever.
    pub(super) fn started(&mut self, number: u64, life: Option<OwnedFd>) {
        self.living.insert(number, life);
    }

    pub(super) fn failed(&mut self, number: u64) {
        self.living.remove(&number);
    }

    /// Whether a command with this number or a lower one is running.
    pub(super) fn live_until(&mut self, number: u64) -> bool {
        self.forget_ended();
        self.living.keys().next().is_some_and(|first| *first <= number)
    }

    fn forget_ended(&mut self) {
        self.living.retain(|_, life| !life.as_ref().is_some_and(is_closed));
    }
}

fn is_closed(life: &OwnedFd) -> bool {
    let mut polled = [PollFd::new(life, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut polled, Some(&now)).is_ok_and(|ready| ready > 0)
        && polled.iter().any(|fd| fd.revents().contains(PollFlags::HUP))
}
