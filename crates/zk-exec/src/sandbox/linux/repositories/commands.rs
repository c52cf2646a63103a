//! Commands that may still write, each until nothing of it is left.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Commands by the numbers they were started with.
#[derive(Debug, Default)]
pub(super) struct Commands {
    pub(super) last: u64,
    /// Connections that are closed with the last process of a command; none while it is being started.
    living: BTreeMap<u64, Option<OwnedFd>>,
}

impl Commands {
    /// Number of a command that is about to be started.
    pub(super) fn begin(&mut self) -> u64 {
        self.forget_ended();
        self.last += 1;
        self.living.insert(self.last, None);
        self.last
    }

    /// Takes note of a command that was started. Without a connection it lives for ever.
    pub(super) fn started(&mut self, number: u64, life: Option<OwnedFd>) {
        self.living.insert(number, life);
    }

    pub(super) fn failed(&mut self, number: u64) {
        self.living.remove(&number);
    }

    /// Whether one that was begun until then lives.
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
