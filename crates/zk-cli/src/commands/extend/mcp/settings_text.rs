use std::path::Path;

use crate::exit::{Failure, Outcome};

pub(in crate::commands) fn parse(path: &Path, text: &str) -> Outcome<toml::Table> {
    text.parse()
        .map_err(|error| Failure::usage(format!("cannot read {}: invalid TOML: {error}", path.display())))
}

pub(super) fn under_mcp_servers(servers: toml::Table) -> toml::Table {
    let mcp = toml::Table::from_iter([("servers".to_owned(), toml::Value::Table(servers))]);
    toml::Table::from_iter([("mcp".to_owned(), toml::Value::Table(mcp))])
}

pub(super) fn server_of<'a>(table: &'a toml::Table, name: &str) -> Option<&'a toml::Value> {
    table.get("mcp")?.get("servers")?.get(name)
}

/// Returns the settings with the MCP server set.
pub(super) fn with_server(table: &toml::Table, name: &str, server: toml::Value) -> toml::Table {
    let mut wanted = table.clone();
    let mcp = wanted.entry("mcp").or_insert_with(|| toml::Table::new().into());
    let servers =
        mcp.as_table_mut().map(|mcp| mcp.entry("servers").or_insert_with(|| toml::Table::new().into()));
    if let Some(servers) = servers.and_then(toml::Value::as_table_mut) {
        servers.insert(name.to_owned(), server);
    }
    wanted
}

/// Returns the settings text, after a check that it contains exactly the wanted settings.
pub(super) fn checked(path: &Path, text: String, wanted: &toml::Table) -> Outcome<String> {
    if parse(path, &text).ok().is_some_and(|written| written == *wanted) {
        return Ok(text);
    }
    Err(Failure::failed(format!(
        "cannot change {} without changing something else in it; edit `[mcp.servers]` by hand",
        path.display()
    )))
}
