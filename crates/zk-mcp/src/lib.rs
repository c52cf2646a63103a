//! The Model Context Protocol for zk: the tools of other programs as tools of an agent.
//!
//! [`McpPlugin`] starts the servers of settings and of a project's `.mcp.json` in the background, lists their tools and
//! registers each as `mcp_{server}_{tool}`. Both eras of the protocol are spoken, over standard input and output and over
//! streamable HTTP.
//!
//! | module | what is in it |
//! |---|---|
//! | `config`, `transport`, `expand`, `secret_values` | the definition of a server, as settings and `.mcp.json` have it |
//! | `oauth_config` | what is set about signing in |
//! | `exposure` | how far a server is trusted, and which of its tools are used |
//! | `server/` | one server: attempts, its tools, what follows its end |
//! | `servers` | all servers of a plugin, for a host |
//! | `client/`, `era` | one connection: eras, calls, progress, cancellation, what a server asks |
//! | `stdio/`, `http`, `event_stream` | the transports; a program is started with the `Exec` service |
//! | `pin`, `canonical` | the tools that were accepted, and what differs from them |
//! | `tool`, `sanitize`, `names` | a tool as the model has it |
//! | `resources`, `prompts`, `forms`, `sampling` | resources as tools, prompts as commands, forms as questions, the model for servers |
//! | `status`, `status_command` | how servers are, in code and for a person |
//! | `skills` | skills that servers list, for whoever uses them |
//! | `search`, `catalogue` | tools that the model is told of once it searched for them, and the list of them in the prompt |
//! | `auth/` | signing in to servers that are reached by HTTP |
//! | `events` | `mcp:*` |
//! | `serve/` | zk as a server: its tools for other programs |
//!
//! # Example
//!
//! `cargo run -p zk-mcp --example servers`
//!
#![doc = "```ignore"]
#![doc = include_str!("../examples/servers.rs")]
#![doc = "```"]
//!
//! # What this crate must never know
//!
//! No provider, no store, no terminal, and no other way to start a process than the `Exec` service. The
//! library that speaks the protocol stays inside: none of its types appear in what this crate exports.

#[cfg(feature = "http")]
mod answer;
#[cfg(feature = "http")]
mod auth;
mod canonical;
mod catalogue;
mod client;
mod config;
mod era;
#[cfg(feature = "http")]
mod event_stream;
mod events;
mod expand;
mod exposure;
mod forms;
#[cfg(feature = "http")]
mod http;
mod names;
mod oauth_config;
mod pin;
mod plugin;
mod prompts;
mod resources;
mod sampling;
mod sanitize;
mod search;
mod secret_values;
#[cfg(feature = "serve")]
mod serve;
mod server;
mod servers;
#[cfg(feature = "settings")]
pub mod settings;
mod skills;
mod status;
mod status_command;
mod stdio;
mod tool;
mod transport;
mod values;

#[cfg(feature = "http")]
pub use auth::{SignInError, SignInOptions, SignInPage};
pub use config::{ServerConfig, ServerConfigError, ServerDisclosure, ServerPermission};
pub use era::{EraStore, MemoryEras, ServerEra};
pub use events::{
    McpAuthError, McpAuthRequired, McpAuthSuccess, McpAuthUrl, McpBootstrapEnd, McpBootstrapStart,
    McpConnect, McpError, McpQuarantine, McpSkills,
};
pub use exposure::{ServerTrust, ToolFilter};
pub use oauth_config::OAuthConfig;
pub use pin::{MemoryPins, PinStore};
pub use plugin::McpPlugin;
pub use secret_values::SecretValues;
#[cfg(feature = "serve")]
pub use serve::{McpServer, ServeToken, ServedCall, ServedTool, ServedTools};
pub use servers::McpServers;
pub use skills::{RemoteFile, RemoteSkill};
pub use status::{FailureStage, ServerFailure, ServerState, ServerStatus};
pub use transport::{ServerTransport, definition_of};
