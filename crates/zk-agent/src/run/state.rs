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

/// Data that the turns of one run work on.
pub(crate) struct RunState {
    pub(crate) agent: Arc<AgentInner>,
    pub(crate) shared: Arc<RunShared>,
    pub(crate) cx: Cx,
    /// Model of the present turn.
    pub(crate) model: Model,
    pub(crate) models: RunModels,
    pub(crate) thinking: ThinkingRequest,
    pub(crate) behavior: Behavior,
    pub(crate) prompt: SystemPrompt,
    pub(crate) toolbox: Toolbox,
    pub(crate) calls: CallHistory,
    pub(crate) output: Option<Arc<OutputTool>>,
    /// Last answer of the model, whole or not.
    pub(crate) last: Option<Arc<Message>>,
    /// Messages of the present request, in canonical names.
    pub(crate) sent: Vec<Arc<Message>>,
    pub(crate) session: Option<SessionId>,
    /// Directory of the present turn.
    pub(crate) cwd: PathBuf,
    /// Last turn after which the conversation had to be made shorter for the answer to go on.
    pub(crate) cut_at: Option<u32>,
    pub(crate) spending: RunSpending,
}

/// Models that a run chooses from for each turn.
pub(crate) struct RunModels {
    /// Model of the run, which a plugin may replace for a turn.
    pub(crate) own: Model,
    /// Model that a plugin asked for last and nobody knows.
    pub(crate) unknown: Option<ModelRef>,
    /// Model and reasoning of the agent when they were last looked at: another choice counts from the next turn on.
    pub(crate) chosen: (ModelRef, ThinkingRequest),
}

/// System prompt of a run.
pub(crate) struct SystemPrompt {
    pub(crate) text: Arc<str>,
    pub(crate) sections: Arc<[SectionSize]>,
}

/// Limits of what a run may spend, and estimates of what its requests cost.
pub(crate) struct RunSpending {
    /// Budgets of this run and of those above.
    pub(crate) budgets: BudgetChain,
    pub(crate) estimator: Estimator,
}

impl RunState {
    /// Parts that the calls of a turn need, whose context is `cx`.
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
