/// Prefix of the names of MCP servers' tools.
pub const SERVER_TOOL_PREFIX: &str = "mcp_";

/// Returns the names that other agents give to a tool of an MCP server: `mcp_a_b_c` is `mcp__a__b_c` or
/// `mcp__a_b__c` there, as a server name may contain a `_`. Empty for other tools.
///
/// Rules, lists and hooks written for those agents use such names.
pub fn foreign_server_names(tool: &str) -> impl Iterator<Item = String> {
    let name = tool.strip_prefix(SERVER_TOOL_PREFIX).unwrap_or_default();
    name.match_indices('_').filter_map(move |(at, _)| {
        let (server, tool) = (name.get(..at)?, name.get(at + 1..)?);
        (!server.is_empty() && !tool.is_empty()).then(|| format!("mcp__{server}__{tool}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_may_end_at_each_underscore() {
        let names = |tool| foreign_server_names(tool).collect::<Vec<_>>();
        assert_eq!(names("mcp_git_hub_push"), ["mcp__git__hub_push", "mcp__git_hub__push"]);
        assert_eq!(names("mcp_docs_read"), ["mcp__docs__read"]);
        for none in ["shell", "mcp_", "mcp_docs", "mcp__x", "mcp_docs_"] {
            assert_eq!(names(none), Vec::<String>::new(), "{none}");
        }
    }
}
