//! Tool calls of a run, from the model's request to the result.

mod alias;
mod batch_end;
mod call;
mod catch;
mod check;
mod context;
mod dispatch;
mod execute;
mod guarded;
mod nearest;
mod outcomes;
mod preflight;
mod repeats;
mod stuck;
mod toolbox;

pub(crate) use alias::Aliases;
pub(crate) use check::check_tools;
pub(crate) use context::{CallContext, CallHistory};
pub(crate) use dispatch::{Batch, LeftOpen, run_calls};
pub(crate) use guarded::{check_guarded, is_guarded};
use outcomes::Outcomes;
use repeats::RepeatedFailures;
pub(crate) use stuck::ask_to_go_on;
pub(crate) use toolbox::{ToolMemory, ToolNews, Toolbox};
