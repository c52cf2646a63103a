use serde_json::Value;
use zk_hooks::zk_name;

/// Letters of the shell that join, redirect or substitute commands: a prefix says nothing about what stands behind them.
const SHELL_LETTERS: &[char] =
    &['&', ';', '|', '<', '>', '$', '`', '(', ')', '{', '}', '\n', '\\', '"', '\''];

/// Names of zk's tools for a name of the SDK without arguments; none for one that zk does not have.
pub(crate) fn zk_tools(name: &str) -> Vec<String> {
    match name {
        "Write" => vec!["write_file".to_owned()],
        "Edit" => ["edit", "multi_edit"].map(str::to_owned).to_vec(),
        "Read" => ["read_file", "list_files"].map(str::to_owned).to_vec(),
        "Skill" => ["skills_use", "skills_read", "skills_run_script"].map(str::to_owned).to_vec(),
        "AskUserQuestion" | "ExitPlanMode" => vec![name.to_owned()],
        _ => match (server_tool(name), zk_name(name)) {
            (Some(tool), _) => vec![tool],
            (None, Some(tool)) => vec![tool.to_owned()],
            (None, None) => Vec::new(),
        },
    }
}

/// zk's name of a tool of an MCP server, or the pattern of all of its tools.
fn server_tool(name: &str) -> Option<String> {
    let rest = name.strip_prefix("mcp__")?;
    Some(match rest.split_once("__") {
        Some((server, tool)) => format!("mcp_{server}_{tool}"),
        None => format!("mcp_{rest}_*"),
    })
}

/// Rule of the SDK about calls, such as `Bash(git log:*)`, `Read` or `mcp__docs__search`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostRule {
    tool: String,
    content: Option<String>,
}

impl HostRule {
    /// Reads a rule as it is written in arguments.
    pub(crate) fn read(text: &str) -> Self {
        match text.split_once('(').and_then(|(tool, rest)| Some((tool, rest.strip_suffix(')')?))) {
            Some((tool, content)) if !content.is_empty() && content != "*" => {
                Self { tool: tool.trim().to_owned(), content: Some(content.to_owned()) }
            }
            Some((tool, _)) => Self { tool: tool.trim().to_owned(), content: None },
            None => Self { tool: text.trim().to_owned(), content: None },
        }
    }

    /// Reads a rule as a host gives it in an answer; nothing for one that is malformed.
    pub(crate) fn of_answer(rule: &Value) -> Option<Self> {
        let tool = rule.get("toolName")?.as_str()?.to_owned();
        let content = match rule.get("ruleContent") {
            None | Some(Value::Null) => None,
            Some(content) => Some(content.as_str()?.to_owned()),
        };
        Some(Self { tool, content })
    }

    /// Name of the tool, where the rule is about all of its calls.
    pub(crate) fn whole_tool(&self) -> Option<&str> {
        self.content.is_none().then_some(self.tool.as_str())
    }

    /// The rule in zk's words; none for tools that zk does not have.
    pub(crate) fn zk_rules(&self) -> Vec<String> {
        let Some(content) = &self.content else {
            return zk_tools(&self.tool).iter().map(|tool| format!("tool({tool})")).collect();
        };
        match self.tool.as_str() {
            "Bash" => match content.strip_suffix(":*") {
                Some(prefix) => vec![prefix.to_owned(), format!("{prefix} **")],
                None => vec![content.replace(" *", " **")],
            },
            "Read" | "Glob" | "Grep" => vec![format!("read({})", path(content))],
            "Write" | "Edit" | "MultiEdit" => vec![format!("write({})", path(content))],
            "WebFetch" => vec![format!("fetch({})", content.strip_prefix("domain:").unwrap_or(content))],
            _ => zk_tools(&self.tool).iter().map(|tool| format!("tool({tool})")).collect(),
        }
    }

    /// Whether the rule covers a call with these arguments, under the SDK's names. A prefix of a command covers plain words
    /// only: no operator, redirection or substitution.
    pub(crate) fn covers(&self, tool: &str, input: &Value) -> bool {
        let is_its_tool = self.tool == tool || (self.tool == "Task" && tool == "Agent");
        let Some(content) = &self.content else { return is_its_tool };
        if !is_its_tool {
            return false;
        }
        let text = |name: &str| input.get(name).and_then(Value::as_str).unwrap_or_default();
        match tool {
            "Bash" => match content.strip_suffix(":*") {
                Some(prefix) => text("command").strip_prefix(prefix).is_some_and(|rest| {
                    (rest.is_empty() || rest.starts_with(' ')) && !rest.contains(SHELL_LETTERS)
                }),
                None => text("command") == content,
            },
            "Read" | "Write" | "Edit" | "MultiEdit" => text("file_path") == content,
            _ => false,
        }
    }
}

/// A path as the rules of zk have it: `//` begins one of the whole machine.
fn path(content: &str) -> &str {
    content.strip_prefix('/').filter(|rest| rest.starts_with('/')).unwrap_or(content)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rules_have_the_words_of_zk() {
        for (rule, zk) in [
            ("Bash", &["tool(shell)"] as &[&str]),
            ("Bash(git log:*)", &["git log", "git log **"]),
            ("Bash(make)", &["make"]),
            ("Edit(src/**)", &["write(src/**)"]),
            ("Read(//etc/**)", &["read(/etc/**)"]),
            ("WebFetch(domain:docs.rs)", &["fetch(docs.rs)"]),
            ("mcp__docs__search", &["tool(mcp_docs_search)"]),
            ("mcp__docs", &["tool(mcp_docs_*)"]),
            ("Task", &["tool(spawn)"]),
            ("WebSearch", &[]),
        ] {
            assert_eq!(HostRule::read(rule).zk_rules(), zk, "{rule}");
        }
    }

    #[test]
    fn a_prefix_covers_plain_words_only() {
        let rule = HostRule::read("Bash(echo:*)");
        for (command, covered) in [
            ("echo", true),
            ("echo a b", true),
            ("echoes", false),
            ("echo a; rm -rf /", false),
            ("echo $(id)", false),
            ("echo a > b", false),
            ("ls", false),
        ] {
            assert_eq!(rule.covers("Bash", &json!({"command": command})), covered, "{command}");
        }
        assert!(HostRule::read("Write").covers("Write", &json!({})));
        assert!(!HostRule::read("Write").covers("Bash", &json!({})));
    }
}
