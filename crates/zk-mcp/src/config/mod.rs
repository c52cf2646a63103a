//! Configuration of servers, from settings and `.mcp.json`.

pub(crate) mod canonical;
pub(crate) mod expand;
pub(crate) mod exposure;
pub(crate) mod names;
pub(crate) mod oauth_config;
pub(crate) mod secret_values;
pub(crate) mod server_choice;
pub(crate) mod server_config;
pub(crate) mod server_file;
pub(crate) mod server_transport;
