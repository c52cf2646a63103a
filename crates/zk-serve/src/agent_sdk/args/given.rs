use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use zk_core::service::{HostFiles, HostRead};

use super::host_settings::HostSettings;
use super::{SdkArgs, flags};

/// Maximum size of a file named by an argument, in bytes.
const MAX_FILE_BYTES: usize = 4 << 20;

/// Parsed arguments and first request, with the contents of the files that they name.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Given {
    /// System prompt in place of zk's own; empty for no system prompt.
    pub(crate) system: Option<String>,
    pub(crate) append: Option<String>,
    pub(crate) settings: HostSettings,
    /// MCP servers by name, including servers of the host itself.
    pub(crate) servers: Map<String, Value>,
    /// Names of hidden tools, and rules that refuse calls.
    pub(crate) disallowed: Vec<String>,
    /// Tools offered to the model; `None` for all.
    pub(crate) tools: Option<Vec<String>>,
    pub(crate) model: Option<String>,
    /// Directories of plugins.
    pub(crate) plugins: Vec<PathBuf>,
    /// Notices about arguments without an effect.
    pub(crate) told: Vec<String>,
}

/// Access to the files named by arguments.
pub(crate) struct Files<'a> {
    pub(crate) files: &'a dyn HostFiles,
    pub(crate) cwd: &'a Path,
}

impl Files<'_> {
    fn read(&self, path: &str, flag: &str) -> Result<String, String> {
        let read = self.files.read(&self.cwd.join(path), &HostRead::whole(MAX_FILE_BYTES));
        let read = read.map_err(|error| format!("{flag} {path}: {error}"))?;
        let text = String::from_utf8(read.bytes).map_err(|_| format!("{flag} {path}: this is no UTF-8"))?;
        Ok(text.strip_prefix('\u{feff}').map_or_else(|| text.clone(), str::to_owned))
    }

    /// Parses a JSON object from the argument itself, or from the file that it names.
    fn json(&self, given: &str, flag: &str) -> Result<Value, String> {
        let text = given.trim();
        let text = if text.starts_with('{') { text.to_owned() } else { self.read(text, flag)? };
        let shown = if given.trim_start().starts_with('{') { "" } else { given };
        serde_json::from_str(&text).map_err(|error| format!("{flag} {shown} is no JSON: {error}"))
    }
}

impl Given {
    /// Reads everything that a host gave.
    ///
    /// # Errors
    /// A sentence about a value or a file that cannot be used.
    pub(crate) fn read(args: &SdkArgs, first: &Value, at: &Files<'_>) -> Result<Self, String> {
        let mut given = Self { told: flags::check(args, first)?, ..Self::default() };
        given.read_prompts(args, first, at)?;
        for text in args.all("settings").iter().filter(|text| !text.trim().is_empty()) {
            given.settings.add(&at.json(text, "--settings")?, "--settings", false)?;
        }
        if let Some(settings) = first.get("settings").filter(|settings| !settings.is_null()) {
            let settings = json_of(settings, at, "settings")?;
            given.settings.add(&settings, "the first request", false)?;
        }
        for text in args.all("managed-settings").iter().filter(|text| !text.trim().is_empty()) {
            given.settings.add(&at.json(text, "--managed-settings")?, "--managed-settings", true)?;
        }
        if let Some(settings) = first.get("managedSettings").filter(|settings| !settings.is_null()) {
            let settings = json_of(settings, at, "managedSettings")?;
            given.settings.add(&settings, "`managedSettings`", true)?;
        }
        given.told.append(&mut given.settings.told);
        given.servers = read_servers(args, first, at)?;
        given.disallowed = args.list("disallowedTools");
        given.disallowed.extend(args.list("disallowed-tools"));
        given.disallowed.extend(names(first, "disallowedTools")?);
        if args.has("tools") && args.text("tools") != Some("default") {
            given.tools = Some(args.list("tools"));
        }
        given.plugins = args.all("plugin-dir").iter().map(|dir| at.cwd.join(dir)).collect();
        for plugin in first.get("plugins").and_then(Value::as_array).into_iter().flatten() {
            if plugin.get("skipMcpDiscovery") == Some(&Value::Bool(true)) {
                return Err(
                    "a plugin with `skipMcpDiscovery` cannot be used: zk uses a plugin with its MCP servers"
                        .to_owned(),
                );
            }
            let path = plugin.get("path").and_then(Value::as_str);
            let path = path.ok_or("a plugin of the first request has no `path`")?;
            given.plugins.push(at.cwd.join(path));
        }
        given.read_agent(args, first)?;
        Ok(given)
    }

