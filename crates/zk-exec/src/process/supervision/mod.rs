use super::{GRACE, ends, group, launch, signals, spawn, started};

mod bounds;
mod cgroup;
mod reaper;
pub(super) mod supervised;
pub(super) mod supervisor;
mod tree;
