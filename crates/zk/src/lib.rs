//! An agent harness you can take apart, behind one name: the crates of zk by feature, and a prelude for a first program.
//!
//! | module | feature | crate |
//! |---|---|---|
//! | [`prelude`] | | what a first program names |
//! | [`kernel`], [`core`] | | typed events; messages and services |
//! | [`agent`] | | the loop; `typed` adds typed arguments and answers |
//! | `auth` | `auth` | keys, stored credentials, sign-ins |
//! | `backends` | `backends` | other agents that answer in a conversation |
//! | `bundles` | `bundles` | plugins in Claude Code's layout |
//! | `chat` | `chat` | a conversation with a person at a terminal |
//! | `compaction` | `compaction`, `tokenizer` | the context window |
//! | `exec` | `exec` (default) | commands and files |
//! | `extensions` | `extensions` | programs in any language that extend zk |
//! | `hooks` | `hooks` | commands as hooks |
//! | `undo` | `undo` | undo of files, by a journal of the workspace |
//! | `worktree` | `worktree` | copies of a repository for sub-agents, and their changes as patches |
//! | `mcp` | `mcp` | the Model Context Protocol |
//! | `memory` | `memory` | facts that outlive a session |
//! | `otel` | `otel` | traces and metrics by OpenTelemetry |
//! | `permission` | `permission` (default) | the judge of calls, and the gate that asks about them |
//! | `protocols` | `protocols` | tool protocols, also for models without tool calls |
//! | `providers` | `providers` (default) | models of many vendors |
//! | `session` | `session` (default) | sessions in SQLite |
//! | `skills` | `skills` | skills and instructions of a project |
//! | `tools` | `tools` (default), `fetch` | tools for files, commands and lists of work |
//! | `tui` | `tui` | the screen of a terminal |
//! | `view` | `view` | the chat engine |
//! | `testkit` | `testkit` | a scripted model, for tests |
//!
//! `full` is all of them but `testkit`. A library names the crates it needs instead: most can be used without the others.
//! The program of the same name is the crate `zk-cli`.
//!
//! # Example
//!
//! `cargo run -p zk-harness --example embed`
//!
#![doc = "```ignore"]
#![doc = include_str!("../examples/embed.rs")]
#![doc = "```"]
//!
//! # What this crate must never know
//!
//! Anything of its own. It has no type and no function, and no other crate of zk depends on it.

pub mod prelude;

pub use zk_agent as agent;
#[cfg(feature = "auth")]
pub use zk_auth as auth;
#[cfg(feature = "backends")]
pub use zk_backends as backends;
#[cfg(feature = "bundles")]
pub use zk_bundles as bundles;
#[cfg(feature = "chat")]
pub use zk_chat as chat;
#[cfg(feature = "compaction")]
pub use zk_compaction as compaction;
pub use zk_core as core;
pub use zk_core::kernel;
#[cfg(feature = "exec")]
pub use zk_exec as exec;
#[cfg(feature = "extensions")]
pub use zk_extensions as extensions;
#[cfg(feature = "goals")]
pub use zk_goals as goals;
#[cfg(feature = "hooks")]
pub use zk_hooks as hooks;
#[cfg(feature = "mcp")]
pub use zk_mcp as mcp;
#[cfg(feature = "memory")]
pub use zk_memory as memory;
#[cfg(feature = "otel")]
pub use zk_otel as otel;
#[cfg(feature = "permission")]
pub use zk_permission as permission;
#[cfg(feature = "protocols")]
pub use zk_protocols as protocols;
#[cfg(feature = "providers")]
pub use zk_providers as providers;
#[cfg(feature = "session")]
pub use zk_session as session;
#[cfg(feature = "skills")]
pub use zk_skills as skills;
#[cfg(feature = "testkit")]
pub use zk_testkit as testkit;
#[cfg(feature = "tools")]
pub use zk_tools as tools;
#[cfg(feature = "tui")]
pub use zk_tui as tui;
#[cfg(feature = "undo")]
pub use zk_undo as undo;
#[cfg(feature = "view")]
pub use zk_view as view;
#[cfg(feature = "worktree")]
pub use zk_worktree as worktree;