    fn read_prompts(&mut self, args: &SdkArgs, first: &Value, at: &Files<'_>) -> Result<(), String> {
        let file = |flag: &str| match args.text(flag).filter(|path| !path.is_empty()) {
            Some(path) => at.read(path, &format!("--{flag}")).map(Some),
            None => Ok(None),
        };
        self.system = match (file("system-prompt-file")?, args.text("system-prompt")) {
            (Some(text), _) => Some(text),
            (None, Some(text)) => Some(text.to_owned()),
            (None, None) => match first.get("systemPrompt") {
                Some(Value::String(text)) => Some(text.clone()),
                Some(Value::Array(parts)) => {
                    let parts: Vec<&str> = parts.iter().filter_map(Value::as_str).collect();
                    Some(parts.join("\n\n"))
                }
                _ => None,
            },
        };
        let appended =
            args.text("append-system-prompt").or_else(|| first.get("appendSystemPrompt")?.as_str());
        let parts = [appended.map(str::to_owned), file("append-system-prompt-file")?];
        let parts: Vec<String> = parts.into_iter().flatten().filter(|text| !text.is_empty()).collect();
        self.append = (!parts.is_empty()).then(|| parts.join("\n\n"));
        Ok(())
    }

    /// Applies the agent named by the host: its prompt, tools and model, unless the host set these elsewhere.
    fn read_agent(&mut self, args: &SdkArgs, first: &Value) -> Result<(), String> {
        let Some(name) = args.text("agent").filter(|name| !name.is_empty()) else { return Ok(()) };
        let agent = first.get("agents").and_then(|agents| agents.get(name)).ok_or_else(|| {
            format!("--agent {name}: there is no such agent among `agents` of the first request")
        })?;
        if self.system.as_deref().is_none_or(str::is_empty) {
            self.system = agent.get("prompt").and_then(Value::as_str).map(str::to_owned);
        }
        if self.tools.is_none() && agent.get("tools").is_some_and(|tools| !tools.is_null()) {
            self.tools = Some(names(agent, "tools")?);
        }
        self.disallowed.extend(names(agent, "disallowedTools")?);
        let model = agent.get("model").and_then(Value::as_str);
        self.model = model.filter(|model| !super::launch::FAMILIES.contains(model)).map(str::to_owned);
        Ok(())
    }
}

fn json_of(value: &Value, at: &Files<'_>, name: &str) -> Result<Value, String> {
    match value {
        Value::String(text) => at.json(text, name),
        value => Ok(value.clone()),
    }
}

/// A list of names in the first request.
fn names(of: &Value, key: &str) -> Result<Vec<String>, String> {
    let items = match of.get(key) {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(items) => items.as_array(),
    };
    let names = items.and_then(|items| items.iter().map(|item| item.as_str().map(str::to_owned)).collect());
    names.ok_or_else(|| format!("`{key}` of the first request is no list of names"))
}

fn read_servers(args: &SdkArgs, first: &Value, at: &Files<'_>) -> Result<Map<String, Value>, String> {
    let mut all = Map::new();
    for text in args.all("mcp-config").iter().filter(|text| !text.trim().is_empty()) {
        let config = at.json(text, "--mcp-config")?;
        match config.get("mcpServers").unwrap_or(&config) {
            Value::Object(servers) => all.extend(servers.clone()),
            _ => {
                return Err(
                    "--mcp-config has no object of servers: {\"mcpServers\": {\"NAME\": {…}}}".to_owned()
                );
            }
        }
    }
    if let Some(Value::Object(servers)) = first.get("mcpServers") {
        all.extend(servers.clone());
    }
    Ok(all)
}
