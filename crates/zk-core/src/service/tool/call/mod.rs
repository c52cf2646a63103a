//! Steps of one tool call: argument validation, gates, begin, run, end. Agents take a model's calls through
//! the steps one by one; [`ToolCx::run`](super::ToolCx::run) does the same for any other call.

mod end;
mod run;
mod steps;
mod validate;

pub use end::CallEnd;
pub use steps::{BegunCall, CallSteps, Gated, NotRun, STOPPED_BEFORE_CALL};
pub use validate::{Validated, validate};
