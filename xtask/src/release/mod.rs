//! Releases: packages of the program, cutting and publishing a version, and what its dependencies cost.

pub(crate) mod check;
pub(crate) mod cut;
pub(crate) mod deps;
pub(crate) mod dist;
mod metadata;
pub(crate) mod order;
pub(crate) mod platforms;
pub(crate) mod publish;
pub(crate) mod twice;
mod version;

use dist::python_version;
