use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

/// Environment variables that describe the terminal.
const VARIABLES: [&str; 12] = [
    "ACCESSIBLE",
    "ALACRITTY_WINDOW_ID",
    "COLORFGBG",
    "ITERM_SESSION_ID",
    "KITTY_WINDOW_ID",
    "NO_COLOR",
    "TERM",
    "TERM_PROGRAM",
    "TMUX",
    "VTE_VERSION",
    "WEZTERM_PANE",
    "WT_SESSION",
];

/// Values of the terminal's environment variables, as passed in by the program.
#[derive(Clone, Debug, Default)]
pub struct TerminalEnv(BTreeMap<&'static str, OsString>);

impl TerminalEnv {
    /// Reads the variables through `find`; an empty value counts as unset.
    ///
    /// ```
    /// let env = zk_tui::TerminalEnv::new(|name| (name == "ACCESSIBLE").then(|| "1".into()));
    /// assert!(env.is_accessible());
    /// ```
    #[must_use]
    pub fn new(find: impl Fn(&str) -> Option<OsString>) -> Self {
        let known = VARIABLES.iter().filter_map(|name| Some((*name, find(name)?)));
        Self(known.filter(|(_, value)| !value.is_empty()).collect())
    }

    /// Whether a screen reader is used.
    #[must_use]
    pub fn is_accessible(&self) -> bool {
        self.text("ACCESSIBLE").is_some_and(|value| value != "0")
    }

    /// Whether the terminal supports no control sequences.
    pub(crate) fn is_dumb(&self) -> bool {
        self.text("TERM") == Some("dumb")
    }

    /// Whether colours are disabled.
    pub(crate) fn is_colourless(&self) -> bool {
        self.is_set("NO_COLOR")
    }

    /// Whether a variable has a value.
    pub(crate) fn is_set(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Value of a variable, if it is valid text.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(OsString::as_os_str).and_then(OsStr::to_str)
    }
}
