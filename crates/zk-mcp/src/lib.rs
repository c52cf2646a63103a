//! The MCP crate of zk: client and server over the Model Context Protocol.
//!
//! Nothing of it is built yet. The crate is here so that its name, its place among the crates and what it
//! must not know are settled; it exports nothing until it can do something.
//!
//! # What this crate must never know
//!
//! No provider, no store, no terminal, and no other way to start a process than the `Exec` service. The
//! library that speaks the protocol stays inside: none of its types appear in what this crate exports.
