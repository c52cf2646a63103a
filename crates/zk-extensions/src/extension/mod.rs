//! One extension for as long as its plugin is installed.

mod handle;
mod host;
mod life;
mod plugin;
mod rate;
mod registry;
mod requests;
mod shared;

pub use handle::ExtensionHandle;
pub use plugin::Extension;
pub use registry::Registration;
pub use shared::{ExtensionState, Introduction};

#[cfg(all(test, feature = "schema"))]
pub(crate) use host::METHODS;
pub(crate) use shared::Shared;
