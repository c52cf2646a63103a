use std::path::PathBuf;

use crate::env::Env;

/// Names of zk's files in its settings directory. They decide on running programs and on prompts.
const IN_CONFIG: [&str; 12] = [
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
    "SYSTEM.md",
    "APPEND_SYSTEM.md",
];
/// Names of zk's files in its state directory, except large results of sessions.
const IN_STATE: [&str; 14] = [
    "trust.json",
    "auth",
    "extensions",
    "mcp",
    "plugins",
    "sandbox",
    "sessions",
    "audit",
    "logs",
    "history",
    "lines.jsonl",
    "drafts",
    "settings-drafts",
    "command-uses",
];

/// Directories of zk's files. Nothing is known without `ZK_HOME`, the XDG variables and `HOME`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Dirs {
    /// The person's settings.
    pub(crate) config: Option<PathBuf>,
    /// Sessions and the line history.
    pub(crate) state: Option<PathBuf>,
}

impl Dirs {
    pub(crate) fn new(env: &Env) -> Self {
        if let Some(home) = env.get("ZK_HOME").map(PathBuf::from) {
            return Self { config: Some(home.clone()), state: Some(home) };
        }
        let under = |variable, default: &str| {
            env.path(variable).or_else(|| Some(env.path("HOME")?.join(default))).map(|dir| dir.join("zk"))
        };
        Self { config: under("XDG_CONFIG_HOME", ".config"), state: under("XDG_STATE_HOME", ".local/state") }
    }

    /// Lists zk's own files, which no tool may write: both directories as a whole. If one contains a working
    /// directory, only zk's files in it are listed by name.
    pub(crate) fn own(&self, roots: &[PathBuf]) -> Vec<PathBuf> {
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

    /// Lists what is its owner's alone: the entries of the directory of state, and what was approved for good.
    pub(crate) fn private(&self) -> Vec<PathBuf> {
        let state = self.state.iter().flat_map(|dir| IN_STATE.map(|name| dir.join(name)));
        state.chain(self.outputs()).chain(self.approvals()).collect()
    }

    pub(crate) fn settings(&self) -> Option<PathBuf> {
        Some(self.config.as_ref()?.join("settings.toml"))
    }

    pub(crate) fn sessions(&self) -> Option<PathBuf> {
        Some(self.state.as_ref()?.join("sessions"))
    }

    /// Returns the directory of large results, with a directory for each session.
    pub(crate) fn outputs(&self) -> Option<PathBuf> {
        Some(self.state.as_ref()?.join("outputs"))
    }

    /// Keys and tokens, in a directory of their own that nobody else can enter.
    pub(crate) fn credentials(&self) -> Option<PathBuf> {
        Some(self.state.as_ref()?.join("auth").join("credentials.json"))
    }

    /// Secret options of plugins, beside the credentials.
    pub(crate) fn plugin_secrets(&self) -> Option<PathBuf> {
        Some(self.state.as_ref()?.join("auth").join("plugin-options.json"))
    }

    /// Returns the directory of the tokens with which programs connect to zk. Commands of a model cannot read
    /// it.
    pub(crate) fn access(&self) -> Option<PathBuf> {
        Some(self.state.as_ref()?.join("auth"))
    }

    /// Returns the file of approvals for projects.
    pub(crate) fn trust(&self) -> Option<PathBuf> {
        Some(self.state.as_ref()?.join("trust.json"))
    }

    /// Returns the directory of the audit: tool calls and their decisions.
    pub(crate) fn audit(&self) -> Option<PathBuf> {
        Some(self.state.as_ref()?.join("audit"))
    }

    /// Returns the directory of data about MCP servers: accepted tools, logs and states.
    pub(crate) fn mcp(&self) -> Option<PathBuf> {
        Some(self.state.as_ref()?.join("mcp"))
    }

    /// Returns the directory of the logs of extensions, which contain their standard error.
    pub(crate) fn extensions(&self) -> Option<PathBuf> {
        Some(self.state.as_ref()?.join("extensions"))
    }

    /// Returns the directory of the logs of zk itself.
    pub(crate) fn logs(&self) -> Option<PathBuf> {
        Some(self.state.as_ref()?.join("logs"))
    }

    /// Returns the directory of the plugins that the person added, with all of their files.
    pub(crate) fn plugins(&self) -> Option<PathBuf> {
        Some(self.state.as_ref()?.join("plugins"))
    }

    /// Returns the file of permanent approvals of all projects.
    pub(crate) fn approvals(&self) -> Option<PathBuf> {
        Some(self.config.as_ref()?.join("approvals.toml"))
    }

    /// Returns the directory of settings files that are being edited.
    pub(crate) fn settings_drafts(&self) -> Option<PathBuf> {
        Some(self.state.as_ref()?.join("settings-drafts"))
    }

    /// Returns the file with lines of compacted conversations, kept for later ones.
    pub(crate) fn shared_lines(&self) -> Option<PathBuf> {
        Some(self.state.as_ref()?.join("lines.jsonl"))
    }

    pub(crate) fn line_history(&self) -> Option<PathBuf> {
        Some(self.state.as_ref()?.join("history"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dirs<const N: usize>(vars: [(&str, &str); N]) -> Dirs {
        Dirs::new(&Env::from_iter(vars))
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
    fn what_belongs_to_zk_is_all_of_its_directories_or_by_name_where_somebody_works_in_them() {
        let of = dirs([("HOME", "/h")]);
        assert_eq!(
            of.own(&["/h/code".into()]),
            [PathBuf::from("/h/.config/zk"), "/h/.local/state/zk".into()]
        );
        for root in ["/z", "/z/project"] {
            let own = dirs([("ZK_HOME", "/z")]).own(&[root.into()]);
            for name in ["settings.toml", "trust.json", "mcp", "sandbox", "skills"] {
                assert!(own.contains(&PathBuf::from("/z").join(name)), "{root}: {name}");
            }
            assert!(!own.contains(&"/z".into()), "{root}");
        }
    }

    #[test]
    fn without_a_home_nothing_is_known() {
        assert_eq!(dirs([("HOME", "")]), Dirs::default());
    }
}
