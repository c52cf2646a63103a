//! The Model Context Protocol for zk: tools of other programs as tools of an agent.
//!
//! [`McpPlugin`] starts the servers of settings and of a project's `.mcp.json` in the background, lists their
//! tools and registers each as `mcp_{server}_{tool}`. Both eras of the protocol are supported, over standard
//! input and output and over streamable HTTP.
//!
//! | module | contents |
//! |---|---|
//! | `config/` | server configuration from settings and `.mcp.json`; trust, tool filters, names |
//! | `transport/` | transports: a program's standard streams, and HTTP; their limits |
//! | `client/` | one connection: eras, calls, progress, cancellation, requests of the server |
//! | `server/` | one server: attempts, tools, restarts; forms as questions, model access for servers |
//! | `tools/` | tools, resources, prompts and skills of servers within the agent; the tool search |
//! | `auth/` | sign-in to servers over HTTP |
//! | `serve/` | zk as a server, which offers its tools to other programs |
//! | `store/` | accepted tools, eras, states and logs of servers, in memory or in files |
//! | `events` | the events `mcp:*` |
//!
//! # Example
//!
//! `cargo run -p zk-harness-mcp --example servers`
//!
#![doc = "```ignore"]
#![doc = include_str!("../examples/servers.rs")]
#![doc = "```"]
//!
//! # What this crate must never know
//!
//! No provider, no store, no terminal, and no other way to start a process than the `Exec` service. No type of
//! the library that implements the protocol appears in this crate's public interface.

#[cfg(feature = "http")]
mod auth;
mod client;
mod config;
mod events;
mod plugin;
#[cfg(feature = "serve")]
mod serve;
mod server;
#[cfg(feature = "settings")]
pub mod settings;
mod store;
mod tools;
mod transport;

#[cfg(feature = "http")]
pub use auth::{SignInError, SignInOptions, SignInPage};
pub use config::exposure::{ServerTrust, ToolFilter};
pub use config::oauth_config::OAuthConfig;
pub use config::secret_values::SecretValues;
pub use config::server_choice::ServerChoice;
pub use config::server_config::{ServerConfig, ServerConfigError, ServerDisclosure, ServerPermission};
pub use config::server_file::{PROJECT_FILE, ServerFileError, servers_of_file, servers_of_project};
pub use config::server_transport::{ServerTransport, definition_of};
pub use events::{
    McpAuthError, McpAuthRequired, McpAuthSuccess, McpAuthUrl, McpBootstrapEnd, McpBootstrapStart,
    McpConnect, McpError, McpQuarantine, McpSkills,
};
pub use plugin::McpPlugin;
#[cfg(feature = "serve")]
pub use serve::{McpServer, ServeToken, ServedCall, ServedTool, ServedTools};
pub use server::servers::McpServers;
pub use server::status::{FailureStage, ServerFailure, ServerState, ServerStatus};
pub use store::approved_scripts::ApprovedScripts;
pub use store::era_files::FileEras;
pub use store::eras::{EraStore, MemoryEras, ServerEra};
pub use store::pin_files::FilePins;
pub use store::pins::{MemoryPins, PinStore};
pub use store::scripts::Scripts;
pub use store::server_records::{KnownState, ServerRecords};
pub use tools::skills::{RemoteFile, RemoteSkill};
