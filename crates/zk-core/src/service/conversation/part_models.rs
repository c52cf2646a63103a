use async_trait::async_trait;

use crate::kernel::Cx;
use crate::model::{AgentError, Model};

/// Models for the parts of an agent, by the part's name: `cx.service::<dyn PartModels>()`. Without this
/// service every part asks the run's model.
///
/// A part is a piece of work beside the conversation, such as its summaries: one of [`KNOWN_PARTS`], or a named
/// sub-agent. [`SideCall::for_part`](super::SideCall::for_part) names the part of a request.
///
/// ```
/// use async_trait::async_trait;
/// use zk_core::kernel::Cx;
/// use zk_core::model::{AgentError, Model};
/// use zk_core::service::{PartModel, PartModels, SUMMARY_PART};
///
/// struct SmallSummaries(Model);
///
/// #[async_trait]
/// impl PartModels for SmallSummaries {
///     async fn choose(&self, part: &str, _: &Cx) -> PartModel {
///         match part {
///             SUMMARY_PART => PartModel::Own(Box::new(self.0.clone())),
///             _ => PartModel::OfRun,
///         }
///     }
///
///     async fn replace(&self, _: &str, _: &Model, _: &AgentError, _: &Cx) -> PartModel {
///         PartModel::OfRun
///     }
/// }
/// ```
#[async_trait]
pub trait PartModels: Send + Sync {
    /// Returns the model for a part. If the part has a model of its own, its provider is registered on the
    /// bus by then.
    async fn choose(&self, part: &str, cx: &Cx) -> PartModel;

    /// Returns the model in place of `failed`, which is set for this part of the program, such as `summary`, and failed with
    /// `error`; never `failed` again.
    async fn replace(&self, part: &str, failed: &Model, error: &AgentError, cx: &Cx) -> PartModel;
}

/// Part that an agent works for, as a service of its bus: `explore`, or the name of a sub-agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentPart(pub String);

/// Model that a part asks.
#[derive(Clone, Debug, PartialEq)]
pub enum PartModel {
    /// The model of the run.
    OfRun,
    /// A model that is set for this part, of a registered provider.
    Own(Box<Model>),
    /// No model: the part is left out, for this reason.
    LeftOut(String),
}

/// A part that zk itself has, with its fallback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownPart {
    /// Name of the part in settings and statistics.
    pub name: &'static str,
    /// Work of the part in a few words.
    pub work: &'static str,
    /// Fallback when the part's own model cannot be used.
    pub fallback: PartFallback,
}

/// Fallback of a part whose own model cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartFallback {
    /// The run's model does the work.
    RunModel,
    /// The work is left out.
    LeaveOut,
}

/// Name of the part that summarises conversations and branches.
pub const SUMMARY_PART: &str = "summary";

/// Name of the part that summarises large tool results.
pub const COMPRESS_PART: &str = "compress";

/// Name of the part that gives verdicts on autonomous goals.
pub const SUPERVISOR_PART: &str = "supervisor";

/// Name of the part that names the steps of a task.
pub const SUBGOAL_PART: &str = "subgoal";

/// Name of the part that titles sessions. It asks no model unless one is set for it.
pub const TITLE_PART: &str = "title";

/// Name of the part that embeds memories. Its model is set by `memory.embeddings`, not in `[parts]`.
pub const EMBEDDINGS_PART: &str = "memory.embeddings";

/// Name of the part that sub-agents without a name work for.
pub const EXPLORE_PART: &str = "explore";

/// Parts that zk itself has. Every named sub-agent is a part as well, with the fallback
/// [`PartFallback::RunModel`].
pub const KNOWN_PARTS: [KnownPart; 6] = {
    const fn part(name: &'static str, work: &'static str, fallback: PartFallback) -> KnownPart {
        KnownPart { name, work, fallback }
    }
    [
        part(SUMMARY_PART, "summaries of conversations and branches", PartFallback::RunModel),
        part(COMPRESS_PART, "summaries of large tool results", PartFallback::LeaveOut),
        part(TITLE_PART, "titles of sessions", PartFallback::LeaveOut),
        part(SUPERVISOR_PART, "verdicts on autonomous goals", PartFallback::RunModel),
        part(SUBGOAL_PART, "steps of a task, for compaction", PartFallback::LeaveOut),
        part(EXPLORE_PART, "sub-agents without a name", PartFallback::RunModel),
    ]
};

/// Returns the fallback of a part: of [`KNOWN_PARTS`] by name, or that of a named sub-agent.
///
/// ```
/// use zk_core::service::{PartFallback, part_fallback};
///
/// assert_eq!(part_fallback("title"), PartFallback::LeaveOut);
/// assert_eq!(part_fallback("reviewer"), PartFallback::RunModel);
/// ```
#[must_use]
pub fn part_fallback(part: &str) -> PartFallback {
    if part == EMBEDDINGS_PART {
        // A chat model cannot replace an embedding model.
        return PartFallback::LeaveOut;
    }
    let known = KNOWN_PARTS.iter().find(|known| known.name == part);
    known.map_or(PartFallback::RunModel, |known| known.fallback)
}
