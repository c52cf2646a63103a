//! The Agent Client Protocol, version 1, by which editors drive zk: messages as lines of JSON-RPC 2.0.
//!
//! | file | concept |
//! |---|---|
//! | `server.rs`, `wire/` | messages in and out, requests in both directions |
//! | `requests.rs`, `sessions.rs`, `session.rs` | requests of an editor, by method; sessions that are opened, listed and removed |
//! | `told/` | patches of a view as updates of a session, and the task that tells them |
//! | `permission.rs`, `form.rs`, `options.rs`, `prompt.rs` | questions and their forms, modes and other choices, prompts |
//! | `files.rs`, `mcp.rs` | buffers of the editor behind `Files`, and servers that it names |
//! | `connection.rs` | the other end: an agent of another program, which zk record_prompt_to as an editor would |

mod connection;
mod files;
mod form;
mod mcp;
mod options;
mod permission;
mod prompt;
mod requests;
mod server;
mod session;
mod sessions;
mod told;
mod wire;

pub use connection::{AcpConnection, AcpError, AcpHost};
pub use server::{AcpOptions, serve_acp};
