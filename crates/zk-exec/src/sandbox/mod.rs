//! Commands that reach only what a policy names.

#[cfg(feature = "sandbox")]
mod confine;
#[cfg(feature = "sandbox")]
mod git;
#[cfg(feature = "sandbox")]
mod helper;
#[cfg(feature = "sandbox")]
mod mounts;
#[cfg(feature = "sandbox")]
mod namespaces;
#[cfg(feature = "sandbox")]
mod placeholders;
#[cfg(feature = "sandbox")]
mod plan;
mod policy;
mod report;
#[cfg(feature = "sandbox")]
mod seccomp;
#[cfg(feature = "sandbox")]
mod sys;

#[cfg(feature = "sandbox")]
mod exec;
#[cfg(not(feature = "sandbox"))]
#[path = "unsupported.rs"]
mod exec;

#[cfg(feature = "sandbox")]
pub(crate) use confine::Confinement;
pub use exec::SandboxExec;
#[cfg(feature = "sandbox")]
pub(crate) use helper::{Inside, read_answer, write_frame};
pub use policy::{Network, SandboxPolicy};
pub use report::{Layer, LayerState, SandboxError, SandboxReport};
