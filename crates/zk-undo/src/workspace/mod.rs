//! A workspace as it is on disk: one look through it, and git's record of it.

pub(crate) mod beneath;
pub(crate) mod git;
pub(crate) mod rules;
pub(crate) mod scan;
pub(crate) mod snapshot;
