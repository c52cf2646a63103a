//! The path of a tool call, from the model's request to its result.

mod alias;
mod call;
mod catch;
mod check;
mod dispatch;
mod execute;
mod guarded;
mod nearest;
mod outcomes;
mod preflight;
mod repeats;
mod toolbox;

pub(crate) use alias::Aliases;
pub(crate) use check::check_tools;
pub(crate) use dispatch::Batch;
pub(crate) use guarded::{check_guarded, is_guarded};
pub(crate) use outcomes::Outcomes;
pub(crate) use repeats::RepeatedFailures;
pub(crate) use toolbox::{ToolMemory, ToolNews, Toolbox};
