//! Definitions of extensions in settings, and what is approved of those of a project.

mod definition;
mod digest;
mod fingerprint;
mod runner;
#[cfg(feature = "schema")]
mod settings_schema;

pub use definition::{ExtensionConfig, ExtensionConfigError, ExtensionLimits, ExtensionOrigin};
pub(crate) use digest::sha256_hex;
pub use fingerprint::{Fingerprint, FingerprintError};
pub use runner::RunnerError;
#[cfg(feature = "schema")]
pub use settings_schema::settings_schema;
