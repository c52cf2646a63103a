use std::path::PathBuf;

use zk_core::model::SessionId;

use crate::env::Env;

/// Where zk keeps its files. Nothing is known without `ZK_HOME`, the XDG variables and `HOME`.
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

    pub(crate) fn settings(&self) -> Option<PathBuf> {
        Some(self.config.as_ref()?.join("settings.toml"))
    }

    pub(crate) fn sessions(&self) -> Option<PathBuf> {
        Some(self.state.as_ref()?.join("sessions"))
    }

    /// Where the results of a session go that are too large for its history.
    pub(crate) fn outputs(&self, session: &SessionId) -> Option<PathBuf> {
        Some(self.state.as_ref()?.join("outputs").join(session.as_str()))
    }

    /// Keys and tokens, in a directory of their own that nobody else can enter.
    pub(crate) fn credentials(&self) -> Option<PathBuf> {
        Some(self.state.as_ref()?.join("auth").join("credentials.json"))
    }

    /// What of projects was approved.
    pub(crate) fn trust(&self) -> Option<PathBuf> {
        Some(self.state.as_ref()?.join("trust.json"))
    }

    /// What was asked of tools, and what became of it.
    pub(crate) fn audit(&self) -> Option<PathBuf> {
        Some(self.state.as_ref()?.join("audit"))
    }

    /// What is known of MCP servers: their accepted tools, their logs, how they were.
    pub(crate) fn mcp(&self) -> Option<PathBuf> {
        Some(self.state.as_ref()?.join("mcp"))
    }

    /// What was approved for good, of all projects.
    pub(crate) fn approvals(&self) -> Option<PathBuf> {
        Some(self.config.as_ref()?.join("approvals.toml"))
    }

    /// Lines of what left conversations, for later ones.
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
    fn without_a_home_nothing_is_known() {
        assert_eq!(dirs([("HOME", "")]), Dirs::default());
    }
}
