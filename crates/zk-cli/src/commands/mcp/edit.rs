//! Adds servers to the person's settings and takes them out, leaving everything else in the file as it is.

use std::path::Path;

use serde_json::Value;
use zk_core::service::StateFiles as _;
use zk_exec::LocalStateFiles;
use zk_mcp::{SecretValues, ServerConfig, ServerTransport, definition_of};

use super::super::print;
use crate::app::AppContext;
use crate::args::actions::McpAdd;
use crate::exit::{Exit, Failure, Outcome};
use crate::own_files;

pub(super) fn add(app: &AppContext, add: McpAdd) -> Outcome<Exit> {
    let McpAdd { name, address, url, env, header, command } = add;
    if let Some(word) = address.as_deref().filter(|word| !word.contains("://")) {
        return Err(Failure::usage(format!(
            "`{word}` is no address; a command follows `--`, as in `zk mcp add {name} -- {word}`"
        )));
    }
    let transport = match (url.or(address), command.split_first()) {
        (Some(url), None) => {
            ServerTransport::Http { url, headers: pairs(&header, ':', "--header \"NAME: VALUE\"")? }
        }
        (None, Some((command, args))) => ServerTransport::Stdio {
            command: command.clone(),
            args: args.to_vec(),
            env: pairs(&env, '=', "--env NAME=VALUE")?,
            cwd: None,
        },
        (_, _) => {
            return Err(Failure::usage(
                "name either a command, as in `zk mcp add docs -- docs-server --stdio`, or an address, as in \
                 `zk mcp add docs https://mcp.example.com/v1`",
            ));
        }
    };
    let definition = definition_of(&transport);
    ServerConfig::read(&name, &Value::Object(definition.clone()))
        .map_err(|error| Failure::usage(error.to_string()))?;
    let path = app
        .dirs
        .settings()
        .ok_or_else(|| Failure::usage("there is no place for settings: set HOME or ZK_HOME"))?;
    let before = text(&path)?;
    let table = parse(&path, &before)?;
    if at(&table, &name).is_some() {
        return Err(Failure::usage(format!(
            "there is an MCP server `{name}` already; `zk mcp remove {name}` removes it"
        )));
    }
    let value = toml::Value::try_from(Value::Object(definition)).map_err(Failure::failed)?;
    let mut servers = toml::Table::new();
    servers.insert(name.clone(), value);
    let added = nested(servers);
    let mut after = before;
    if !after.is_empty() && !after.ends_with("\n\n") {
        after.push_str(if after.ends_with('\n') { "\n" } else { "\n\n" });
    }
    after.push_str(&toml::to_string(&added).map_err(Failure::failed)?);
    let wanted = merged(&table, &name, at(&added, &name).cloned());
    write(&path, &after, &wanted)?;
    print(
        app,
        &[format!("MCP server {name} is set up in {}; `zk mcp tools {name}` starts it", path.display())],
    )
}

pub(super) fn remove(app: &AppContext, name: &str) -> Outcome<Exit> {
    let path =
        app.dirs.settings().ok_or_else(|| Failure::usage("there are no settings: set HOME or ZK_HOME"))?;
    let before = text(&path)?;
    let table = parse(&path, &before)?;
    if at(&table, name).is_none() {
        return Err(Failure::usage(format!(
            "{} has no MCP server `{name}`; those of a project are in its .mcp.json",
            path.display()
        )));
    }
    let wanted = merged(&table, name, None);
    write(&path, &without(&before, name), &wanted)?;
    print(app, &[format!("MCP server {name} is no longer in {}", path.display())])
}

fn pairs(given: &[String], between: char, like: &str) -> Outcome<SecretValues> {
    let pair = |text: &String| {
        let (name, value) = text.split_once(between)?;
        Some((name.trim().to_owned(), value.trim().to_owned())).filter(|(name, _)| !name.is_empty())
    };
    given
        .iter()
        .map(|text| pair(text).ok_or_else(|| Failure::usage(format!("`{text}` is not like {like}"))))
        .collect()
}

fn text(path: &Path) -> Outcome<String> {
    match own_files::read_text(path, own_files::RECORD) {
        Ok(text) => Ok(text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(Failure::failed(format!("cannot read {}: {error}", path.display()))),
    }
}

fn parse(path: &Path, text: &str) -> Outcome<toml::Table> {
    text.parse()
        .map_err(|error| Failure::usage(format!("cannot read {}: invalid TOML: {error}", path.display())))
}

fn nested(servers: toml::Table) -> toml::Table {
    let mcp = toml::Table::from_iter([("servers".to_owned(), toml::Value::Table(servers))]);
    toml::Table::from_iter([("mcp".to_owned(), toml::Value::Table(mcp))])
}

fn at<'a>(table: &'a toml::Table, name: &str) -> Option<&'a toml::Value> {
    table.get("mcp")?.get("servers")?.get(name)
}

/// The settings as they are to be, with this server or without it.
fn merged(table: &toml::Table, name: &str, server: Option<toml::Value>) -> toml::Table {
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

/// The text without the tables of a server.
fn without(text: &str, name: &str) -> String {
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

/// Writes settings that say what they are to say, and nothing else.
fn write(path: &Path, text: &str, wanted: &toml::Table) -> Outcome<()> {
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
