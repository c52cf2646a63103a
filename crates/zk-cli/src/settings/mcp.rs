//! MCP servers of the settings files and of the project's `.mcp.json`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use zk_core::service::HostFiles;
use zk_mcp::{PROJECT_FILE, Scripts, ServerConfig, ServerConfigError};

use super::{File, Layer, ProjectFile, Settings, SettingsSources};
use crate::exit::{Failure, Outcome};
use zk_settings::suggest::did_you_mean;
use zk_settings::to_json;

/// Kind of a server of that file in the trust store.
const KIND: &str = "mcp";

/// Takes the servers out of the table of a settings file.
pub(super) fn take_servers(table: &mut toml::Table) -> toml::Table {
    let mcp = table.get_mut("mcp").and_then(toml::Value::as_table_mut);
    match mcp.and_then(|mcp| mcp.remove("servers")) {
        Some(toml::Value::Table(servers)) => servers,
        Some(_) | None => toml::Table::new(),
    }
}

impl Settings {
    /// Reads the servers of the project's `.mcp.json`, each with its own approval. Errors become warnings, so
    /// that zk still works.
    pub(super) fn mcp_file(&mut self, sources: &SettingsSources<'_>, warnings: &mut Vec<String>) {
        let path = sources.project.join(PROJECT_FILE);
        let servers = match zk_mcp::servers_of_project(sources.files, &path) {
            Ok(servers) => servers,
            Err(error) => return warnings.push(format!("{} is not used: {error}", path.display())),
        };
        for server in servers {
            match server {
                Ok(server) => self.mcp_server_of_project(server, sources),
                Err(error) => warnings.push(format!("{}: {error}", path.display())),
            }
        }
    }

    fn mcp_server_of_project(&mut self, mut server: ServerConfig, sources: &SettingsSources<'_>) {
        server.leave_choices_to_person();
        let definition = server.definition();
        let lookup = |name: &str| sources.env.text(name).map(str::to_owned);
        let scripts = Scripts::of(&server, sources.project, &lookup, sources.files);
        let shown = String::from_utf8_lossy(&definition).into_owned();
        let key = format!("mcp.servers.{}", server.name);
        let mut values = vec![(key.clone(), toml::Value::String(shown))];
        values.extend(
            scripts.lines().map(|(path, digest)| (format!("{key} runs {path}"), toml::Value::String(digest))),
        );
        let name = format!("{PROJECT_FILE}: {}", server.name);
        let file = File::new(name, KIND, Layer::Project, scripts.approval(definition)).with_rows(values);
        let file = file.checked(sources.trust, sources.project);
        let (server, hooks) = (Some(server), zk_hooks::HookSet::default());
        self.project_files.push(ProjectFile { hooks, server, scripts, ..ProjectFile::new(file) });
    }

    /// Adds the servers of a file that the person named. They need no approval, and any error in the file is
    /// fatal.
    ///
    /// # Errors
    /// A file that cannot be read, has another shape, or has a server that cannot be used.
    pub(crate) fn add_mcp_file(
        &mut self,
        path: &Path,
        files: &dyn HostFiles,
        warnings: &mut Vec<String>,
    ) -> Outcome<()> {
        let wrong = |why: &dyn std::fmt::Display| {
            let shape = "{\"mcpServers\": {\"NAME\": {\"command\": \"…\"}}}";
            Failure::usage(format!("--mcp-config {}: {why}; it has the shape {shape}", path.display()))
        };
        for server in zk_mcp::servers_of_file(files, path).map_err(|error| wrong(&error))? {
            let server = server.map_err(|error| wrong(&error))?;
            for key in server.unknown_keys() {
                let hint = did_you_mean(key, ServerConfig::KEYS.iter().copied());
                warnings.push(format!(
                    "{}: MCP server `{}`: zk does not know `{key}`, so it has no effect{hint}",
                    path.display(),
                    server.name
                ));
            }
            self.servers.give(server);
        }
        Ok(())
    }

    /// Adds the servers of a preset of the person: each replaces one of its name as a whole.
    ///
    /// # Errors
    /// A server that cannot be used.
    pub(super) fn add_servers(&mut self, servers: toml::Table, path: &Path) -> Outcome<()> {
        for (name, definition) in servers {
            let server = ServerConfig::read(&name, &to_json(definition))
                .map_err(|error| Failure::usage(format!("{}: {error}", path.display())))?;
            self.servers.give(server);
        }
        Ok(())
    }

    /// Returns the servers to start, and the errors of invalid ones. For equal names the order is: command
    /// line, settings, project.
    pub(crate) fn mcp_servers(&self) -> (Vec<ServerConfig>, Vec<ServerConfigError>) {
        let table = self.table(&["mcp", "servers"]).unwrap_or_default();
        let of_project = self.project_files.iter().filter(|file| file.trusted);
        self.servers.servers(
            table.into_iter().map(|(name, definition)| (name, to_json(definition))),
            of_project.filter_map(|file| file.server.as_ref()),
        )
    }

    /// Limits the MCP servers to start to these names.
    pub(crate) fn keep_mcp_servers(&mut self, names: &BTreeSet<String>) {
        self.servers.keep(names);
    }

    /// Scripts of the project's servers at their approval, by the server's identity.
    pub(crate) fn mcp_scripts(&self) -> BTreeMap<String, Scripts> {
        let trusted = self.project_files.iter().filter(|file| file.trusted);
        trusted
            .filter_map(|file| Some((file.server.as_ref()?.identity().to_owned(), file.scripts.clone())))
            .collect()
    }

    /// Disables all MCP servers.
    pub(crate) fn leave_out_mcp_servers(&mut self) {
        self.servers.switch_off();
    }

    /// Trusts unapproved MCP servers of the project, by name, for this start (`--trust-mcp`). At a reload,
    /// `before` are the earlier settings: a server whose definition or script changed since is not trusted.
    pub(crate) fn trust_mcp_servers(&mut self, names: &[String], before: Option<&Self>) -> Outcome<()> {
        let is_it =
            |file: &ProjectFile, name: &str| file.server.as_ref().is_some_and(|server| server.name == name);
        for name in names {
            let Some(file) = self.project_files.iter_mut().find(|file| is_it(file, name)) else {
                if before.is_some() {
                    continue;
                }
                return Err(Failure::usage(format!(
                    "--trust-mcp {name}: the project's {PROJECT_FILE} has no such server"
                )));
            };
            let is_same = |before: &Self| {
                let then = before.project_files.iter().find(|file| is_it(file, name));
                then.is_some_and(|then| then.trusted && then.bytes == file.bytes)
            };
            if before.is_none_or(is_same) {
                file.file.trusted = true;
            }
        }
        Ok(())
    }

    /// The servers of the project that nobody approved.
    pub(crate) fn untrusted_mcp_servers(&self) -> impl Iterator<Item = &ServerConfig> {
        self.project_files.iter().filter(|file| !file.trusted).filter_map(|file| file.server.as_ref())
    }
}
