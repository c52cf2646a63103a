//! Section of the settings about conversations that become too long: `[compaction]`.

use schemars::JsonSchema;
use serde::Deserialize;

/// Ways to make a conversation smaller.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CompactionSettings {
    /// Way in which a conversation that fills the window is made smaller; `summary` without it.
    pub strategy: Option<StrategyName>,
    /// Turns between two merges of parts by the strategy `focus`, at most.
    #[schemars(range(min = 1))]
    pub auto_consolidate_min_window: Option<u32>,
    /// Whether lines of what left a conversation are kept for later ones.
    #[schemars(extend("x-by-projects" = false))]
    pub shared_lines: bool,
    /// Whether older results are left out of requests.
    pub tail: bool,
    /// Bytes of results above which `tail` leaves the older ones out.
    #[schemars(range(min = 1))]
    pub tail_bytes: Option<u32>,
    /// Newest turns whose results `tail` keeps.
    #[schemars(range(min = 1))]
    pub tail_turns: Option<u32>,
    /// Whether a summary is sent in place of each older pair of a call and its result.
    pub tool_pairs: bool,
}

/// Way in which a conversation is made smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StrategyName {
    /// A model writes a summary.
    Summary,
    /// A summary that grows with the conversation.
    Rolling,
    /// Results by the part of the task that they belong to.
    Subgoal,
    /// As `subgoal`, chosen by what each leaves.
    SubgoalMig,
    /// The model says which part it works on.
    Focus,
    /// Without a model.
    Shorten,
    /// The provider makes its context smaller itself.
    Server,
}

impl StrategyName {
    /// All of them, in the order in which they are listed.
    pub const ALL: [Self; 7] = [
        Self::Summary,
        Self::Rolling,
        Self::Subgoal,
        Self::SubgoalMig,
        Self::Focus,
        Self::Shorten,
        Self::Server,
    ];

    /// As it is written in settings.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Summary => "summary",
            Self::Rolling => "rolling",
            Self::Subgoal => "subgoal",
            Self::SubgoalMig => "subgoal_mig",
            Self::Focus => "focus",
            Self::Shorten => "shorten",
            Self::Server => "server",
        }
    }
}

impl Default for CompactionSettings {
    fn default() -> Self {
        Self {
            strategy: None,
            auto_consolidate_min_window: None,
            shared_lines: true,
            tail: false,
            tail_bytes: None,
            tail_turns: None,
            tool_pairs: false,
        }
    }
}
