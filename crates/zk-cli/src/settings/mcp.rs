//! MCP servers of the settings files and of the project's `.mcp.json`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use zk_core::service::{HostFileError, HostFiles, HostRead};
use zk_mcp::{Scripts, ServerConfig, ServerConfigError};

use super::{File, Layer, ProjectFile, Settings, SettingsSources};
use crate::exit::{Failure, Outcome};
use zk_settings::suggest::did_you_mean;
use zk_settings::to_json;

/// The file of a project that other programs read too.
pub(crate) const FILE: &str = ".mcp.json";
/// Kind of a server of that file in the trust store.
pub(crate) const KIND: &str = "mcp";
/// Maximum size of such a file in bytes.
const MAX_BYTES: usize = 1 << 20;

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
        let path = sources.project.join(FILE);
        let not = |why: &dyn std::fmt::Display| format!("{} is not used: {why}", path.display());
        let bytes = match read(sources.files, &path) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return,
            Err(error) => return warnings.push(not(&error)),
        };
        let servers = match ServerConfig::read_file(&bytes) {
            Ok(servers) => servers,
            Err(error) => return warnings.push(not(&error)),
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
        let name = format!("{FILE}: {}", server.name);
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
        let file = files.read(path, &HostRead::whole(MAX_BYTES)).map_err(|error| wrong(&error))?;
        let servers = ServerConfig::read_file(&file.bytes).map_err(|error| wrong(&error))?;
        for server in servers {
            let server = server.map_err(|error| wrong(&error))?;
            for key in server.unknown_keys() {
                let hint = did_you_mean(key, ServerConfig::KEYS.iter().copied());
                warnings.push(format!(
                    "{}: MCP server `{}`: zk does not know `{key}`, so it has no effect{hint}",
                    path.display(),
                    server.name
                ));
            }
            self.given_servers.retain(|one| one.name != server.name);
            self.given_servers.push(server);
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
            self.given_servers.retain(|one| one.name != server.name);
            self.given_servers.push(server);
        }
        Ok(())
    }

    /// Returns the servers to start, and the errors of invalid ones. For equal names the order is: command
    /// line, settings, project.
    pub(crate) fn mcp_servers(&self) -> (Vec<ServerConfig>, Vec<ServerConfigError>) {
        if self.has_no_mcp {
            return (Vec::new(), Vec::new());
        }
        let table = self.table(&["mcp", "servers"]).unwrap_or_default();
        let (mut servers, mut wrong) = (self.given_servers.clone(), Vec::new());
        let is_given = |name: &String| self.given_servers.iter().any(|given| given.name == *name);
        for (name, definition) in table.into_iter().filter(|(name, _)| !is_given(name)) {
            match ServerConfig::read(&name, &to_json(definition)) {
                Ok(server) => servers.push(server),
                Err(error) => wrong.push(error),
            }
        }
        let of_project = self.project_files.iter().filter(|file| file.trusted);
        for server in of_project.filter_map(|file| file.server.as_ref()) {
            if servers.iter().all(|one| one.name != server.name) {
                servers.push(server.clone());
            }
        }
        if let Some(only) = &self.only_servers {
            servers.retain(|server| only.contains(&server.name));
        }
        (servers, wrong)
    }

    /// Limits the MCP servers to start to these names.
    pub(crate) fn keep_mcp_servers(&mut self, names: &BTreeSet<String>) {
        self.only_servers = Some(names.clone());
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
        self.has_no_mcp = true;
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
                    "--trust-mcp {name}: the project's {FILE} has no such server"
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

fn read(files: &dyn HostFiles, path: &Path) -> Result<Option<Vec<u8>>, HostFileError> {
    match files.read(path, &HostRead::whole(MAX_BYTES).own_only()) {
        Ok(file) => Ok(Some(file.bytes)),
        Err(error) if error.is_missing() => Ok(None),
        // The sandbox reserves a missing file's name with an empty directory.
        Err(HostFileError::NotRegular { .. }) if path.is_dir() => Ok(None),
        Err(error) => Err(error),
    }
}
