//! Events of a run's tools, and of a call in the order of its life.

mod call;
mod changed;
mod decided;
mod gate;
mod offer;
mod permission;
mod prepare;
mod result;

pub use call::{
    CallGroup, EndedCall, OutcomeCounts, ToolBatch, ToolBatchEnd, ToolBefore, ToolBegin, ToolBlocked,
    ToolParked, ToolProgress, ToolRemark, ToolSkipped, ToolUnknown, UnknownReply,
};
pub use changed::{ToolChange, ToolChangeKind, ToolLeftOut, ToolsChanged};
pub use decided::{DecidedBy, PermissionDecided};
pub use gate::{Decision, GateDecision, Ruling, ToolGate};
pub use offer::{Offer, ToolsOffer};
pub use permission::{PermissionReply, PermissionRequest};
pub use prepare::{Coercion, ToolPrepare, ValidationCoerce, ValidationReject};
pub use result::{ResultPatch, ToolAfter, ToolEnd, ToolErrored, ToolResultsAfter, ToolTransform};

pub use crate::model::CallRef;
