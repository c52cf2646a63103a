use std::ffi::OsString;
use std::path::PathBuf;

/// Names of zk's files in its settings directory. They decide on running programs and on prompts.
const IN_CONFIG: [&str; 13] = [
    "settings.toml",
    "approvals.toml",
    "keys.toml",
    "presets",
    "themes",
    "prompts",
    "skills",
    "commands",
    "agents",
    "AGENTS.md",
    "MEMORY.md",
    "SYSTEM.md",
    "APPEND_SYSTEM.md",
];
/// Names of zk's files in its state directory, except large results of sessions.
const IN_STATE: [&str; 21] = [
    "trust.json",
    "auth",
    "engine",
    "extensions",
    "fleet",
    "mcp",
    "memory",
    "plugins",
    "sandbox",
    "sessions",
    "audit",
    "logs",
    "history",
    "lines.jsonl",
    "locks",
    "drafts",
    "settings-drafts",
    "command-uses",
    "choices.json",
    "learned-rules.json",
    "shell",
];

/// Directories of zk's files. Nothing is known without `ZK_HOME`, the XDG variables and `HOME`.
///
/// ```
/// let dirs = zk_settings::ZkDirs::new(|name| (name == "ZK_HOME").then(|| "/z".into()));
/// assert_eq!(dirs.settings(), Some("/z/settings.toml".into()));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ZkDirs {
    /// The person's settings.
    pub config: Option<PathBuf>,
    /// Sessions and the line history.
    pub state: Option<PathBuf>,
}

