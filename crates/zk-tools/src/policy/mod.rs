mod permission;
mod redact;
mod result_caps;
mod spill;

pub use permission::{PermissionControl, PermissionGate, PermissionMode};
pub use redact::RedactResults;
pub(crate) use result_caps::ResultCaps;
pub use spill::Spill;
