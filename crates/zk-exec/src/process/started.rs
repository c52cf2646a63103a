use std::io;
use std::process::ExitStatus;

use tokio::process::Child;
use tokio::sync::watch;

use super::group::{Ask, Group};
use super::spawner::Watched;
use super::supervision::supervised::{self, Progress, Reaper};
use crate::limits::Exceeded;

/// Command that was started.
pub(super) struct Started {
    pub(super) waiter: Waiter,
    pub(super) tree: Tree,
}

/// Source of a command's exit status.
pub(super) enum Waiter {
    /// Child of this process.
    Child(Child),
    /// Command below a reaper, which reports its exit.
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

/// Process tree of a command. The drop ends all of it, unless it was released.
pub(super) enum Tree {
    /// Process tree that is found by its process group and its mark. Processes that change both are missed.
    Marked(Watched),
    /// Tree below a reaper, from which no process escapes.
    Supervised(Reaper),
    /// Tree that is found by group and mark, and that no drop ends.
    Detached(Group),
}

impl Tree {
    /// Whether processes may remain. Cheap.
    pub(super) fn may_live(&self) -> bool {
        match self {
            Self::Marked(watched) => watched.group.may_live(),
            Self::Supervised(reaper) => reaper.may_live(),
            Self::Detached(group) => group.may_live(),
        }
    }

    /// Ids of the running processes.
    pub(super) async fn members(&self) -> Vec<u32> {
        match self {
            Self::Marked(watched) => watched.group.members().await,
            Self::Supervised(reaper) => reaper.members().await,
            Self::Detached(group) => group.members().await,
        }
    }

    /// Signals all processes of the tree.
    pub(super) async fn signal(&self, ask: Ask) {
        match self {
            Self::Marked(watched) => watched.group.signal(ask).await,
            Self::Supervised(reaper) => reaper.signal(ask),
            Self::Detached(group) => group.signal(ask).await,
        }
    }

    /// Connection that closes when the whole tree has ended; `None` without a reaper.
    #[cfg(feature = "sandbox")]
    pub(super) fn life(&self) -> Option<std::os::fd::OwnedFd> {
        match self {
            Self::Supervised(reaper) => reaper.life(),
            Self::Marked(_) | Self::Detached(_) => None,
        }
    }

    /// Limit that the tree exceeded, if a reaper checked it.
    pub(super) fn exceeded(&self) -> Option<Exceeded> {
        match self {
            Self::Supervised(reaper) => reaper.exceeded(),
            Self::Marked(_) | Self::Detached(_) => None,
        }
    }

    /// Gives up the guard after the command's end; background processes continue.
    pub(super) fn release(self) {
        match self {
            Self::Marked(watched) => watched.release(),
            Self::Supervised(reaper) => reaper.release(),
            Self::Detached(_) => {}
        }
    }
}