impl ZkDirs {
    /// Finds the directories by the variables of the environment that `find` returns. The XDG specification
    /// ignores relative paths.
    #[must_use]
    pub fn new(find: impl Fn(&str) -> Option<OsString>) -> Self {
        let given = |name| find(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        if let Some(home) = given("ZK_HOME") {
            return Self { config: Some(home.clone()), state: Some(home) };
        }
        let path = |name| given(name).filter(|path| path.is_absolute());
        let under = |variable, default: &str| {
            path(variable).or_else(|| Some(path("HOME")?.join(default))).map(|dir| dir.join("zk"))
        };
        Self { config: under("XDG_CONFIG_HOME", ".config"), state: under("XDG_STATE_HOME", ".local/state") }
    }

    /// Lists zk's own files, which no tool may write: both directories as a whole. If one contains a working
    /// directory, only zk's files in it are listed by name.
    #[must_use]
    pub fn own(&self, roots: &[PathBuf]) -> Vec<PathBuf> {
        // Either path may contain links.
        let real = |path: &PathBuf| path.canonicalize().unwrap_or_else(|_| path.clone());
        let roots: Vec<PathBuf> = roots.iter().map(real).collect();
        let entries = |dir: &Option<PathBuf>, names: &[&str]| -> Vec<PathBuf> {
            let Some(dir) = dir else { return Vec::new() };
            let is_worked_in = roots.iter().any(|root| root.starts_with(real(dir)));
            if is_worked_in { names.iter().map(|name| dir.join(name)).collect() } else { vec![dir.clone()] }
        };
        [entries(&self.config, &IN_CONFIG), entries(&self.state, &IN_STATE)].concat()
    }

    /// Lists the files that only their owner may read: the entries of the state directory, and the permanent
    /// approvals.
    #[must_use]
    pub fn private(&self) -> Vec<PathBuf> {
        let state = self.state.iter().flat_map(|dir| IN_STATE.map(|name| dir.join(name)));
        state.chain(self.outputs()).chain(self.approvals()).collect()
    }

    /// Returns the file of the person's settings.
    #[must_use]
    pub fn settings(&self) -> Option<PathBuf> {
        Some(self.config.as_ref()?.join("settings.toml"))
    }

    /// Returns the directory of the memory.
    #[must_use]
    pub fn memory(&self) -> Option<PathBuf> {
        Some(self.state.as_ref()?.join("memory"))
    }

    /// Returns the directory of sessions.
    #[must_use]
    pub fn sessions(&self) -> Option<PathBuf> {
        Some(self.state.as_ref()?.join("sessions"))
    }

    /// Returns the directory of large results, with a directory for each session.
    #[must_use]
    pub fn outputs(&self) -> Option<PathBuf> {
        Some(self.state.as_ref()?.join("outputs"))
    }

    /// Returns the directory of private copies of projects.
    #[must_use]
    pub fn worktrees(&self) -> Option<PathBuf> {
        Some(self.state.as_ref()?.join("worktrees"))
    }

    /// Returns the file of keys and tokens, in a directory of their own that nobody else can enter.
    #[must_use]
    pub fn credentials(&self) -> Option<PathBuf> {
        Some(self.state.as_ref()?.join("auth").join("credentials.json"))
    }

    /// Returns the file of secret options of plugins, beside the credentials.
    #[must_use]
    pub fn plugin_secrets(&self) -> Option<PathBuf> {
        Some(self.state.as_ref()?.join("auth").join("plugin-options.json"))
    }

    /// Returns the directory of the tokens with which programs connect to zk. Commands of a model cannot read
    /// it.
    #[must_use]
    pub fn access(&self) -> Option<PathBuf> {
        Some(self.state.as_ref()?.join("auth"))
    }

    /// Returns the file of approvals for projects.
    #[must_use]
    pub fn trust(&self) -> Option<PathBuf> {
        Some(self.state.as_ref()?.join("trust.json"))
    }

    /// Returns the directory of the audit: tool calls and their decisions.
    #[must_use]
    pub fn audit(&self) -> Option<PathBuf> {
        Some(self.state.as_ref()?.join("audit"))
    }

    /// Returns the directory of data about MCP servers: accepted tools, logs and states.
    #[must_use]
    pub fn mcp(&self) -> Option<PathBuf> {
        Some(self.state.as_ref()?.join("mcp"))
    }

    /// Returns the directory of the logs of extensions, which contain their standard error.
    #[must_use]
    pub fn extensions(&self) -> Option<PathBuf> {
        Some(self.state.as_ref()?.join("extensions"))
    }

    /// Returns the directory of the runs that outlive their worker, and of their schedules.
    #[must_use]
    pub fn engine(&self) -> Option<PathBuf> {
        Some(self.state.as_ref()?.join("engine"))
    }

    /// Returns the directory of the live conversations of this machine.
    #[must_use]
    pub fn fleet(&self) -> Option<PathBuf> {
        Some(self.state.as_ref()?.join("fleet"))
    }

    /// Returns the directory of the logs of zk itself.
    #[must_use]
    pub fn logs(&self) -> Option<PathBuf> {
        Some(self.state.as_ref()?.join("logs"))
    }

    /// Returns the directory of the plugins that the person added, with all of their files.
    #[must_use]
    pub fn plugins(&self) -> Option<PathBuf> {
        Some(self.state.as_ref()?.join("plugins"))
    }

    /// Returns the file of permanent approvals of all projects.
    #[must_use]
    pub fn approvals(&self) -> Option<PathBuf> {
        Some(self.config.as_ref()?.join("approvals.toml"))
    }

    /// Returns the directory of settings files that are being edited.
    #[must_use]
    pub fn settings_drafts(&self) -> Option<PathBuf> {
        Some(self.state.as_ref()?.join("settings-drafts"))
    }

    /// Returns the directory of locks of files that are not zk's own.
    #[must_use]
    pub fn locks(&self) -> Option<PathBuf> {
        Some(self.state.as_ref()?.join("locks"))
    }

    /// Returns the file with lines of compacted conversations, kept for later ones.
    #[must_use]
    pub fn shared_lines(&self) -> Option<PathBuf> {
        Some(self.state.as_ref()?.join("lines.jsonl"))
    }

    /// Returns the file of the models that the person chose, by directory.
    #[must_use]
    pub fn choices(&self) -> Option<PathBuf> {
        Some(self.state.as_ref()?.join("choices.json"))
    }

    /// Returns the file with rules that were learned from outputs, of all projects.
    #[must_use]
    pub fn learned_rules(&self) -> Option<PathBuf> {
        Some(self.state.as_ref()?.join("learned-rules.json"))
    }

    /// Returns the file of the line editor's history.
    #[must_use]
    pub fn line_history(&self) -> Option<PathBuf> {
        Some(self.state.as_ref()?.join("history"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dirs<const N: usize>(vars: [(&str, &str); N]) -> ZkDirs {
        ZkDirs::new(|name| vars.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into()))
    }

    #[test]
    fn zk_home_holds_everything() {
        let dirs = dirs([("ZK_HOME", "/z"), ("HOME", "/h"), ("XDG_CONFIG_HOME", "/c")]);
        assert_eq!(dirs.settings(), Some("/z/settings.toml".into()));
        assert_eq!(dirs.sessions(), Some("/z/sessions".into()));
    }

    #[test]
    fn xdg_variables_outrank_home_and_relative_ones_are_ignored() {
        let dirs = dirs([("HOME", "/h"), ("XDG_CONFIG_HOME", "/c"), ("XDG_STATE_HOME", "relative")]);
        assert_eq!(dirs.settings(), Some("/c/zk/settings.toml".into()));
        assert_eq!(dirs.sessions(), Some("/h/.local/state/zk/sessions".into()));
    }

    #[test]
    fn own_files_are_whole_directories_or_names_in_those_that_contain_a_working_directory() {
        let of = dirs([("HOME", "/h")]);
        assert_eq!(
            of.own(&["/h/code".into()]),
            [PathBuf::from("/h/.config/zk"), "/h/.local/state/zk".into()]
        );
        for root in ["/z", "/z/project"] {
            let own = dirs([("ZK_HOME", "/z")]).own(&[root.into()]);
            for name in
                ["settings.toml", "trust.json", "mcp", "sandbox", "skills", "shell", "learned-rules.json"]
            {
                assert!(own.contains(&PathBuf::from("/z").join(name)), "{root}: {name}");
            }
            assert!(!own.contains(&"/z".into()), "{root}");
        }
    }

    #[test]
    fn without_a_home_nothing_is_known() {
        assert_eq!(dirs([("HOME", "")]), ZkDirs::default());
    }
}
