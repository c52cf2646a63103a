use serde_json::Value;

use super::SdkArgs;

/// Effect of a flag, or of a field of the first request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Served as the SDKs document it.
    Served,
    /// Ignored silently: there is nothing to act on here, and the flag does not restrict the agent.
    Unneeded,
    /// Ignored; the host gets a notice with this reason.
    Told(&'static str),
    /// Refused at the start with this reason: without the flag, the agent could do something that the host
    /// forbade.
    Refused(&'static str),
}

/// Flags of the published SDKs, and of their examples and tests.
pub(crate) const FLAGS: [(&str, Effect); 58] = [
    ("add-dir", Effect::Served),
    ("agent", Effect::Served),
    ("allow-dangerously-skip-permissions", Effect::Served),
    ("allowed-tools", Effect::Served),
    ("allowedTools", Effect::Served),
    ("append-system-prompt", Effect::Served),
    ("append-system-prompt-file", Effect::Served),
    ("await-initialize", Effect::Unneeded),
    ("betas", Effect::Told("zk asks a provider for what its own settings say")),
    ("channels", Effect::Told("zk has no channels")),
    ("continue", Effect::Served),
    ("dangerously-skip-permissions", Effect::Served),
    ("debug", Effect::Unneeded),
    ("debug-file", Effect::Unneeded),
    ("debug-to-stderr", Effect::Served),
    ("disallowed-tools", Effect::Served),
    ("disallowedTools", Effect::Served),
    ("effort", Effect::Served),
    ("fallback-model", Effect::Told("zk stays with the model of the conversation")),
    ("fork-session", Effect::Served),
    ("include-hook-events", Effect::Served),
    ("include-partial-messages", Effect::Served),
    ("initialize-fields", Effect::Unneeded),
    ("input-format", Effect::Served),
    ("json-schema", Effect::Served),
    ("managed-settings", Effect::Served),
    ("managed-settings-in-initialize", Effect::Unneeded),
    ("max-budget-usd", Effect::Served),
    ("max-thinking-tokens", Effect::Served),
    ("max-turns", Effect::Served),
    ("mcp-config", Effect::Served),
    ("model", Effect::Served),
    ("no-session-persistence", Effect::Served),
    ("output-format", Effect::Unneeded),
    ("permission-mode", Effect::Served),
    ("permission-prompt-tool", Effect::Served),
    ("permission-prompts", Effect::Served),
    ("plugin-dir", Effect::Served),
    (
        "plugin-dir-no-mcp",
        Effect::Refused("zk uses a plugin with its MCP servers: leave `skipMcpDiscovery` out, or the plugin"),
    ),
    ("print", Effect::Unneeded),
    ("project-config-root", Effect::Told("zk reads a project's settings where it works")),
    ("replay-user-messages", Effect::Served),
    ("resume", Effect::Served),
    ("resume-drops-turn", Effect::Served),
    ("resume-session-at", Effect::Served),
    ("sdk-url", Effect::Refused("zk serves an SDK at its standard input and output")),
    ("session-id", Effect::Served),
    ("session-mirror", Effect::Served),
    ("setting-sources", Effect::Served),
    ("settings", Effect::Served),
    ("strict-mcp-config", Effect::Served),
    ("system-prompt", Effect::Served),
    ("system-prompt-file", Effect::Served),
    (
        "task-budget",
        Effect::Told("zk has no budget of tokens for a task; `max_budget_usd` limits what it costs"),
    ),
    ("thinking", Effect::Served),
    ("thinking-display", Effect::Told("zk shows reasoning as the provider gives it")),
    ("tools", Effect::Served),
    ("verbose", Effect::Unneeded),
];

/// Fields of the first request that have no effect although a host may rely on them.
pub(crate) const FIELDS: [(&str, Effect); 6] = [
    ("appendSubagentSystemPrompt", Effect::Told("sub-agents have the prompts of their definitions")),
    ("outputStyle", Effect::Told("zk has no output styles")),
    ("planModeInstructions", Effect::Told("zk tells the model of plan mode in its own words")),
    ("skills", Effect::Told("skills are those that the person approved; `disallowed_tools` refuses `Skill`")),
    ("toolAliases", Effect::Told("tools have their own names")),
    ("webSearchIsolationExemptMcpServers", Effect::Told("zk does not isolate web searches")),
];

/// Returns the effect of a flag; `None` for an unknown flag.
pub(crate) fn effect(flag: &str) -> Option<Effect> {
    FLAGS.iter().find(|(name, _)| *name == flag).map(|(_, effect)| *effect)
}

/// Checks all flags and fields of a host. Returns notices for the host.
///
/// # Errors
/// A sentence about a flag that cannot be left without effect, or a value that cannot be used.
pub(crate) fn check(args: &SdkArgs, first: &Value) -> Result<Vec<String>, String> {
    let mut told = Vec::new();
    for flag in args.values.keys() {
        match effect(flag) {
            Some(Effect::Served | Effect::Unneeded) => {}
            Some(Effect::Told(why)) => told.push(format!("--{flag} has no effect: {why}")),
            Some(Effect::Refused(why)) => return Err(format!("--{flag} cannot be used: {why}")),
            None => told.push(format!("--{flag} has no effect: zk does not know it")),
        }
    }
    let fields = FIELDS.iter().filter(|(field, _)| first.get(field).is_some_and(|value| !value.is_null()));
    told.extend(fields.filter_map(|(field, effect)| match effect {
        Effect::Told(why) => Some(format!("`{field}` has no effect: {why}")),
        Effect::Served | Effect::Unneeded | Effect::Refused(_) => None,
    }));
    check_number::<u32>(args, "max-turns")?;
    check_number::<u32>(args, "max-thinking-tokens")?;
    check_number::<f64>(args, "max-budget-usd")?;
    if let Some(schema) = args.text("json-schema")
        && !serde_json::from_str::<Value>(schema).is_ok_and(|schema| schema.is_object())
    {
        return Err("--json-schema is no JSON object".to_owned());
    }
    Ok(told)
}

fn check_number<T: std::str::FromStr>(args: &SdkArgs, flag: &str) -> Result<(), String> {
    match args.text(flag) {
        Some(text) if text.parse::<T>().is_err() => Err(format!("--{flag} {text}: this is no such number")),
        None if args.has(flag) => Err(format!("--{flag} needs a number")),
        Some(_) | None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Flags of the Python SDK 0.2.188.
    const PYTHON: &str = "output-format verbose system-prompt system-prompt-file append-system-prompt tools allowedTools max-turns \
        max-budget-usd disallowedTools task-budget model fallback-model betas permission-prompt-tool permission-mode continue resume \
        session-id settings add-dir mcp-config include-partial-messages include-hook-events strict-mcp-config fork-session \
        resume-session-at resume-drops-turn session-mirror setting-sources plugin-dir thinking max-thinking-tokens thinking-display \
        effort json-schema input-format";

    /// Flags of the TypeScript SDK 0.3.331.
    const TYPESCRIPT: &str = "output-format verbose input-format thinking max-thinking-tokens thinking-display effort max-turns \
        max-budget-usd task-budget model agent betas json-schema debug-file debug permission-prompt-tool permission-prompts continue \
        resume channels allowedTools disallowedTools tools mcp-config setting-sources strict-mcp-config permission-mode \
        allow-dangerously-skip-permissions fallback-model include-hook-events include-partial-messages session-mirror \
        project-config-root add-dir await-initialize plugin-dir-no-mcp plugin-dir fork-session resume-session-at resume-drops-turn \
        session-id no-session-persistence initialize-fields managed-settings-in-initialize managed-settings settings sdk-url";

    #[test]
    fn every_flag_of_the_published_sdks_has_an_effect_and_a_row_of_the_documentation() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/agent-sdk.md");
        let page = std::fs::read_to_string(page).unwrap();
        for flag in PYTHON.split_whitespace().chain(TYPESCRIPT.split_whitespace()) {
            assert!(effect(flag).is_some(), "{flag}");
        }
        for (flag, effect) in FLAGS {
            let (kind, why) = match effect {
                Effect::Served => ("served", ""),
                Effect::Unneeded => ("accepted", ""),
                Effect::Told(why) => ("told", why),
                Effect::Refused(why) => ("refused", why),
            };
            assert!(page.contains(&format!("| `--{flag}` | {kind}: {why}")), "{flag}: {kind}: {why}");
        }
        let listed = page.lines().filter(|line| line.starts_with("| `--")).count();
        assert_eq!(listed, FLAGS.len());
        assert!(FLAGS.is_sorted_by_key(|(flag, _)| flag.to_lowercase()));
    }
}
