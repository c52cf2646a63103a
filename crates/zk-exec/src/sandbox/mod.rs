//! Sandbox: commands that can reach only the files and hosts that a policy allows.

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
mod linux;

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
