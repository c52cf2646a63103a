use std::collections::BTreeSet;

use crate::config::canonical::sha256_hex;

/// Length limit of a tool name that every provider accepts, in bytes.
const MAX_TOOL_NAME_BYTES: usize = 64;
/// Length limit of a server name in bytes, which leaves room for the tool.
const MAX_SERVER_NAME_BYTES: usize = 32;

/// Length limit of the name of a bundle's server in bytes.
const MAX_BUNDLE_SERVER_NAME_BYTES: usize = 160;

/// Beginning of the names of servers that a bundle brings: `plugin:BUNDLE:SERVER`.
const OF_BUNDLE: &str = "plugin:";

/// Whether the name is valid for a server.
pub(crate) fn is_server_name(name: &str) -> bool {
    (1..=MAX_SERVER_NAME_BYTES).contains(&name.len())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
}

/// Whether the name is valid for a server of a bundle.
pub(crate) fn is_bundle_server_name(name: &str) -> bool {
    let is_usable = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let parts = name.strip_prefix(OF_BUNDLE).and_then(|rest| rest.split_once(':'));
    let is_part = |part: &str| !part.is_empty() && part.chars().all(is_usable);
    name.len() <= MAX_BUNDLE_SERVER_NAME_BYTES
        && parts.is_some_and(|(bundle, server)| is_part(bundle) && is_part(server))
}

/// Name of a server in the names of its tools: characters that no tool's name has become `_`, and a long name ends with
/// a part of its hash.
pub(super) fn name_in_tools(server: &str) -> String {
    let usable = |c: char| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '_' };
    let plain: String = server.chars().map(usable).collect();
    if plain.len() <= MAX_SERVER_NAME_BYTES {
        return plain;
    }
    let hash: String = sha256_hex(server.as_bytes()).chars().take(8).collect();
    let kept: String = plain.chars().take(MAX_SERVER_NAME_BYTES - 1 - hash.len()).collect();
    format!("{kept}_{hash}")
}

/// Returns the canonical name of the tool `tool` of `server`: `mcp_{server}_{tool}`. Characters other than
/// letters, digits, `-` and `_` become `_`. A name that is changed, too long or already `taken` ends with a
/// part of its hash, which is stable across starts.
pub(crate) fn tool_name(server: &str, tool: &str, taken: &BTreeSet<String>) -> String {
    let plain: String = tool
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '_' })
        .collect();
    let name = format!("mcp_{}_{plain}", name_in_tools(server));
    if plain == tool && !plain.is_empty() && name.len() <= MAX_TOOL_NAME_BYTES && !taken.contains(&name) {
        return name;
    }
    let hash: String = sha256_hex(tool.as_bytes()).chars().take(8).collect();
    let kept: String = name.chars().take(MAX_TOOL_NAME_BYTES - 1 - hash.len()).collect();
    format!("{kept}_{hash}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_legal_everywhere_and_different_for_different_tools() {
        let long = "x".repeat(80);
        let mut taken = BTreeSet::new();
        for tool in ["read", "read.file", "read file", "read_file", "ünïcode", "", &long, &format!("{long}y")]
        {
            let name = tool_name("docs", tool, &taken);
            assert!(name.starts_with("mcp_docs_") && name.len() <= MAX_TOOL_NAME_BYTES, "{name}");
            assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_'), "{name}");
            assert!(taken.insert(name), "{tool}");
        }
        assert!(taken.contains("mcp_docs_read") && taken.contains("mcp_docs_read_file"));
    }

    #[test]
    fn tools_of_a_bundles_server_have_its_name_and_that_of_the_bundle() {
        let name = |server: &str| tool_name(server, "ping", &BTreeSet::new());
        assert_eq!(name("plugin:demo:srv"), "mcp_plugin_demo_srv_ping");
        let long = name(&format!("plugin:{}:srv", "long".repeat(12)));
        assert!(long.ends_with("_ping") && long.len() <= MAX_TOOL_NAME_BYTES, "{long}");
        for (server, is) in [
            ("plugin:demo:srv", true),
            ("plugin:a.b-c_d:x.y", true),
            ("plugin:demo", false),
            ("plugin::srv", false),
            ("plugin:demo:a:b", false),
            ("plugin:demo:a b", false),
            ("other:demo:srv", false),
        ] {
            assert_eq!(is_bundle_server_name(server), is, "{server}");
        }
    }

    #[test]
    fn a_server_cannot_take_the_name_of_a_tool_of_another_one() {
        // `a` with the tool `b_c`, and `a_b` with the tool `c`.
        let taken = BTreeSet::from([tool_name("a", "b_c", &BTreeSet::new())]);
        let other = tool_name("a_b", "c", &taken);
        assert!(other.starts_with("mcp_a_b_c_"), "{other}");
    }
}
