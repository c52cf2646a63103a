use std::path::PathBuf;
use std::sync::Arc;

use zk_core::events::SectionSize;
use zk_core::kernel::Cx;
use zk_core::model::{Message, Model, ModelRef, SessionId, ThinkingRequest};

use super::shared::RunShared;
use crate::Behavior;
use crate::agent::AgentInner;
use crate::budget::{BudgetChain, Estimator};
use crate::tools::{CallContext, CallHistory, Toolbox};
use crate::turn::OutputTool;

/// State of one run, shared by its turns.
pub(crate) struct RunState {
    pub(crate) agent: Arc<AgentInner>,
    pub(crate) shared: Arc<RunShared>,
    pub(crate) cx: Cx,
    /// Model of the current turn.
    pub(crate) model: Model,
    pub(crate) models: RunModels,
    pub(crate) thinking: ThinkingRequest,
    pub(crate) behavior: Behavior,
    pub(crate) prompt: SystemPrompt,
    pub(crate) toolbox: Toolbox,
    pub(crate) calls: CallHistory,
    pub(crate) output: Option<Arc<OutputTool>>,
    /// Last answer of the model, even if it is incomplete.
    pub(crate) last: Option<Arc<Message>>,
    /// Messages of the current request, with canonical names.
    pub(crate) sent: Vec<Arc<Message>>,
    pub(crate) session: Option<SessionId>,
    /// Working directory of the current turn.
    pub(crate) cwd: PathBuf,
    /// Number of the last turn whose answer was cut by a full window.
    pub(crate) cut_at: Option<u32>,
    pub(crate) spending: RunSpending,
}

/// Models from which a run chooses one for each turn.
pub(crate) struct RunModels {
    /// The run's model, which a plugin may override for a turn.
    pub(crate) own: Model,
    /// Last unknown model that a plugin requested, so that it is reported only once.
    pub(crate) unknown: Option<ModelRef>,
    /// Model and reasoning that were chosen for the agent at the last check. A change takes effect in the
    /// next turn.
    pub(crate) chosen: (ModelRef, ThinkingRequest),
}

/// System prompt of a run, with its sections.
pub(crate) struct SystemPrompt {
    pub(crate) text: Arc<str>,
    pub(crate) sections: Arc<[SectionSize]>,
}

/// Budgets of a run, and the estimator of its requests' cost.
pub(crate) struct RunSpending {
    /// Budgets of this run and its ancestors.
    pub(crate) budgets: BudgetChain,
    pub(crate) estimator: Estimator,
}

impl RunState {
    /// Returns the parts of the run that tool calls of a turn need, with the turn's context `cx`.
    pub(crate) fn call_context<'a>(&'a self, cx: &'a Cx) -> CallContext<'a> {
        CallContext {
            cx,
            shared: &self.shared,
            behavior: &self.behavior,
            toolbox: &self.toolbox,
            history: &self.calls,
            dedup: &self.agent.dedup,
            cwd: &self.cwd,
            keeps_images: self.model.capabilities.vision,
        }
    }
}
