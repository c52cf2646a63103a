//! Extensions of zk in any language: programs that speak newline-framed JSON-RPC 2.0 over their standard streams.
//!
//! An [`Extension`] is a plugin. It starts its program with the `Exec` service, says `hello`, and registers what the
//! program answers: tools with their effects, commands, events that it is asked about or told, sections of the system
//! prompt, context, renderers. Both sides send requests; the messages are in [`protocol`], and their JSON Schema is
//! generated into `docs/reference/schemas/extension.json`.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use zk_core::kernel::Bus;
//! use zk_extensions::{Extension, ExtensionConfig};
//!
//! let notes = Extension::new(ExtensionConfig::new("notes", ["python3", "notes.py"]), "/srv/project");
//! let bus = Bus::new();
//! bus.install(&notes)?;
//! # Ok(())
//! # }
//! ```
//!
//! # When it fails
//!
//! A handler that guards fails after an error, a time-out, the program's end or a line that is no message, and the event
//! refuses; the message names the extension. Everything else is left out with a notice. Before the first answer to `hello`
//! nobody knows what the extension guards, so calls are refused unless its settings say `guards = false`. The program is
//! started again, each time after a longer pause. Nothing that it sends or fails to read fills the memory.
//!
//! # What this crate must never know
//!
//! The location of settings, the store of trust, and terminals: the host passes all of that in.

mod abilities;
mod config;
mod error;
mod extension;
mod link;
mod logs;
pub mod protocol;
mod scaffold;

#[cfg(all(test, feature = "schema"))]
mod docs_table;
#[cfg(feature = "schema")]
mod schema;

#[cfg(feature = "schema")]
pub use config::settings_schema;
pub use config::{
    ExtensionConfig, ExtensionConfigError, ExtensionLimits, ExtensionOrigin, Fingerprint, FingerprintError,
    RunnerError,
};
pub use error::ExtensionError;
pub use extension::{Extension, ExtensionHandle, ExtensionState, Introduction, Registration};
pub use logs::ExtensionLogs;
pub use protocol::EXTENSION_PROTOCOL;
pub use scaffold::{Scaffold, ScaffoldLanguage, UnknownLanguage};
#[cfg(feature = "schema")]
pub use schema::protocol_schema;
