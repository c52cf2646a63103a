use zk_core::model::Budget;
use zk_core::service::EngineRun;

use super::place::submitted_lines;
use super::runs;
use crate::app::{AppContext, runtime};
use crate::commands::print;
use crate::exit::{Exit, Failure, Outcome};

/// Submits the session of a failed or cancelled run again.
pub(crate) fn retry(app: &AppContext, run: &str) -> Outcome<Exit> {
    let runs = runs(&app.work.machine)?;
    let job = runtime()?.block_on(async {
        let found = runs.find(run).await?;
        Ok::<_, Failure>(runs.retry(&found).await?)
    })?;
    print(&app.work.machine, &submitted_lines(&job))
}

/// Sets the budget of a run.
pub(crate) fn raise(app: &AppContext, run: &str, budget: Option<Budget>) -> Outcome<Exit> {
    let Some(budget) = budget else {
        return Err(Failure::usage(format!("name the whole budget: `zk fleet raise {run} --budget-usd 5`")));
    };
    let runs = runs(&app.work.machine)?;
    let found = runtime()?.block_on(async {
        let found = runs.find(run).await?;
        runs.set_budget(&found, budget).await?;
        Ok::<EngineRun, Failure>(found)
    })?;
    print(&app.work.machine, &[format!("{} may spend {budget} in all", found.job.run())])
}
