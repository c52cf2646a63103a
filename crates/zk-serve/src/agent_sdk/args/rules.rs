use serde_json::Value;
use zk_hooks::zk_name;

/// Characters with which a shell joins, redirects, substitutes or quotes. A prefix rule does not cover a
/// command with one of them after the prefix.
const SHELL_LETTERS: &[char] =
    &['&', ';', '|', '<', '>', '$', '`', '(', ')', '{', '}', '\n', '\\', '"', '\''];

/// Maximum length of the name of a tool in characters.
pub(crate) const MAX_TOOL_NAME_CHARS: usize = 64;

/// Tools of the SDK that zk does not have. Rules about them have no effect.
const ABSENT_TOOLS: [&str; 16] = [
    "BashOutput",
    "Config",
    "EnterPlanMode",
    "EnterWorktree",
    "KillBash",
    "KillShell",
    "ListMcpResources",
    "LSP",
    "MCPSearch",
    "NotebookEdit",
    "NotebookRead",
    "ReadMcpResource",
    "SlashCommand",
    "TaskOutput",
    "TaskStop",
    "WebSearch",
];

/// Returns zk's names for a tool of the SDK; empty if zk does not have it.
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

/// Returns zk's name of an MCP server's tool, or the pattern for all tools of the server.
fn server_tool(name: &str) -> Option<String> {
    let rest = name.strip_prefix("mcp__")?;
    let named = match rest.split_once("__") {
        Some((server, tool)) => format!("mcp_{server}_{tool}"),
        None => format!("mcp_{rest}_*"),
    };
    // Characters that registered tool names may have.
    let usable = |letter: char| match letter {
        '-' | '*' => letter,
        letter if letter.is_ascii_alphanumeric() => letter,
        _ => '_',
    };
    Some(named.chars().map(usable).take(MAX_TOOL_NAME_CHARS).collect())
}

/// Rule of the SDK about calls, such as `Bash(git log:*)`, `Read` or `mcp__docs__search`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostRule {
    tool: String,
    content: Option<String>,
}

impl HostRule {
    /// Parses a rule from an argument.
    pub(crate) fn read(text: &str) -> Self {
        let text = text.trim();
        match text.split_once('(').and_then(|(tool, rest)| Some((tool, rest.strip_suffix(')')?))) {
            Some((tool, content)) if !content.is_empty() && content != "*" => {
                Self { tool: tool.trim().to_owned(), content: Some(content.to_owned()) }
            }
            Some((tool, _)) => Self { tool: tool.trim().to_owned(), content: None },
            None => Self { tool: text.trim().to_owned(), content: None },
        }
    }

    /// Parses a rule from a host's answer; `None` if it is malformed.
    pub(crate) fn of_answer(rule: &Value) -> Option<Self> {
        let tool = rule.get("toolName")?.as_str()?.to_owned();
        let content = match rule.get("ruleContent") {
            None | Some(Value::Null) => None,
            Some(content) => Some(content.as_str()?.to_owned()),
        };
        Some(Self { tool, content })
    }

    /// Name of the tool if the rule covers all of its calls.
    pub(crate) fn whole_tool(&self) -> Option<&str> {
        self.content.is_none().then_some(self.tool.as_str())
    }

    /// Converts the rule to rules of zk; empty for tools that zk does not have.
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

    /// Converts an allowing rule to rules of zk; empty if zk cannot tell the described calls from others of
    /// the tool.
    pub(crate) fn allowed(&self) -> Vec<String> {
        let is_told_apart = matches!(
            self.tool.as_str(),
            "Bash" | "Read" | "Glob" | "Grep" | "Write" | "Edit" | "MultiEdit" | "WebFetch"
        );
        if self.content.is_none() || is_told_apart { self.zk_rules() } else { Vec::new() }
    }

    /// Converts a rule that forbids or asks to rules of zk. A file name without a directory matches at any
    /// depth.
    ///
    /// # Errors
    /// A sentence about a rule without a tool that zk or the SDK has: it would hold nothing back.
    pub(crate) fn restriction_rules(&self) -> Result<Vec<String>, String> {
        let mut rules = self.zk_rules();
        if rules.is_empty() && !ABSENT_TOOLS.contains(&self.tool.as_str()) {
            return Err(format!("`{}` is no tool, so that the rule would hold nothing back", self.tool));
        }
        let deep: Vec<String> = match &self.content {
            Some(content) if !content.contains('/') => rules
                .iter()
                .filter_map(|rule| {
                    let (kind, path) = rule.split_once('(')?;
                    ["read", "write"].contains(&kind).then(|| format!("{kind}(**/{path}"))
                })
                .collect(),
            Some(_) | None => Vec::new(),
        };
        rules.extend(deep);
        Ok(rules)
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

/// Converts a path to zk's notation: `//` begins an absolute path, `/` a path below the project.
fn path(content: &str) -> &str {
    content.strip_prefix('/').unwrap_or(content)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rules_of_the_host_are_converted_to_rules_of_zk() {
        for (rule, zk) in [
            ("Bash", &["tool(shell)"] as &[&str]),
            ("Bash(git log:*)", &["git log", "git log **"]),
            ("Bash(make)", &["make"]),
            ("Edit(src/**)", &["write(src/**)"]),
            ("Read(//etc/**)", &["read(/etc/**)"]),
            ("WebFetch(domain:docs.rs)", &["fetch(docs.rs)"]),
            ("mcp__docs__search", &["tool(mcp_docs_search)"]),
            ("mcp__docs", &["tool(mcp_docs_*)"]),
            ("mcp__my.server__do it", &["tool(mcp_my_server_do_it)"]),
            ("Read(/secrets/**)", &["read(secrets/**)"]),
            (" Bash(rm:*) ", &["rm", "rm **"]),
            ("Task", &["tool(spawn)"]),
            ("WebSearch", &[]),
        ] {
            assert_eq!(HostRule::read(rule).zk_rules(), zk, "{rule}");
        }
    }

    #[test]
    fn deny_rules_are_converted_and_allow_rules_without_an_equivalent_are_dropped() {
        let restriction_rules = |rule| HostRule::read(rule).restriction_rules();
        assert_eq!(restriction_rules("Read(.env)").unwrap(), ["read(.env)", "read(**/.env)"]);
        assert_eq!(restriction_rules("WebSearch").unwrap(), [] as [&str; 0]);
        assert!(restriction_rules("Bassh(rm:*)").unwrap_err().contains("`Bassh` is no tool"));
        assert_eq!(HostRule::read("Skill(commit)").allowed(), [] as [&str; 0]);
        assert_eq!(HostRule::read("Read(.env)").allowed(), ["read(.env)"]);
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
