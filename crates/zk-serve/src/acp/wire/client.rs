use serde::Deserialize;
use serde_json::{Value, json};

use super::error::RpcError;

/// Version of the protocol that is spoken.
const PROTOCOL_VERSION: u64 = 1;

/// Abilities that the editor named. Nothing else is requested of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::acp) struct Client {
    pub(in crate::acp) reads_files: bool,
    pub(in crate::acp) writes_files: bool,
    /// Whether the editor shows notices apart from messages.
    pub(in crate::acp) shows_notices: bool,
    /// Whether the editor shows forms with text fields.
    pub(in crate::acp) shows_forms: bool,
    /// Whether the editor can run a sign-in in a terminal.
    pub(in crate::acp) signs_in_by_terminal: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Initialize {
    #[serde(rename = "protocolVersion")]
    _protocol_version: u16,
    #[serde(default)]
    client_capabilities: Value,
}

impl Client {
    /// Reads the first request.
    ///
    /// # Errors
    /// When it names no version as an integer.
    pub(in crate::acp) fn read(params: &Value) -> Result<Self, RpcError> {
        let initialize = Initialize::deserialize(params)
            .map_err(|error| RpcError::params(format!("initialize: {error}")))?;
        let has = |pointer: &str| match initialize.client_capabilities.pointer(pointer) {
            Some(Value::Bool(is)) => *is,
            Some(Value::Object(_)) => true,
            _ => false,
        };
        Ok(Self {
            reads_files: has("/fs/readTextFile"),
            writes_files: has("/fs/writeTextFile"),
            shows_notices: has("/session/notices"),
            shows_forms: has("/elicitation/form"),
            signs_in_by_terminal: has("/auth/terminal"),
        })
    }

    /// Returns the answer to the first request: name, version and abilities of this program.
    pub(in crate::acp) fn answer(self, version: &str) -> Value {
        let mut methods = vec![json!({
            "id": KEYS_METHOD,
            "name": "Keys and sign-ins of zk",
            "description": "Run `zk auth login` in a terminal, or set the variable of a provider's key",
        })];
        if self.signs_in_by_terminal {
            methods.push(json!({
                "type": "terminal",
                "id": TERMINAL_METHOD,
                "name": "Sign in with zk",
                "description": "Choose a provider, and store its key or sign in",
                "args": ["auth", "login"],
            }));
        }
        json!({
            "protocolVersion": PROTOCOL_VERSION,
            "agentInfo": { "name": "zk", "title": "zk", "version": version },
            "agentCapabilities": {
                "loadSession": true,
                "promptCapabilities": { "image": true, "audio": false, "embeddedContext": true },
                "mcpCapabilities": { "http": true, "sse": false },
                "sessionCapabilities": {
                    "list": {}, "resume": {}, "close": {}, "delete": {}, "fork": {}, "additionalDirectories": {},
                },
                "auth": { "logout": {} },
            },
            "authMethods": methods,
        })
    }
}

/// Authentication method outside of the editor.
pub(in crate::acp) const KEYS_METHOD: &str = "zk-keys";

/// Authentication method that the editor runs in a terminal.
pub(in crate::acp) const TERMINAL_METHOD: &str = "zk-auth-login";
