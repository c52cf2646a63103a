//! Releases: packages of the program, cutting and publishing a version, and what its dependencies cost.

pub(crate) mod dist;
mod metadata;
