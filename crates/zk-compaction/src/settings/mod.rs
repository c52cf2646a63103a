//! Settings section `[compaction]`, for conversations that become too long.

mod choices;

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use zk_core::kernel::Plugin;

use choices::Choices;
pub use choices::CompactionChoiceError;

use crate::{Focus, Rolling, Shorten, StaleReads, Subgoal, Summary, Tail, ToolPairs, Window};

/// Settings of compaction.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CompactionSettings {
    /// Strategy for a conversation that fills the window; the default is `summary`.
    pub strategy: Option<StrategyName>,
    /// Minimum number of turns between two merges of sections by the strategy `focus`.
    #[schemars(range(min = 1))]
    pub auto_consolidate_min_window: Option<u32>,
    /// Whether lines about omitted messages are kept for later conversations.
    #[schemars(extend("x-by-projects" = false))]
    pub shared_lines: bool,
    /// Whether older tool results are left out of requests.
    pub tail: bool,
    /// Bytes of results above which `tail` leaves older ones out.
    #[schemars(range(min = 1))]
    pub tail_bytes: Option<u32>,
    /// Number of newest turns whose results `tail` keeps.
    #[schemars(range(min = 1))]
    pub tail_turns: Option<u32>,
    /// Whether reads of files that were read again or changed later are left out when the conversation is made
    /// smaller.
    pub elide_stale_reads: bool,
    /// Whether each older pair of a call and its result is replaced by a summary.
    pub tool_pairs: bool,
}

/// Strategy that makes a conversation smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StrategyName {
    /// A model writes a summary.
    Summary,
    /// One line for each message, without a model.
    Rolling,
    /// Results leave by their subgoal, a part of the task.
    Subgoal,
    /// As `subgoal`, but results leave by the information that would be lost.
    SubgoalMig,
    /// One section for each topic of the conversation, without a model.
    Focus,
    /// Shortening without a model.
    Shorten,
    /// The provider compacts its own context.
    Server,
}

impl StrategyName {
    /// All strategies, in listing order.
    pub const ALL: [Self; 7] = [
        Self::Summary,
        Self::Rolling,
        Self::Subgoal,
        Self::SubgoalMig,
        Self::Focus,
        Self::Shorten,
        Self::Server,
    ];

    /// Name in the settings.
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

impl CompactionSettings {
    /// Plugins for these settings: the owner of the context window and its strategies. Empty with `shorten =
    /// false`.
    ///
    /// ```
    /// use zk_compaction::settings::CompactionSettings;
    ///
    /// assert!(CompactionSettings::default().plugins(false).unwrap().is_empty());
    /// let both = CompactionSettings { tail: true, tool_pairs: true, ..CompactionSettings::default() };
    /// assert!(both.plugins(true).is_err());
    /// ```
    ///
    /// # Errors
    /// [`CompactionChoiceError`] for settings that contradict each other, or have no effect.
    pub fn plugins(&self, shorten: bool) -> Result<Vec<Arc<dyn Plugin>>, CompactionChoiceError> {
        Choices::of(self, shorten).check()?;
        if !shorten {
            return Ok(Vec::new());
        }
        let mut plugins: Vec<Arc<dyn Plugin>> = vec![Arc::new(Window::default())];
        let of_tail =
            [("compaction.tail_bytes", self.tail_bytes), ("compaction.tail_turns", self.tail_turns)];
        if self.tail {
            plugins.push(Arc::new(self.tail()));
        } else if let Some((key, _)) = of_tail.into_iter().find(|(_, set)| set.is_some()) {
            return Err(CompactionChoiceError::WithoutTail { key });
        }
        if self.elide_stale_reads {
            plugins.push(Arc::new(StaleReads::default()));
        }
        if self.tool_pairs {
            plugins.push(Arc::new(ToolPairs));
        }
        match self.strategy {
            Some(StrategyName::Shorten | StrategyName::Server) => {}
            Some(StrategyName::Rolling) => plugins.push(Arc::new(Rolling)),
            Some(StrategyName::Subgoal) => plugins.push(Arc::new(Subgoal::default())),
            Some(StrategyName::SubgoalMig) => plugins.push(Arc::new(Subgoal::by_gain())),
            Some(StrategyName::Focus) => {
                let focus = Focus::default();
                let turns = self.auto_consolidate_min_window;
                plugins.push(Arc::new(turns.map_or(focus, |turns| focus.auto_consolidate_min_window(turns))));
            }
            Some(StrategyName::Summary) | None => plugins.push(Arc::new(Summary)),
        }
        // A strategy without a model helps when the others fail.
        plugins.push(Arc::new(Shorten));
        Ok(plugins)
    }

    fn tail(&self) -> Tail {
        let tail = Tail::default();
        let tail = match self.tail_bytes {
            Some(bytes) => tail.threshold(bytes as usize),
            None => tail,
        };
        match self.tail_turns {
            Some(turns) => tail.keep_turns(turns as usize),
            None => tail,
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
            elide_stale_reads: false,
            tool_pairs: false,
        }
    }
}
