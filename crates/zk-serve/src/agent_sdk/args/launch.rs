use serde_json::{Map, Value, json};

use super::{Given, HostRule, SdkArgs, zk_tools};

/// Model names of hosts that stand for the conversation's own model.
pub(crate) const FAMILIES: [&str; 4] = ["haiku", "inherit", "opus", "sonnet"];

/// Tools of zk that are disabled because the SDK has its own.
const REPLACED: [&str; 2] = ["ask_user", "present_plan"];

/// Converts arguments and first request to settings of zk.
///
/// # Errors
/// A sentence about a value that cannot be used.
pub(crate) fn launch_settings(args: &SdkArgs, given: &Given) -> Result<Map<String, Value>, String> {
    let mut set = Map::new();
    let mut put = |key: &str, value: Value| _ = set.insert(key.to_owned(), value);
    let model = args.text("model").or(given.model.as_deref()).or(given.settings.model.as_deref());
    if let Some(model) = model.filter(|model| !matches!(*model, "" | "default")) {
        put("model", model.into());
    }
    if let Some(system) = &given.system {
        put("system", system.as_str().into());
    }
    if let Some(appended) = &given.append {
        put("append_system", appended.as_str().into());
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
    let mode = host_mode(args, given);
    if given.settings.keeps_asking && mode == "bypassPermissions" {
        return Err("bypassPermissions cannot be used: the settings of the host forbid it \
                    (`disableBypassPermissionsMode`)"
            .to_owned());
    }
    // A plan begins once the conversation is open.
    let begins = match zk_mode(mode).ok_or_else(|| unknown_mode(mode))? {
        PLAN => "ask",
        mode => mode,
    };
    put("permissions.mode", begins.into());
    let mut rules = args.list("allowedTools");
    rules.extend(args.list("allowed-tools"));
    let mut allow: Vec<String> = rules.iter().flat_map(|rule| HostRule::read(rule).allowed()).collect();
    allow.extend(given.settings.allow.iter().cloned());
    if !allow.is_empty() {
        put("permissions.allow", allow.into());
    }
    if !given.settings.ask.is_empty() {
        put("permissions.ask", given.settings.ask.clone().into());
    }
    let (mut hidden, mut deny) = refused(&given.disallowed);
    deny.extend(given.settings.deny.iter().cloned());
    hidden.extend(REPLACED.map(str::to_owned));
    put("tools.disallowed", hidden.into());
    if !deny.is_empty() {
        put("permissions.deny", deny.into());
    }
    if let Some(tools) = &given.tools {
        let mut names: Vec<String> = tools.iter().flat_map(|name| zk_tools(name)).collect();
        names.push("mcp_*".to_owned());
        put("tools.allowed", names.into());
    }
    if args.has("no-session-persistence") {
        put("sessions", false.into());
    }
    for (name, server) in mcp_servers(&given.servers) {
        put(&format!("mcp.servers.{name}"), server);
    }
    Ok(set)
}

/// Returns the SDK's name of the initial permission mode.
pub(crate) fn host_mode<'a>(args: &'a SdkArgs, given: &'a Given) -> &'a str {
    let skips = args.has("dangerously-skip-permissions");
    let of_settings = given.settings.mode.as_deref();
    let by_switch = skips.then_some("bypassPermissions").or(of_settings);
    args.text("permission-mode").or(by_switch).unwrap_or("default")
}

fn unknown_mode(mode: &str) -> String {
    format!(
        "there is no permission mode {mode}: acceptEdits, auto, bypassPermissions, default, dontAsk, plan"
    )
}

/// Name of plan mode, here and in the SDK.
pub(crate) const PLAN: &str = "plan";

/// Converts the SDK's name of a permission mode to zk's.
pub(crate) fn zk_mode(mode: &str) -> Option<&'static str> {
    Some(match mode {
        "default" | "dontAsk" | "manual" => "ask",
        PLAN => PLAN,
        "acceptEdits" => "accept-edits",
        "auto" => "auto",
        "bypassPermissions" => "all",
        _ => return None,
    })
}

