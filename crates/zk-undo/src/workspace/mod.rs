//! Workspace on disk: a scan of its files, and git's record of them.

pub(crate) mod beneath;
pub(crate) mod git;
pub(crate) mod git_settings;
pub(crate) mod rules;
pub(crate) mod scan;
pub(crate) mod snapshot;
