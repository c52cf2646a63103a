use serde_json::{Map, Value, json};

use super::{HostRule, SdkArgs, zk_tools};

/// Settings under zk's keys that arguments and the first request ask for.
///
/// # Errors
/// A sentence about a value that cannot be used.
pub(crate) fn launch_settings(args: &SdkArgs, first: &Value) -> Result<Map<String, Value>, String> {
    let mut set = Map::new();
    let mut put = |key: &str, value: Value| _ = set.insert(key.to_owned(), value);
    if let Some(model) = args.text("model").filter(|model| !matches!(*model, "" | "default")) {
        put("model", model.into());
    }
    if let Some(system) = system(args, first) {
        put("system", system.into());
    }
    let appended = args.text("append-system-prompt").or_else(|| first.get("appendSystemPrompt")?.as_str());
    if let Some(appended) = appended.filter(|text| !text.is_empty()) {
        put("append_system", appended.into());
    }
    if let Some(budget) = args.number::<f64>("max-budget-usd") {
        put("max_budget_usd", json!(budget));
    }
    match (args.text("thinking"), args.number::<u32>("max-thinking-tokens"), args.text("effort")) {
        (Some("disabled"), ..) | (_, Some(0), _) => put("thinking", "off".into()),
        (_, Some(tokens), _) => put("thinking_budget", tokens.into()),
        (_, None, Some(effort)) if !effort.is_empty() => put("thinking", effort.into()),
        (Some("adaptive"), ..) => put("thinking", "adaptive".into()),
        _ => {}
    }
    put("permissions.mode", zk_mode(mode(args)).ok_or_else(|| unknown_mode(mode(args)))?.into());
    let mut rules = args.list("allowedTools");
    rules.extend(args.list("allowed-tools"));
    let allow: Vec<String> = rules.iter().flat_map(|rule| HostRule::read(rule).zk_rules()).collect();
    if !allow.is_empty() {
        put("permissions.allow", allow.into());
    }
    let (hidden, deny) = refused(args);
    if !hidden.is_empty() {
        put("tools.disallowed", hidden.into());
    }
    if !deny.is_empty() {
        put("permissions.deny", deny.into());
    }
    if args.has("tools") && args.text("tools") != Some("default") {
        let mut names: Vec<String> = args.list("tools").iter().flat_map(|name| zk_tools(name)).collect();
        names.push("mcp_*".to_owned());
        put("tools.allowed", names.into());
    }
    if args.has("no-session-persistence") {
        put("sessions", false.into());
    }
    for (name, server) in mcp_servers(args, first)? {
        put(&format!("mcp.servers.{name}"), server);
    }
    Ok(set)
}

/// The permission mode under the SDK's name.
fn mode(args: &SdkArgs) -> &str {
    let skips = args.has("dangerously-skip-permissions");
    args.text("permission-mode").unwrap_or(if skips { "bypassPermissions" } else { "default" })
}

fn unknown_mode(mode: &str) -> String {
    format!(
        "there is no permission mode {mode}: acceptEdits, auto, bypassPermissions, default, dontAsk, plan"
    )
}

/// zk's name of a permission mode of the SDK. In `plan` calls that change something are asked about, as the SDK expects.
pub(crate) fn zk_mode(mode: &str) -> Option<&'static str> {
    Some(match mode {
        "default" | "dontAsk" | "plan" | "manual" => "ask",
        "acceptEdits" => "accept-edits",
        "auto" => "auto",
        "bypassPermissions" => "all",
        _ => return None,
    })
}

/// Tools that the model is not offered, and rules that refuse calls.
fn refused(args: &SdkArgs) -> (Vec<String>, Vec<String>) {
    let mut names = args.list("disallowedTools");
    names.extend(args.list("disallowed-tools"));
    let (mut hidden, mut deny) = (Vec::new(), Vec::new());
    for rule in names.iter().map(|name| HostRule::read(name)) {
        let own = rule.whole_tool().map(zk_tools).unwrap_or_default();
        hidden.extend(
            own.into_iter().filter(|tool| !tool.starts_with("mcp_") && !tool.starts_with(char::is_uppercase)),
        );
        deny.extend(rule.zk_rules());
    }
    (hidden, deny)
}

