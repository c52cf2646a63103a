use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::config::canonical::{canonical, sha256_hex};
use crate::config::expand::expand;
use crate::config::exposure::{ServerTrust, ToolFilter};
use crate::config::names::{is_bundle_server_name, is_server_name};
use crate::config::oauth_config::OAuthConfig;
use crate::config::secret_values::SecretValues;
use crate::config::server_transport::ServerTransport;

#[cfg(test)]
mod tests;

/// Default limit of a request's time without an answer or progress.
const REQUEST_IDLE_LIMIT: Duration = Duration::from_secs(120);

/// Configuration of one MCP server, from settings or a project's `.mcp.json`.
///
/// ```
/// use serde_json::json;
/// use zk_mcp::{ServerConfig, ServerTransport};
///
/// let server = ServerConfig::read("docs", &json!({ "command": "docs-server", "args": ["--stdio"] })).unwrap();
/// assert!(matches!(server.transport, ServerTransport::Stdio { .. }));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ServerConfig {
    /// Name of the server, which becomes part of the names of its tools.
    pub name: String,
    /// Transport to the server.
    pub transport: ServerTransport,
    /// Whether the server is started.
    pub enabled: bool,
    /// Time limit from the start to the list of tools.
    pub start_cap: Duration,
    /// Longest time of a request without an answer or progress.
    pub request_idle: Duration,
    /// Longest time of a call without an answer or progress, by the server's name of the tool.
    pub tool_idle: BTreeMap<String, Duration>,
    /// Time at which the model learns of the server's tools; `None` for the default of all servers.
    pub disclosure: Option<ServerDisclosure>,
    /// Whether a changed list of tools has to be accepted by a person before the server is used again.
    pub pin: bool,
    /// The person's trust in the server.
    pub trust: ServerTrust,
    /// Filter of the server's tools.
    pub tools: ToolFilter,
    /// Whether the server may ask the model in the middle of a call.
    pub sampling: ServerPermission,
    /// Whether the server's skills may be used.
    pub skills: ServerPermission,
    /// Tools without side effects, by the server's own names, as declared by the person: their calls run
    /// concurrently. Declarations of the server itself do not count.
    pub read_only: Vec<String>,
    /// Sign-in settings, for a server over HTTP.
    pub oauth: OAuthConfig,
    /// Definition as written, before variables are expanded, which a person approves.
    definition: Definition,
    /// Digest of the program with its arguments, or of the address, as written.
    identity: String,
    /// Whether the definition demands the transport of revision 2024-11-05.
    pub(crate) is_event_stream: bool,
}

/// A definition as written, which may contain keys.
#[derive(Clone, PartialEq)]
struct Definition(Value);

impl fmt::Debug for Definition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(not shown)")
    }
}

/// Time at which the model learns of a server's tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "settings", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ServerDisclosure {
    /// With every request.
    Eager,
    /// After the model searched for them.
    Lazy,
}

/// Permission of a server for something that a person should control: asking the model in the middle of a
/// call, or having its skills used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "settings", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ServerPermission {
    /// A person is asked each time; refused if none is present.
    #[default]
    Ask,
    /// Always allowed.
    Allow,
    /// Never allowed; reported to the server as unsupported.
    Deny,
}

/// Error in the definition of a server.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServerConfigError {
    /// The name cannot be part of a tool's name.
    #[error("a server cannot be called `{name}`: use 1 to 32 letters, digits, `-` and `_`")]
    Name {
        /// Name as given.
        name: String,
    },
    /// The definition has an invalid form.
    #[error("MCP server `{name}`: {why}")]
    Shape {
        /// Name of the server.
        name: String,
        /// Description of the error, and the correct form.
        why: String,
    },
    /// The tools of two servers would have the same names, and one of the servers is of a bundle.
    #[error(
        "MCP server `{name}` is not started: its tools would have the names of those of `{other}`, so that rules for \
         one would apply to the other; rename one of them"
    )]
    Taken {
        /// Name of the server that is left out.
        name: String,
        /// Name of the other server.
        other: String,
    },
}

/// Keys of a definition about the transport, including those of other programs.
#[derive(Deserialize)]
struct WrittenTransport {
    #[serde(rename = "type")]
    kind: Option<String>,
    command: Option<String>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    cwd: Option<String>,
    url: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
}

/// Keys of a definition about the use of the server, including those of other programs.
#[derive(Deserialize)]
struct WrittenOptions {
    enabled: Option<bool>,
    disabled: Option<bool>,
    /// Idle limit of requests in milliseconds.
    timeout: Option<u64>,
    /// Idle limits of calls in milliseconds, by tool.
    #[serde(default)]
    tool_timeouts: BTreeMap<String, u64>,
    /// Time limit of the start in milliseconds.
    start_timeout: Option<u64>,
    disclosure: Option<ServerDisclosure>,
    #[serde(rename = "alwaysLoad")]
    always_load: Option<bool>,
    pin: Option<bool>,
    #[serde(default)]
    trust: ServerTrust,
    allow_tools: Option<Vec<String>>,
    #[serde(default)]
    deny_tools: Vec<String>,
    #[serde(default)]
    sampling: ServerPermission,
    #[serde(default)]
    skills: ServerPermission,
    #[serde(default)]
    read_only: Vec<String>,
    #[serde(default)]
    oauth: OAuthConfig,
}

