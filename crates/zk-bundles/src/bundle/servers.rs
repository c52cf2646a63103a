use serde_json::{Map, Value};
use zk_core::service::visible_line;

use super::manifest::Written;
use super::{Bundle, BundleError, ServerPart};
use crate::tree::Tree;

/// Standard file of servers.
const SERVERS_FILE: &str = ".mcp.json";

/// Endings of packages of servers, which are archives.
const PACKAGE_ENDINGS: [&str; 2] = [".mcpb", ".dxt"];

/// Reads `.mcp.json` and the servers of the manifest. Servers with equal definitions are merged.
pub(super) fn find(bundle: &mut Bundle, tree: &Tree) -> Result<(), BundleError> {
    if let Some(file) = tree.get(SERVERS_FILE) {
        let servers = parse(SERVERS_FILE, &file.bytes)?;
        add(bundle, SERVERS_FILE, &servers)?;
    }
    for written in bundle.manifest.servers.clone() {
        match written {
            Written::Inline(value) => {
                let place = "plugin.json: mcpServers";
                let servers = unwrapped(place, &value)?;
                add(bundle, place, &servers)?;
            }
            Written::File(path) if PACKAGE_ENDINGS.iter().any(|ending| path.ends_with(ending)) => {
                bundle.unserved.push(format!("a package of an MCP server (`{}`)", visible_line(&path)));
            }
            Written::File(path) => match tree.get(&path) {
                Some(file) => {
                    let servers = parse(&path, &file.bytes)?;
                    add(bundle, &path, &servers)?;
                }
                None => bundle.leads_nowhere("mcpServers", &path),
            },
        }
    }
    Ok(())
}

fn wrong(place: &str, why: impl Into<String>) -> BundleError {
    BundleError::Part { place: place.to_owned(), why: why.into() }
}

fn parse(place: &str, bytes: &[u8]) -> Result<Map<String, Value>, BundleError> {
    let value: Value =
        serde_json::from_slice(bytes).map_err(|error| wrong(place, format!("it is no JSON: {error}")))?;
    unwrapped(place, &value)
}

/// Servers by name, with or without `mcpServers` around them.
fn unwrapped(place: &str, value: &Value) -> Result<Map<String, Value>, BundleError> {
    let servers = value.get("mcpServers").unwrap_or(value);
    servers.as_object().cloned().ok_or_else(|| wrong(place, "it is no object of servers by name"))
}

fn add(bundle: &mut Bundle, place: &str, servers: &Map<String, Value>) -> Result<(), BundleError> {
    for (name, definition) in servers {
        let shown = visible_line(name);
        if !definition.is_object() {
            return Err(wrong(place, format!("the server `{shown}` is no object")));
        }
        let is_usable = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if name.is_empty() || name.len() > super::MAX_NAME_BYTES || !name.chars().all(is_usable) {
            let why = format!("a server cannot be called `{shown}`: use letters, digits, `-`, `_` and `.`");
            return Err(wrong(place, why));
        }
        let name = format!("plugin:{}:{name}", bundle.manifest.name);
        let is_same = |other: &ServerPart| other.name == name || other.definition == *definition;
        if !bundle.servers.iter().any(is_same) {
            bundle.servers.push(ServerPart { name, definition: definition.clone() });
        }
    }
    Ok(())
}