/// The system prompt in place of zk's own. An empty one means that there is none.
fn system(args: &SdkArgs, first: &Value) -> Option<String> {
    if let Some(text) = args.text("system-prompt") {
        return Some(text.to_owned());
    }
    match first.get("systemPrompt")? {
        Value::String(text) => Some(text.clone()),
        Value::Array(parts) => {
            let parts: Vec<&str> = parts.iter().filter_map(Value::as_str).collect();
            Some(parts.join("\n\n"))
        }
        _ => None,
    }
}

/// MCP servers of other programs, by name, with zk's keys.
///
/// # Errors
/// A sentence about a configuration that is no JSON.
fn mcp_servers(args: &SdkArgs, first: &Value) -> Result<Map<String, Value>, String> {
    let mut found = Map::new();
    for (name, server) in configured(args, first)? {
        let Value::Object(fields) = server else { continue };
        if fields.get("type").is_some_and(|kind| kind == "sdk") {
            continue;
        }
        const KEYS: [&str; 6] = ["type", "command", "args", "env", "url", "headers"];
        let known = fields.into_iter().filter(|(key, _)| KEYS.contains(&key.as_str()));
        let mut server: Map<String, Value> = known.collect();
        // Whoever drives zk chose it.
        server.insert("trust".to_owned(), "trusted".into());
        found.insert(name, Value::Object(server));
    }
    Ok(found)
}

/// Names of the servers that the host itself is.
pub(crate) fn sdk_servers(args: &SdkArgs, first: &Value) -> Vec<String> {
    let configured = configured(args, first).unwrap_or_default().into_iter();
    let mut names: Vec<String> = configured
        .filter(|(_, server)| server.get("type").is_some_and(|kind| kind == "sdk"))
        .map(|(name, _)| name)
        .collect();
    let told = first.get("sdkMcpServers").and_then(Value::as_array).into_iter().flatten();
    for name in told.filter_map(Value::as_str) {
        if !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }
    names
}

fn configured(args: &SdkArgs, first: &Value) -> Result<Map<String, Value>, String> {
    let mut all = Map::new();
    for text in args.all("mcp-config").iter().filter(|text| text.trim_start().starts_with('{')) {
        let config: Value =
            serde_json::from_str(text).map_err(|error| format!("--mcp-config is no JSON: {error}"))?;
        let servers = config.get("mcpServers").unwrap_or(&config);
        if let Value::Object(servers) = servers {
            all.extend(servers.clone());
        }
    }
    if let Some(Value::Object(servers)) = first.get("mcpServers") {
        all.extend(servers.clone());
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(words: &[&str], first: &Value) -> Map<String, Value> {
        launch_settings(&SdkArgs::read(words.iter().map(ToString::to_string)), first).unwrap()
    }

    #[test]
    fn options_are_settings_of_zk() {
        let set = set(
            &[
                "--model",
                "m",
                "--system-prompt",
                "",
                "--allowedTools",
                "Bash,Read",
                "--disallowedTools",
                "Write,Bash(rm:*)",
                "--max-budget-usd",
                "1e-07",
                "--permission-mode",
                "acceptEdits",
                "--tools",
                "",
            ],
            &Value::Null,
        );
        assert_eq!(set["system"], "");
        assert_eq!(set["permissions.mode"], "accept-edits");
        assert_eq!(set["permissions.allow"], json!(["tool(shell)", "tool(read_file)", "tool(list_files)"]));
        assert_eq!(set["tools.disallowed"], json!(["write_file"]));
        assert_eq!(set["permissions.deny"], json!(["tool(write_file)", "rm", "rm **"]));
        assert_eq!(set["tools.allowed"], json!(["mcp_*"]));
        assert_eq!(set["max_budget_usd"], json!(1e-7));
    }

    #[test]
    fn servers_of_the_host_are_told_from_those_of_programs() {
        let config =
            r#"{"mcpServers":{"own":{"type":"sdk","name":"own"},"far":{"type":"http","url":"http://x"}}}"#;
        let args = SdkArgs::read(["--mcp-config".to_owned(), config.to_owned()]);
        let first = json!({"sdkMcpServers": ["own", "two"]});
        assert_eq!(sdk_servers(&args, &first), ["own", "two"]);
        let far = json!({"type": "http", "url": "http://x", "trust": "trusted"});
        assert_eq!(Value::Object(mcp_servers(&args, &first).unwrap()), json!({"far": far}));
        let broken = SdkArgs::read(["--mcp-config={".to_owned()]);
        assert!(mcp_servers(&broken, &Value::Null).unwrap_err().contains("no JSON"));
    }
}