impl ServerConfig {
    /// Reads the server called `name` from its definition in settings or `.mcp.json`. Unknown keys are
    /// ignored.
    ///
    /// # Errors
    /// [`ServerConfigError`] when the name is invalid, or the definition has neither a command nor an
    /// address.
    pub fn read(name: &str, definition: &Value) -> Result<Self, ServerConfigError> {
        if !is_server_name(name) {
            return Err(ServerConfigError::Name { name: name.to_owned() });
        }
        Self::read_definition(name, definition)
    }

    /// Reads a server of a bundle, called `plugin:BUNDLE:SERVER`. Settings that only the person may choose do not count.
    ///
    /// # Errors
    /// As [`ServerConfig::read`].
    pub fn read_of_bundle(name: &str, definition: &Value) -> Result<Self, ServerConfigError> {
        if !is_bundle_server_name(name) {
            return Err(ServerConfigError::Name { name: name.to_owned() });
        }
        let mut server = Self::read_definition(name, definition)?;
        server.leave_choices_to_person();
        Ok(server)
    }

    /// Resets the settings that only the person may choose, for a definition from another source.
    pub fn leave_choices_to_person(&mut self) {
        self.pin = true;
        self.read_only.clear();
        for policy in [&mut self.sampling, &mut self.skills] {
            if *policy == ServerPermission::Allow {
                *policy = ServerPermission::Ask;
            }
        }
    }

    fn read_definition(name: &str, definition: &Value) -> Result<Self, ServerConfigError> {
        let shape = |why: String| ServerConfigError::Shape { name: name.to_owned(), why };
        if let Some(key) = key_that_is_no_table_of_texts(definition) {
            return Err(shape(format!("its `{key}` must be a table of texts")));
        }
        let wrong = |error: serde_json::Error| shape(error.to_string());
        let reached = WrittenTransport::deserialize(definition).map_err(wrong)?;
        let written = WrittenOptions::deserialize(definition).map_err(wrong)?;
        let transport = reached.transport().map_err(|why| shape(why.to_owned()))?;
        let identity = transport.identity();
        let millis =
            |said: Option<u64>, usual| said.filter(|ms| *ms > 0).map_or(usual, Duration::from_millis);
        let always = written.always_load.filter(|always| *always).map(|_| ServerDisclosure::Eager);
        let only_trusted = |permission| match written.trust {
            ServerTrust::Trusted => permission,
            ServerTrust::Untrusted | ServerTrust::Sandboxed => ServerPermission::Deny,
        };
        let skills = match written.trust {
            ServerTrust::Untrusted => ServerPermission::Deny,
            ServerTrust::Trusted | ServerTrust::Sandboxed => written.skills,
        };
        let tool_idle = written
            .tool_timeouts
            .into_iter()
            .filter(|(_, ms)| *ms > 0)
            .map(|(tool, ms)| (tool, Duration::from_millis(ms)))
            .collect();
        let start_cap = millis(written.start_timeout, transport.usual_start());
        Ok(Self {
            name: name.to_owned(),
            transport,
            enabled: written.enabled.unwrap_or(true) && !written.disabled.unwrap_or(false),
            start_cap,
            request_idle: millis(written.timeout, REQUEST_IDLE_LIMIT),
            tool_idle,
            disclosure: written.disclosure.or(always),
            pin: written.pin.unwrap_or(true),
            trust: written.trust,
            sampling: only_trusted(written.sampling),
            tools: ToolFilter { allow: written.allow_tools, deny: written.deny_tools },
            skills,
            read_only: written.read_only,
            oauth: written.oauth,
            definition: Definition(definition.clone()),
            identity,
            is_event_stream: reached.kind.as_deref() == Some("sse"),
        })
    }

    /// Reads the servers of a `.mcp.json` one by one, so that an invalid one does not affect the others.
    ///
    /// # Errors
    /// A message, when the file is no valid JSON or has no object `mcpServers`.
    pub fn read_file(bytes: &[u8]) -> Result<Vec<Result<Self, ServerConfigError>>, String> {
        let file: Value = serde_json::from_slice(bytes).map_err(|error| format!("invalid JSON: {error}"))?;
        let servers = file.get("mcpServers").ok_or("it has no `mcpServers`")?;
        let servers = servers.as_object().ok_or("`mcpServers` is no object")?;
        Ok(servers.iter().map(|(name, definition)| Self::read(name, definition)).collect())
    }

    /// Keys that a definition may have.
    pub const KEYS: [&str; 22] = [
        "allow_tools",
        "alwaysLoad",
        "args",
        "command",
        "cwd",
        "deny_tools",
        "disabled",
        "disclosure",
        "enabled",
        "env",
        "headers",
        "oauth",
        "pin",
        "read_only",
        "sampling",
        "skills",
        "start_timeout",
        "timeout",
        "tool_timeouts",
        "trust",
        "type",
        "url",
    ];

