use std::path::Path;

use zk_core::service::StateFiles as _;
use zk_exec::{LocalStateFiles, own_files};

use crate::exit::{Failure, Outcome};

pub(in crate::commands) fn read_settings(path: &Path) -> Outcome<String> {
    match own_files::read_text(path, own_files::MAX_RECORD_BYTES) {
        Ok(text) => Ok(text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(Failure::failed(format!("cannot read {}: {error}", path.display()))),
    }
}

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

/// Returns the settings with the MCP server set, or removed if `server` is absent.
pub(super) fn with_server(table: &toml::Table, name: &str, server: Option<toml::Value>) -> toml::Table {
    let mut wanted = table.clone();
    let mcp = wanted.entry("mcp").or_insert_with(|| toml::Table::new().into());
    let servers =
        mcp.as_table_mut().map(|mcp| mcp.entry("servers").or_insert_with(|| toml::Table::new().into()));
    if let Some(servers) = servers.and_then(toml::Value::as_table_mut) {
        match server {
            Some(server) => servers.insert(name.to_owned(), server),
            None => servers.remove(name),
        };
    }
    wanted
}

/// Returns the settings text without the tables of the MCP server `name`.
pub(super) fn without(text: &str, name: &str) -> String {
    let is_of_server = |header: &str| {
        let parts: Vec<String> =
            header.split('.').map(|part| part.trim().trim_matches(['"', '\'']).to_owned()).collect();
        parts.len() >= 3 && parts.starts_with(&["mcp".to_owned(), "servers".to_owned(), name.to_owned()])
    };
    let mut kept = String::new();
    let mut skipping = false;
    for line in text.split_inclusive('\n') {
        let trimmed = line.trim();
        if let Some(header) = trimmed.strip_prefix('[') {
            skipping = header.split(']').next().is_some_and(is_of_server);
        }
        if !skipping {
            kept.push_str(line);
        }
    }
    kept
}

/// Writes a settings text, after a check that it contains exactly the wanted settings.
pub(super) fn write(path: &Path, text: &str, wanted: &toml::Table) -> Outcome<()> {
    let bare = |table: &toml::Table| -> toml::Table {
        let mut table = table.clone();
        let is_empty = |value: Option<&toml::Value>| {
            value.and_then(toml::Value::as_table).is_some_and(toml::Table::is_empty)
        };
        if let Some(mcp) = table.get_mut("mcp").and_then(toml::Value::as_table_mut)
            && is_empty(mcp.get("servers"))
        {
            mcp.remove("servers");
        }
        if is_empty(table.get("mcp")) {
            table.remove("mcp");
        }
        table
    };
    if parse(path, text).ok().is_none_or(|written| bare(&written) != bare(wanted)) {
        return Err(Failure::failed(format!(
            "cannot change {} without changing something else in it; edit `[mcp.servers]` by hand",
            path.display()
        )));
    }
    LocalStateFiles::default().replace(path, text.as_bytes()).map_err(Failure::failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_tables_of_the_server_go() {
        let text = "# mine\nmodel = \"x\"\n\n[mcp.servers.a]\ncommand = \"a\"\n\n[mcp.servers.a.env]\nK = \"v\"\n\n\
                    [mcp.servers.ab]\ncommand = \"b\" # keep\n";
        let left = "# mine\nmodel = \"x\"\n\n[mcp.servers.ab]\ncommand = \"b\" # keep\n";
        assert_eq!(without(text, "a"), left);
        assert_eq!(without(text, "c"), text);
    }
}
