//! Adds MCP servers to the person's settings and removes them; the rest of the file stays unchanged.

use serde_json::Value;
use zk_mcp::{SecretValues, ServerConfig, ServerTransport, definition_of};
use zk_settings::without_value;

use super::super::print_words as print;
use super::settings_text::{checked, parse, server_of, under_mcp_servers, with_server};
use crate::app::Machine;
use crate::args::actions::McpAdd;
use crate::commands::config::SettingsFile;
use crate::exit::{Exit, Failure, Outcome};

pub(super) fn add(machine: &Machine, add: McpAdd) -> Outcome<Exit> {
    let McpAdd { name, address, url, env, header, command } = add;
    if let Some(word) = address.as_deref().filter(|word| !word.contains("://")) {
        return Err(Failure::usage(format!(
            "`{word}` is no address; a command follows `--`, as in `zk mcp add {name} -- {word}`"
        )));
    }
    let transport = match (url.or(address), command.split_first()) {
        (Some(url), None) => {
            ServerTransport::Http { url, headers: parse_pairs(&header, ':', "--header \"NAME: VALUE\"")? }
        }
        (None, Some((command, args))) => ServerTransport::Stdio {
            command: command.clone(),
            args: args.to_vec(),
            env: parse_pairs(&env, '=', "--env NAME=VALUE")?,
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
    let value = toml::Value::try_from(Value::Object(definition)).map_err(Failure::failed)?;
    let file = SettingsFile::of_person(machine)?;
    let path = file.path();
    file.change(|before| {
        let table = parse(path, before)?;
        if server_of(&table, &name).is_some() {
            return Err(Failure::usage(format!(
                "there is an MCP server `{name}` already; `zk mcp remove {name}` removes it"
            )));
        }
        let added = under_mcp_servers(toml::Table::from_iter([(name.clone(), value.clone())]));
        let mut after = before.to_owned();
        if !after.is_empty() && !after.ends_with("\n\n") {
            after.push_str(if after.ends_with('\n') { "\n" } else { "\n\n" });
        }
        after.push_str(&toml::to_string(&added).map_err(Failure::failed)?);
        checked(path, after, &with_server(&table, &name, value))
    })?;
    print(
        machine,
        &[format!("MCP server {name} is set up in {}; `zk mcp tools {name}` starts it", path.display())],
    )
}

pub(super) fn remove(machine: &Machine, name: &str) -> Outcome<Exit> {
    let file = SettingsFile::of_person(machine)?;
    let path = file.path();
    file.change(|before| match without_value(before, &["mcp", "servers"], name) {
        Ok((after, true)) => Ok(after),
        Ok((_, false)) => Err(Failure::usage(format!(
            "{} has no MCP server `{name}`; those of a project are in its .mcp.json",
            path.display()
        ))),
        Err(error) => Err(Failure::usage(format!("{}: {error}", path.display()))),
    })?;
    print(machine, &[format!("MCP server {name} is no longer in {}", path.display())])
}

fn parse_pairs(given: &[String], between: char, like: &str) -> Outcome<SecretValues> {
    let pair = |text: &String| {
        let (name, value) = text.split_once(between)?;
        Some((name.trim().to_owned(), value.trim().to_owned())).filter(|(name, _)| !name.is_empty())
    };
    given
        .iter()
        .map(|text| pair(text).ok_or_else(|| Failure::usage(format!("`{text}` is not like {like}"))))
        .collect()
}
