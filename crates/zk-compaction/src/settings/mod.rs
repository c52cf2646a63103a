//! Section of the settings about conversations that become too long: `[compaction]`.

mod choices;

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use zk_core::kernel::Plugin;

use choices::Choices;
pub use choices::CompactionChoiceError;

use crate::{Focus, Rolling, Shorten, Subgoal, Summary, Tail, ToolPairs, Window};

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
    /// Messages leave as with `subgoal`, chosen by what each leaves.
    SubgoalMig,
    /// The model says which part it works on.
    Focus,
    /// Shortening without a model.
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

impl CompactionSettings {
    /// The owner of the context window and its strategies; none with `shorten = false`.
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
    /// [`CompactionChoiceError`] for choices that contradict each other, or have no effect.
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
        // A strategy without a model helps where the others cannot.
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
            tool_pairs: false,
        }
    }
}
