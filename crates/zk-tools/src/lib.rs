//! The built-in tools of zk and their policies.

pub mod policy;
