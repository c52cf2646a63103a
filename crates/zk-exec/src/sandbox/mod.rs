//! Commands that reach only what a policy names.

#[cfg(feature = "sandbox")]
mod confine;
#[cfg(feature = "sandbox")]
mod denial;
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
#[cfg(feature = "sandbox")]
mod planted;
mod policy;
#[cfg(feature = "sandbox")]
mod probe;
#[cfg(feature = "sandbox")]
mod process;
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
#[cfg(feature = "sandbox")]
pub(crate) use probe::run as run_probe;
pub use report::{Layer, LayerState, SandboxError, SandboxReport, SelfTest};
