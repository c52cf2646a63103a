//! State that outlives a process: accepted tools, eras, states and logs of servers.

pub(crate) mod eras;
pub(crate) mod pins;
