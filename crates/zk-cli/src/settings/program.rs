use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};
use zk_core::model::ThinkingLevel;

use zk_exec::ContextName;
use zk_stores::StoreLocation;
use zk_tui::ScreenKind;

/// The program itself: model, prompt, screen and directories.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct ProgramSettings {
    /// Provider of the model.
    pub(crate) provider: Option<String>,
    /// Model by its id, `PROVIDER/ID` or a part of it, with `:LEVEL` for its reasoning.
    pub(crate) model: Option<String>,
    /// System prompt in place of zk's.
    pub(crate) system: Option<String>,
    /// Text at the end of the system prompt.
    pub(crate) append_system: Option<String>,
    /// Amount of reasoning.
    #[schemars(with = "String", extend("enum" = ThinkingLevel::ALL.map(ThinkingLevel::as_str)))]
    pub(crate) thinking: ThinkingLevel,
    /// Settings that are chosen together: `build`, `plan`, `explore`, or a file of your own.
    pub(crate) preset: String,
    /// Text that a preset adds to the system prompt.
    pub(crate) preset_system: Option<String>,
    /// Context of the model's commands.
    #[serde(deserialize_with = "context")]
    #[schemars(
        with = "String",
        regex(pattern = ContextName::PATTERN)
    )]
    #[schemars(extend(
        "x-by-projects" = false,
        "x-expected" = ContextName::CHOICES
    ))]
    pub(crate) context: Option<ContextName>,
    /// Directory in which requests and answers are kept, without keys.
    #[schemars(extend("x-by-projects" = false))]
    pub(crate) debug_dump: Option<String>,
    /// Screen of a conversation.
    #[schemars(extend("x-by-projects" = false, "x-lenient" = true))]
    pub(crate) screen: Option<ScreenName>,
    /// Colours.
    #[schemars(with = "String", regex(pattern = ThemeName::PATTERN))]
    #[schemars(extend("x-lenient" = true, "x-expected" = ThemeName::CHOICES))]
    pub(crate) theme: Option<ThemeName>,
    /// Whether the title of the terminal says where the conversation is and whether something goes on.
    pub(crate) title: bool,
    /// Directories to work in beside the first one.
    #[schemars(inner(regex(pattern = "^(/|~/)")))]
    #[schemars(extend(
        "x-by-projects" = false,
        "x-expected" = "a list of paths that begin with / or ~/, such as [\"~/team\"]"
    ))]
    pub(crate) add_dirs: Vec<String>,
    /// Address that `zk update --check` asks for the newest release: JSON with a `tag_name`, such as `v0.2.0`.
    #[schemars(regex(pattern = "^https?://"))]
    #[schemars(extend(
        "x-by-projects" = false,
        "x-expected" = "an address that begins with https:// or http://"
    ))]
    pub(crate) releases: Option<String>,
    /// Whether conversations are kept.
    pub(crate) sessions: bool,
    /// Days that a deleted session stays in the trash.
    #[schemars(extend("x-by-projects" = false))]
    pub(crate) trash_days: u32,
    /// Store of the conversations: `sqlite`, `memory`, `files:PATH`, `http://127.0.0.1:PORT` of `zk serve-sessions`, or
    /// `postgres://…`.
    #[schemars(with = "String", regex(pattern = StoreLocation::PATTERN))]
    #[schemars(extend("x-by-projects" = false, "x-secret" = true, "x-expected" = StoreLocation::CHOICES))]
    pub(crate) session_store: Option<String>,
    /// File with the token of the server of sessions; `ZK_SESSION_TOKEN` goes before it.
    #[schemars(regex(pattern = "^(/|~/)"))]
    #[schemars(extend("x-by-projects" = false, "x-expected" = "a path that begins with / or ~/"))]
    pub(crate) session_token_file: Option<String>,
    /// Whether the model and the reasoning chosen in a conversation begin the next one in the same directory.
    #[schemars(extend("x-by-projects" = false))]
    pub(crate) keep_choices: bool,
    /// Whether a conversation that fills the window is made smaller.
    pub(crate) shorten: bool,
}

impl Default for ProgramSettings {
    fn default() -> Self {
        Self {
            provider: None,
            model: None,
            system: None,
            append_system: None,
            thinking: ThinkingLevel::Adaptive,
            preset: "build".to_owned(),
            preset_system: None,
            context: None,
            debug_dump: None,
            screen: None,
            theme: None,
            title: true,
            add_dirs: Vec::new(),
            releases: None,
            sessions: true,
            trash_days: 30,
            session_store: None,
            session_token_file: None,
            keep_choices: true,
            shorten: true,
        }
    }
}

/// Screen of a conversation, as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ScreenName {
    Inline,
    Full,
    Plain,
}

impl ScreenName {
    /// The screen of this name.
    pub(crate) fn kind(self) -> ScreenKind {
        match self {
            Self::Inline => ScreenKind::Inline,
            Self::Full => ScreenKind::Full,
            Self::Plain => ScreenKind::Plain,
        }
    }
}

/// Colours, as they are written: a built-in theme, or the name of a file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub(crate) struct ThemeName(String);

impl ThemeName {
    /// Choices of a theme, as a person reads them.
    const CHOICES: &str = "`auto`, `dark`, `light`, `colour-blind`, `mono` or the name of a file themes/NAME.toml beside settings.toml";
    /// Regular expression of valid theme names.
    const PATTERN: &str = "^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$";
    /// Names of the built-in themes.
    const BUILT_IN: [&str; 5] = ["auto", "dark", "light", "colour-blind", "mono"];

    /// The name of a built-in theme.
    pub(crate) fn built_in(&self) -> Option<&'static str> {
        Self::BUILT_IN.into_iter().find(|name| *name == self.0)
    }

    /// The name of a file of colours.
    pub(crate) fn file(&self) -> Option<&str> {
        self.built_in().is_none().then_some(&self.0)
    }
}

fn context<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<ContextName>, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map(Some).map_err(serde::de::Error::custom)
}
