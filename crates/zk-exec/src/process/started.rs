use std::io;
use std::process::ExitStatus;

use tokio::process::Child;
use tokio::sync::watch;

use super::group::{Ask, Group};
use super::spawner::Watched;
use super::supervision::supervised::{self, Progress, Reaper};
use crate::limits::Exceeded;

/// A command that was started.
pub(super) struct Started {
    pub(super) waiter: Waiter,
    pub(super) tree: Tree,
}

/// Tells how a command ended.
pub(super) enum Waiter {
    /// A child of this process, which is waited for.
    Child(Child),
    /// A process whose end its reaper tells.
    Supervised(watch::Receiver<Progress>),
}

impl Waiter {
    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        match self {
            Self::Child(child) => child.wait().await,
            Self::Supervised(seen) => supervised::wait(seen).await,
        }
    }
}

/// Everything a command started. Dropping it has all of that ended, unless it was released.
pub(super) enum Tree {
    /// A tree that is found by its process group and its mark, as far as it has them still.
    Marked(Watched),
    /// A tree below its reaper, which nothing can leave.
    Supervised(Reaper),
    /// A tree that is found as a marked one; nothing ends it but a signal that was asked for.
    Detached(Group),
}

impl Tree {
    /// Whether anything may be left. Cheap.
    pub(super) fn may_live(&self) -> bool {
        match self {
            Self::Marked(watched) => watched.group.may_live(),
            Self::Supervised(reaper) => reaper.may_live(),
            Self::Detached(group) => group.may_live(),
        }
    }

    /// The processes that still run.
    pub(super) async fn members(&self) -> Vec<u32> {
        match self {
            Self::Marked(watched) => watched.group.members().await,
            Self::Supervised(reaper) => reaper.members().await,
            Self::Detached(group) => group.members().await,
        }
    }

    /// Signals all of them.
    pub(super) async fn signal(&self, ask: Ask) {
        match self {
            Self::Marked(watched) => watched.group.signal(ask).await,
            Self::Supervised(reaper) => reaper.signal(ask),
            Self::Detached(group) => group.signal(ask).await,
        }
    }

    /// Connection that is closed once nothing of it is left; nothing where nobody can tell.
    #[cfg(feature = "sandbox")]
    pub(super) fn life(&self) -> Option<std::os::fd::OwnedFd> {
        match self {
            Self::Supervised(reaper) => reaper.life(),
            Self::Marked(_) | Self::Detached(_) => None,
        }
    }

    /// The limit that it went over, if somebody watched for that.
    pub(super) fn exceeded(&self) -> Option<Exceeded> {
        match self {
            Self::Supervised(reaper) => reaper.exceeded(),
            Self::Marked(_) | Self::Detached(_) => None,
        }
    }

    /// The command is over; what it left behind may go on.
    pub(super) fn release(self) {
        match self {
            Self::Marked(watched) => watched.release(),
            Self::Supervised(reaper) => reaper.release(),
            Self::Detached(_) => {}
        }
    }
}
