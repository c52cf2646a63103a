//! The path of one tool call: valid and prepared arguments, gates, begin, run, end. Agents take the calls of a model
//! through its steps; [`ToolCx::run`](super::ToolCx::run) takes any other call through the same ones.

mod end;
mod run;
mod steps;
mod validate;

pub use end::CallEnd;
pub use steps::{BegunCall, CallSteps, Gated, NotRun, STOPPED_BEFORE_CALL};
pub use validate::{Validated, validate};
