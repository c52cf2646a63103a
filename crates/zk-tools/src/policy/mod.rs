//! Policies about tool calls, as plugins: who may call what, and how large a result may be.

mod permission;

pub use permission::{Permission, PermissionMode};
