use zk_core::service::SERVER_TOOL_PREFIX;
use zk_permission::{Rule, RuleBase};

/// Maximum number of letters in which a misspelt tool name differs from a known one.
const MAX_TOOL_ERRORS: usize = 2;

/// Tools that belong to a run or to a person, whoever registers them.
pub(crate) const TOOLS_OF_RUNS: [&str; 14] = [
    "agents",
    "apply_changes",
    "ask_user",
    "conversation_recall",
    "load_tools",
    "present_plan",
    "read_shell",
    zk_memory::REMEMBER,
    "request_compaction",
    "run_in_shell",
    "spawn",
    "todo_read",
    "todo_write",
    "tool_search",
];

/// Returns the reason why a permission rule is probably not meant as written, if there is one. The base directory of
/// its paths does not matter.
pub(super) fn wrong_rule(path: &[String], rule: &toml::Value) -> Option<String> {
    let decision = path.last()?.parse().ok()?;
    let Some(text) = rule.as_str() else { return Some("a rule is a text in quotes".to_owned()) };
    let text = text.trim();
    let base = RuleBase { root: "/".into(), home: Some("/".into()) };
    if let Some(why) = about_tool(text) {
        return Some(why);
    }
    Rule::parse(zk_permission::Layer::User, decision, text, &base).err().map(|error| error.to_string())
}

/// Names of all tools that zk itself may offer, in some contexts or settings only. A name may come twice.
pub(crate) fn own_tools() -> impl Iterator<Item = &'static str> {
    zk_tools::NAMES.into_iter().chain(zk_skills::NAMES).chain(TOOLS_OF_RUNS).chain(["fetch"])
}

/// Returns the reason why a rule with a tool's name, or a similar one, matches nothing.
fn about_tool(rule: &str) -> Option<String> {
    if let Some(name) = rule.strip_prefix("tool(").and_then(|rest| rest.strip_suffix(')')) {
        let is_near = |own: &&str| strsim::osa_distance(name, own) <= MAX_TOOL_ERRORS;
        // Tools of plugins and servers are not known yet at this point.
        let near =
            own_tools().find(is_near).filter(|near| *near != name && !name.contains(['*', '?', '[', '{']))?;
        return Some(format!("the rule `{rule}` is about no tool: did you mean `tool({near})`?"));
    }
    let (name, arguments) = match rule.split_once('(') {
        Some((name, rest)) => (name, rest.strip_suffix(')')),
        None => (rule, None),
    };
    let foreign = if name.starts_with(|first: char| first.is_ascii_uppercase()) {
        zk_skills::tool_names(name)
    } else {
        Vec::new()
    };
    let tool = match foreign.first() {
        Some(tool) => tool.as_str(),
        None if own_tools().any(|own| own == name) || name.starts_with(SERVER_TOOL_PREFIX) => name,
        None => return None,
    };
    if rule.contains('(') && tool == "fetch" && foreign.is_empty() {
        return None;
    }
    let of_a_call = match (tool, arguments) {
        ("shell", Some(command)) => {
            let words = command.trim_end_matches(":*").trim_end_matches('*').trim();
            format!("; a rule about commands is their words, such as `{words} **`")
        }
        ("shell", None) => "; a rule about commands is their words, such as `git push **`".to_owned(),
        ("fetch", _) => "; a rule about hosts is written `fetch(docs.rs)`".to_owned(),
        ("read_file" | "list_files" | "glob", _) => {
            "; a rule about files that are read is written `read(private/**)`".to_owned()
        }
        ("grep", _) => {
            "; a rule about the program is written `grep **`, one about files that are read `read(private/**)`"
                .to_owned()
        }
        ("write_file" | "edit" | "multi_edit", _) => {
            "; a rule about files that are written is written `write(src/**)`".to_owned()
        }
        _ => String::new(),
    };
    Some(format!(
        "the rule `{rule}` matches nothing: a rule about a tool is written `tool({tool})`{of_a_call}"
    ))
}
