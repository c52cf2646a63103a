mod permission;
mod spill;

pub use permission::{PermissionGate, PermissionMode};
pub use spill::Spill;