    /// Returns the unknown keys of the definition, which have no effect.
    pub fn unknown_keys(&self) -> impl Iterator<Item = &str> {
        let keys = self.definition.0.as_object().into_iter().flat_map(Map::keys);
        keys.map(String::as_str).filter(|key| !Self::KEYS.contains(key))
    }

    /// Returns the definition as written, as canonical JSON, for a person to approve.
    #[must_use]
    pub fn definition(&self) -> Vec<u8> {
        canonical(&self.definition.0)
    }

    /// Digest that identifies the server independently of its name: of program and arguments, or address, as
    /// written. Values of variables and headers are excluded, since they are often secrets that change.
    #[must_use]
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// Returns the key of its accepted list of tools: a digest of name and identity. Two servers with the
    /// same command may have different variables, and different tools.
    #[must_use]
    pub fn pin_key(&self) -> String {
        sha256_hex(&canonical(&json!({ "name": self.name, "server": self.identity })))
    }

    /// Expands the variables in the configuration; a variable that is not set stays as written.
    #[must_use]
    pub fn expanded(mut self, lookup: &dyn Fn(&str) -> Option<String>) -> Self {
        let texts = |texts: &mut SecretValues| texts.replace(|text| expand(text, lookup));
        match &mut self.transport {
            ServerTransport::Stdio { command, args, env, cwd } => {
                *command = expand(command, lookup);
                args.iter_mut().chain(cwd).for_each(|text| *text = expand(text, lookup));
                texts(env);
            }
            ServerTransport::Http { url, headers } => {
                *url = expand(url, lookup);
                texts(headers);
                let OAuthConfig { client_id, client_secret, issuer, client_metadata_url, .. } =
                    &mut self.oauth;
                for text in [client_id, client_secret, issuer, client_metadata_url].into_iter().flatten() {
                    *text = expand(text, lookup);
                }
            }
        }
        self
    }

    /// Returns the values that are probably secret: headers, and variables whose names suggest a secret.
    pub fn secrets(&self) -> impl Iterator<Item = &str> {
        let words = ["KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL", "AUTH"];
        let is_secret = move |name: &str| words.iter().any(|word| name.to_ascii_uppercase().contains(word));
        let (named, headers) = match &self.transport {
            ServerTransport::Stdio { env, .. } => (Some(env), None),
            ServerTransport::Http { headers, .. } => (None, Some(headers)),
        };
        let named = named.into_iter().flat_map(SecretValues::iter).filter(move |(name, _)| is_secret(name));
        let all = named.chain(headers.into_iter().flat_map(SecretValues::iter));
        let values = all.map(|(_, value)| value.strip_prefix("Bearer ").unwrap_or(value));
        values.chain(self.oauth.client_secret.as_deref())
    }

    /// Whether a person can sign in to the server: it uses HTTP, and its settings have no header
    /// `Authorization`.
    #[must_use]
    pub fn takes_sign_in(&self) -> bool {
        match &self.transport {
            ServerTransport::Stdio { .. } => false,
            ServerTransport::Http { headers, .. } => {
                headers.names().all(|name| !name.eq_ignore_ascii_case("authorization"))
            }
        }
    }

    /// Describes the server in one line for a person: the command line or the address, without values of
    /// variables and headers.
    #[must_use]
    pub fn summary(&self) -> String {
        match &self.transport {
            ServerTransport::Stdio { command, args, .. } => {
                let words = std::iter::once(command).chain(args);
                words.map(String::as_str).collect::<Vec<_>>().join(" ")
            }
            ServerTransport::Http { url, .. } => url.clone(),
        }
    }
}

impl WrittenTransport {
    fn transport(&self) -> Result<ServerTransport, &'static str> {
        let kind = self.kind.as_deref();
        match (kind, &self.command, &self.url) {
            (None | Some("stdio"), Some(command), None) if !command.trim().is_empty() => {
                Ok(ServerTransport::Stdio {
                    command: command.clone(),
                    args: self.args.clone(),
                    env: self.env.clone().into_iter().collect(),
                    cwd: self.cwd.clone(),
                })
            }
            (None | Some("http" | "streamable-http" | "streamableHttp" | "sse"), None, Some(url)) => {
                let headers = self.headers.clone().into_iter().collect();
                Ok(ServerTransport::Http { url: url.clone(), headers })
            }
            (_, Some(_), Some(_)) => Err("it has both a `command` and a `url`; keep one of them"),
            (_, None, None) => Err("it needs a `command` (a program) or a `url` (an address)"),
            (_, _, _) => Err("its `type` must be `stdio` with a `command`, or `http` or `sse` with a `url`"),
        }
    }
}

/// Returns the key among `env` and `headers` that is no table of texts. Its values are not quoted in the
/// error, since they may be keys.
fn key_that_is_no_table_of_texts(definition: &Value) -> Option<&'static str> {
    ["env", "headers"].into_iter().find(|key| {
        definition
            .get(key)
            .is_some_and(|value| !value.as_object().is_some_and(|table| table.values().all(Value::is_string)))
    })
}
