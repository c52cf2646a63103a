use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use zk_core::kernel::Cx;
use zk_core::model::{Model, Role, ToolError};
use zk_core::service::{PartModel, PartModels};

use crate::run::{Lineage, concerns_model};
use crate::{Agent, Run, RunOptions, RunOutcome};

/// Model that is set for the part of a sub-agent, and the replacement if it fails.
pub(super) struct OwnModel {
    models: Arc<dyn PartModels>,
    part: String,
    pub(super) model: Model,
}

impl OwnModel {
    /// Returns the model that is set for a part; `None` for the run's model. Fails if the part is to be left
    /// out.
    pub(super) async fn choose_for_part(part: &str, cx: &Cx) -> Result<Option<Self>, ToolError> {
        let Some(models) = cx.service::<dyn PartModels>() else { return Ok(None) };
        match models.choose(part, cx).await {
            PartModel::OfRun => Ok(None),
            PartModel::Own(model) => Ok(Some(Self { models, part: part.to_owned(), model: *model })),
            PartModel::LeftOut(why) => Err(ToolError::failed(why)),
        }
    }
}

/// Second run of a sub-agent whose own model failed before its first answer, with the replacement model.
pub(super) struct Rerun {
    pub(super) own: OwnModel,
    pub(super) task: String,
    pub(super) stop: CancellationToken,
    pub(super) lineage: Lineage,
}

impl Rerun {
    /// Begins the second run; `None` if `failed` gives no reason for one.
    pub(super) async fn begin_run(self, child: &Agent, failed: &RunOutcome, cx: &Cx) -> Option<Run> {
        let Self { own, task, stop, lineage } = self;
        let error = failed.result.as_ref().err()?;
        // Only before the first answer, so that no work is done twice.
        if failed.stats.turns > 0 || !concerns_model(error) || stop.is_cancelled() {
            return None;
        }
        let has_task = child.history().last().is_some_and(|last| last.role == Role::User);
        let options = if has_task { RunOptions::resume() } else { RunOptions::from(task.as_str()) };
        let options = match own.models.replace(&own.part, &own.model, error, cx).await {
            PartModel::OfRun => options,
            PartModel::Own(model) => options.model(*model),
            PartModel::LeftOut(_) => return None,
        };
        child.run_with_lineage(options, stop, lineage).ok()
    }
}
