//! The MCP crate of zk.
