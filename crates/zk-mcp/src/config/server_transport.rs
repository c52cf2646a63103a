use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::config::canonical::{canonical, sha256_hex};
use crate::config::secret_values::SecretValues;

/// Default time limit from the start of a program to its list of tools; `npx` and similar tools download the
/// program first.
const START_OF_PROGRAM: Duration = Duration::from_secs(30);
/// Default time limit to the list of tools of a server over HTTP, which is already running.
const START_BY_HTTP: Duration = Duration::from_secs(10);

/// Transport to a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerTransport {
    /// A program on this machine that uses its standard input and output.
    Stdio {
        /// Name or path of the program.
        command: String,
        /// Arguments of the program.
        args: Vec<String>,
        /// Environment variables besides the allow-listed ones.
        env: SecretValues,
        /// Working directory of the program; `None` for the project.
        cwd: Option<String>,
    },
    /// Streamable HTTP, or the older transport with a stream of events.
    Http {
        /// URL of the server.
        url: String,
        /// Headers of every request.
        headers: SecretValues,
    },
}

impl ServerTransport {
    /// Returns the transport's name: `stdio` or `http`.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Stdio { .. } => "stdio",
            Self::Http { .. } => "http",
        }
    }

    /// Returns the default time limit for the start of such a server.
    pub(crate) fn usual_start(&self) -> Duration {
        match self {
            Self::Stdio { .. } => START_OF_PROGRAM,
            Self::Http { .. } => START_BY_HTTP,
        }
    }

    /// Returns a digest that identifies the server, without values of variables and headers.
    pub(crate) fn identity(&self) -> String {
        let what = match self {
            Self::Stdio { command, args, env, cwd } => {
                let names: Vec<&str> = env.names().collect();
                json!({ "command": command, "args": args, "env": names, "cwd": cwd })
            }
            Self::Http { url, headers } => {
                let names: Vec<&str> = headers.names().collect();
                json!({ "url": url, "headers": names })
            }
        };
        sha256_hex(&canonical(&what))
    }
}

/// Returns the definition for settings and `.mcp.json`, with values of variables and headers.
#[must_use]
pub fn definition_of(transport: &ServerTransport) -> Map<String, Value> {
    let mut definition = Map::new();
    match transport {
        ServerTransport::Stdio { command, args, env, cwd } => {
            definition.insert("command".into(), json!(command));
            if !args.is_empty() {
                definition.insert("args".into(), json!(args));
            }
            if !env.is_empty() {
                definition.insert("env".into(), json!(env.iter().collect::<BTreeMap<_, _>>()));
            }
            definition.extend(cwd.iter().map(|cwd| ("cwd".to_owned(), json!(cwd))));
        }
        ServerTransport::Http { url, headers } => {
            definition.insert("type".into(), json!("http"));
            definition.insert("url".into(), json!(url));
            if !headers.is_empty() {
                definition.insert("headers".into(), json!(headers.iter().collect::<BTreeMap<_, _>>()));
            }
        }
    }
    definition
}