/// Splits a list of disallowed tools into hidden tools and rules that refuse calls.
fn refused(names: &[String]) -> (Vec<String>, Vec<String>) {
    let (mut hidden, mut deny) = (Vec::new(), Vec::new());
    for rule in names.iter().map(|name| HostRule::read(name)) {
        let own = rule.whole_tool().map(zk_tools).unwrap_or_default();
        hidden.extend(
            own.into_iter().filter(|tool| !tool.starts_with("mcp_") && !tool.starts_with(char::is_uppercase)),
        );
        deny.extend(rule.restriction_rules().unwrap_or_default());
    }
    (hidden, deny)
}

/// Converts the definitions of MCP servers outside of the host to settings of zk, by name.
fn mcp_servers(servers: &Map<String, Value>) -> Map<String, Value> {
    let mut found = Map::new();
    for (name, server) in servers {
        let Value::Object(fields) = server else { continue };
        if fields.get("type").is_some_and(|kind| kind == "sdk") {
            continue;
        }
        const KEYS: [&str; 6] = ["type", "command", "args", "env", "url", "headers"];
        let known = fields.iter().filter(|(key, _)| KEYS.contains(&key.as_str()));
        let mut server: Map<String, Value> = known.map(|(key, value)| (key.clone(), value.clone())).collect();
        // The program that record_prompt_to zk chose the server, so it counts as trusted.
        server.insert("trust".to_owned(), "trusted".into());
        found.insert(name.clone(), Value::Object(server));
    }
    found
}

/// Returns the names of the MCP servers that run inside the host.
pub(crate) fn sdk_servers(given: &Given, first: &Value) -> Vec<String> {
    let of_host =
        given.servers.iter().filter(|(_, server)| server.get("type").is_some_and(|kind| kind == "sdk"));
    let mut names: Vec<String> = of_host.map(|(name, _)| name.clone()).collect();
    let told = first.get("sdkMcpServers").and_then(Value::as_array).into_iter().flatten();
    for name in told.filter_map(Value::as_str) {
        if !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use zk_exec::LocalHostFiles;

    use super::super::given::Files;
    use super::*;

    fn given(args: &SdkArgs, first: &Value) -> Result<Given, String> {
        let files = LocalHostFiles::default();
        Given::read(args, first, &Files { files: &files, cwd: std::path::Path::new("/p") })
    }

    fn set(words: &[&str], first: &Value) -> Map<String, Value> {
        let args = SdkArgs::read(words.iter().map(ToString::to_string));
        launch_settings(&args, &given(&args, first).unwrap()).unwrap()
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
        assert_eq!(set["tools.disallowed"], json!(["write_file", "ask_user", "present_plan"]));
        assert_eq!(set["permissions.deny"], json!(["tool(write_file)", "rm", "rm **"]));
        assert_eq!(set["tools.allowed"], json!(["mcp_*"]));
        assert_eq!(set["max_budget_usd"], json!(1e-7));
    }

    #[test]
    fn servers_of_the_host_are_distinguished_from_started_programs() {
        let config =
            r#"{"mcpServers":{"own":{"type":"sdk","name":"own"},"far":{"type":"http","url":"http://x"}}}"#;
        let args = SdkArgs::read(["--mcp-config".to_owned(), config.to_owned()]);
        let first = json!({"sdkMcpServers": ["own", "two"]});
        let read = given(&args, &first).unwrap();
        assert_eq!(sdk_servers(&read, &first), ["own", "two"]);
        let far = json!({"type": "http", "url": "http://x", "trust": "trusted"});
        assert_eq!(Value::Object(mcp_servers(&read.servers)), json!({"far": far}));
        let broken = SdkArgs::read(["--mcp-config={".to_owned()]);
        assert!(given(&broken, &Value::Null).unwrap_err().contains("no JSON"));
    }
}
