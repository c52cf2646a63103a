//! Claude Code's names of tools and arguments, for hooks that were written for it.

use serde_json::{Map, Value};

/// Tool under both names, with its differently named arguments.
struct Alias {
    zk: &'static str,
    claude: &'static str,
    args: &'static [(&'static str, &'static str)],
}

const PATH: &[(&str, &str)] = &[("path", "file_path")];

const ALIASES: [Alias; 12] = [
    Alias {
        zk: "shell",
        claude: "Bash",
        args: &[("timeout_ms", "timeout"), ("background", "run_in_background")],
    },
    Alias { zk: "read_file", claude: "Read", args: PATH },
    Alias { zk: "write_file", claude: "Write", args: PATH },
    Alias { zk: "edit", claude: "Edit", args: PATH },
    Alias { zk: "multi_edit", claude: "MultiEdit", args: PATH },
    Alias { zk: "list_files", claude: "LS", args: &[] },
    Alias { zk: "glob", claude: "Glob", args: &[] },
    Alias { zk: "fetch", claude: "WebFetch", args: &[] },
    Alias { zk: "todo_write", claude: "TodoWrite", args: &[] },
    Alias { zk: "spawn", claude: "Agent", args: &[("task", "prompt"), ("agent", "subagent_type")] },
    Alias { zk: "skills_use", claude: "Skill", args: &[("arguments", "args")] },
    Alias {
        zk: "grep",
        claude: "Grep",
        args: &[("mode", "output_mode"), ("ignore_case", "-i"), ("context", "-C")],
    },
];

/// Names of tools and arguments in a hook's input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vocabulary {
    /// zk's names: `shell`, `write_file` with `path`.
    Zk,
    /// Claude Code's names: `Bash`, `Write` with `file_path`.
    Claude,
}

fn alias(tool: &str) -> Option<&'static Alias> {
    ALIASES.iter().find(|alias| alias.zk == tool)
}

/// Claude Code's name of a zk tool, if it differs.
#[must_use]
pub fn claude_name(tool: &str) -> Option<&'static str> {
    alias(tool).map(|alias| alias.claude)
}

/// zk's name of a tool that has another one in Claude Code, also under the older name of one.
#[must_use]
pub fn zk_name(claude: &str) -> Option<&'static str> {
    let claude = if claude == "Task" { "Agent" } else { claude };
    ALIASES.iter().find(|alias| alias.claude == claude).map(|alias| alias.zk)
}

/// Names of a zk tool's arguments that differ in Claude Code: zk's, then the other.
#[must_use]
pub fn claude_arguments(tool: &str) -> &'static [(&'static str, &'static str)] {
    alias(tool).map_or(&[], |alias| alias.args)
}

impl Vocabulary {
    /// Name of a zk tool in this vocabulary.
    #[must_use]
    pub fn tool(self, tool: &str) -> &str {
        match self {
            Self::Zk => tool,
            Self::Claude => claude_name(tool).unwrap_or(tool),
        }
    }

    /// Arguments of a zk tool in this vocabulary.
    #[must_use]
    pub fn args(self, tool: &str, args: &Value) -> Value {
        self.rename(tool, args, |(zk, claude)| (zk, claude))
    }

    /// Arguments of a hook, translated to zk's names.
    #[must_use]
    pub fn to_zk(self, tool: &str, args: &Value) -> Value {
        self.rename(tool, args, |(zk, claude)| (claude, zk))
    }

    fn rename(
        self,
        tool: &str,
        args: &Value,
        pair: impl Fn((&'static str, &'static str)) -> (&'static str, &'static str),
    ) -> Value {
        let (Self::Claude, Some(alias), Value::Object(fields)) = (self, alias(tool), args) else {
            return args.clone();
        };
        let renamed = |name: &String| {
            let found = alias.args.iter().map(|names| pair(*names)).find(|(from, _)| from == name);
            found.map_or_else(|| name.clone(), |(_, to)| to.to_owned())
        };
        let fields: Map<String, Value> =
            fields.iter().map(|(name, value)| (renamed(name), value.clone())).collect();
        Value::Object(fields)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_are_the_same_after_both_renamings() {
        for (tool, args, claude) in [
            ("write_file", json!({"path": "a", "content": "b"}), json!({"file_path": "a", "content": "b"})),
            ("shell", json!({"command": "ls", "timeout_ms": 5}), json!({"command": "ls", "timeout": 5})),
            ("fetch", json!({"path": "a"}), json!({"path": "a"})),
            ("shell", json!("odd"), json!("odd")),
        ] {
            assert_eq!(Vocabulary::Claude.args(tool, &args), claude);
            assert_eq!(Vocabulary::Claude.to_zk(tool, &claude), args);
            assert_eq!(Vocabulary::Zk.args(tool, &args), args);
        }
        assert_eq!(Vocabulary::Claude.tool("edit"), "Edit");
        assert_eq!(Vocabulary::Claude.tool("fetch"), "WebFetch");
    }
}
