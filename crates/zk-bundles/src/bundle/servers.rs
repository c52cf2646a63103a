use serde_json::{Map, Value};
use zk_core::service::visible_line;

use super::manifest::ManifestPart;
use super::{Bundle, BundleError, ServerPart};
use crate::tree::Tree;

/// Path of the standard file of MCP servers in a bundle.
const SERVERS_FILE: &str = ".mcp.json";

/// File extensions of packaged MCP servers, which are archives.
const PACKAGE_ENDINGS: [&str; 2] = [".mcpb", ".dxt"];

/// Reads `.mcp.json` and the servers of the manifest. Servers with equal definitions are merged.
pub(super) fn read_servers(bundle: &mut Bundle, tree: &Tree) -> Result<(), BundleError> {
    if let Some(file) = tree.get(SERVERS_FILE) {
        let servers = parse_file(SERVERS_FILE, &file.bytes)?;
        add_servers(bundle, SERVERS_FILE, &servers)?;
    }
    for written in bundle.manifest.servers.clone() {
        match written {
            ManifestPart::Inline(value) => {
                let place = "plugin.json: mcpServers";
                let servers = server_definitions(place, &value)?;
                add_servers(bundle, place, &servers)?;
            }
            ManifestPart::File(path) if PACKAGE_ENDINGS.iter().any(|ending| path.ends_with(ending)) => {
                bundle.unserved.push(format!("a package of an MCP server (`{}`)", visible_line(&path)));
            }
            ManifestPart::File(path) => match tree.get(&path) {
                Some(file) => {
                    let servers = parse_file(&path, &file.bytes)?;
                    add_servers(bundle, &path, &servers)?;
                }
                None => bundle.note_missing_path("mcpServers", &path),
            },
        }
    }
    Ok(())
}

fn invalid_part(place: &str, why: impl Into<String>) -> BundleError {
    BundleError::Part { place: place.to_owned(), why: why.into() }
}

fn parse_file(place: &str, bytes: &[u8]) -> Result<Map<String, Value>, BundleError> {
    let value: Value = serde_json::from_slice(bytes)
        .map_err(|error| invalid_part(place, format!("it is no JSON: {error}")))?;
    server_definitions(place, &value)
}

/// Servers by name, from an object with or without `mcpServers` around them.
fn server_definitions(place: &str, value: &Value) -> Result<Map<String, Value>, BundleError> {
    let servers = value.get("mcpServers").unwrap_or(value);
    servers.as_object().cloned().ok_or_else(|| invalid_part(place, "it is no object of servers by name"))
}

fn add_servers(bundle: &mut Bundle, place: &str, servers: &Map<String, Value>) -> Result<(), BundleError> {
    for (name, definition) in servers {
        let shown = visible_line(name);
        if !definition.is_object() {
            return Err(invalid_part(place, format!("the server `{shown}` is no object")));
        }
        let is_usable = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if name.is_empty() || name.len() > super::MAX_NAME_BYTES || !name.chars().all(is_usable) {
            let why = format!("a server cannot be called `{shown}`: use letters, digits, `-`, `_` and `.`");
            return Err(invalid_part(place, why));
        }
        let name = format!("plugin:{}:{name}", bundle.manifest.name);
        let is_same = |other: &ServerPart| other.name == name || other.definition == *definition;
        if !bundle.servers.iter().any(is_same) {
            bundle.servers.push(ServerPart { name, definition: definition.clone() });
        }
    }
    Ok(())
}
