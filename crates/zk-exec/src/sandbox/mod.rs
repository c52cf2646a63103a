//! Commands that reach only what a policy names.

#[cfg(any(feature = "docker", feature = "sandbox"))]
mod denial;
#[cfg(any(feature = "docker", feature = "sandbox"))]
mod git;
mod hosts;
#[cfg(any(feature = "docker", feature = "sandbox"))]
mod placeholders;
#[cfg(any(feature = "docker", feature = "sandbox"))]
mod places;
mod policy;
#[cfg(any(feature = "docker", feature = "sandbox"))]
mod printed;
mod report;

#[cfg(feature = "sandbox")]
#[path = "."]
mod linux {
    use super::{denial, git, hosts, placeholders, places, policy, printed, report};

    mod broker;
    mod caches;
    mod confine;
    mod connector;
    mod exec;
    mod helper;
    mod mounts;
    mod namespaces;
    mod plan;
    mod planted;
    mod probe;
    mod process;
    mod proxy;
    mod remedy;
    mod repositories;
    mod seccomp;
    mod sys;

    pub(crate) use broker::ReportReader;
    pub(crate) use confine::Confinement;
    pub use exec::SandboxExec;
    pub(crate) use helper::{Inside, read_answer, receive_file, write_frame};
    pub(crate) use probe::run as run_probe;
    pub(crate) use proxy::Proxy;
}

#[cfg(not(feature = "sandbox"))]
#[path = "unsupported.rs"]
mod linux;

pub use hosts::{HostRuleError, HostRules};
pub use linux::SandboxExec;
#[cfg(feature = "sandbox")]
pub(crate) use linux::{
    Confinement, Inside, Proxy, ReportReader, read_answer, receive_file, run_probe, write_frame,
};
pub use policy::{Network, SandboxPolicy};
pub use report::{Layer, LayerState, SandboxError, SandboxReport, SelfTest};
#[cfg(feature = "docker")]
pub(crate) use {
    denial::Denials,
    placeholders::Placeholders,
    places::{Placeholder, Places},
    printed::Printed,
};
