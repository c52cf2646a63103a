mod permission;
mod redact;
mod spill;

pub use permission::{PermissionGate, PermissionMode};
pub use redact::RedactResults;
pub use spill::Spill;
