//! One extension for as long as its plugin is installed.

mod host;
mod life;
mod plugin;
mod rate;
mod registry;
mod requests;
mod shared;

pub use plugin::Extension;
pub use registry::Registration;
pub use shared::{ExtensionHandle, ExtensionState, Introduction};

#[cfg(all(test, feature = "schema"))]
pub(crate) use host::METHODS;
pub(crate) use shared::Shared;
