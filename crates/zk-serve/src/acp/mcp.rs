use super::wire::RpcError;
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// Most bytes of the name of a server.
const MAX_NAME_BYTES: usize = 32;

/// A server as an editor names it.
#[derive(Deserialize)]
struct Named {
    name: String,
    #[serde(rename = "type")]
    kind: Option<String>,
    command: Option<String>,
    #[serde(default)]
    args: Option<Vec<String>>,
    #[serde(default)]
    env: Option<Vec<Pair>>,
    url: Option<String>,
    #[serde(default)]
    headers: Option<Vec<Pair>>,
}

#[derive(Deserialize)]
struct Pair {
    name: String,
    value: String,
}

/// Settings of the editor's MCP servers, which are started beside the person's.
pub(super) fn settings(servers: &[Value]) -> Result<Map<String, Value>, RpcError> {
    let mut settings = Map::new();
    for server in servers {
        let named =
            Named::deserialize(server).map_err(|error| RpcError::params(format!("mcpServers: {error}")))?;
        let name = free_name(&named.name, &settings);
        settings.insert(settings_key(&name), to_definition(named)?);
    }
    Ok(settings)
}

fn settings_key(name: &str) -> String {
    format!("mcp.servers.{name}")
}

fn to_definition(named: Named) -> Result<Value, RpcError> {
    let table = |pairs: Option<Vec<Pair>>| {
        let pairs = pairs.unwrap_or_default().into_iter();
        pairs.map(|pair| (pair.name, Value::String(pair.value))).collect::<Map<_, _>>()
    };
    match (named.kind.as_deref(), named.command, named.url) {
        (None | Some("stdio"), Some(command), _) => {
            let args = named.args.unwrap_or_default();
            Ok(json!({ "command": command, "args": args, "env": table(named.env) }))
        }
        (Some("http"), _, Some(url)) => {
            Ok(json!({ "type": "http", "url": url, "headers": table(named.headers) }))
        }
        (kind, ..) => Err(RpcError::params(format!(
            "the MCP server `{}` cannot be used: zk takes a command, or `http` with a `url`, and not `{}`",
            named.name,
            kind.unwrap_or("neither of them"),
        ))),
    }
}

/// Returns an unused server name that is valid as the beginning of tool names.
fn free_name(wanted: &str, taken: &Map<String, Value>) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '-' };
    let mut name: String = wanted.chars().map(plain).take(MAX_NAME_BYTES - 4).collect();
    if name.is_empty() {
        "editor".clone_into(&mut name);
    }
    let mut free = name.clone();
    let mut number = 2;
    while taken.contains_key(&settings_key(&free)) {
        free = format!("{name}-{number}");
        number += 1;
    }
    free
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_of_an_editor_become_settings_under_names_that_tools_can_have() {
        let servers = [
            json!({ "name": "my files", "command": "/bin/x", "args": ["a"], "env": [{ "name": "K", "value": "v" }] }),
            json!({ "name": "my.files", "command": "/bin/y", "args": [], "env": [] }),
            json!({ "name": "web", "type": "http", "url": "http://h/", "headers": [] }),
        ];
        let expected = json!({
            "mcp.servers.my-files": { "command": "/bin/x", "args": ["a"], "env": { "K": "v" } },
            "mcp.servers.my-files-2": { "command": "/bin/y", "args": [], "env": {} },
            "mcp.servers.web": { "type": "http", "url": "http://h/", "headers": {} },
        });
        assert_eq!(Value::Object(settings(&servers).unwrap()), expected);
    }

    #[test]
    fn a_server_that_cannot_be_reached_is_refused_by_its_name() {
        let server = json!({ "name": "old", "type": "sse", "url": "http://h/", "headers": [] });
        let refused = settings(&[server]).unwrap_err();
        assert!(refused.code == RpcError::PARAMS && refused.message.contains("`old`"), "{refused}");
        assert!(settings(&[json!({ "command": "x" })]).is_err());
    }
}
