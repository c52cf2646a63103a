//! A tool call, in the order of what happens to it.

mod call;
mod gate;
mod prepare;
mod result;

pub use call::{
    ToolBefore, ToolBegin, ToolBlocked, ToolParked, ToolProgress, ToolSkipped, ToolUnknown, UnknownReply,
};
pub use gate::{Decision, Passed, Ruling, ToolGate};
pub use prepare::{Coercion, ToolPrepare, ValidationCoerce, ValidationReject};
pub use result::{ResultPatch, ToolAfter, ToolEnd, ToolErrored, ToolResultsAfter, ToolTransform};

pub use crate::model::CallRef;
