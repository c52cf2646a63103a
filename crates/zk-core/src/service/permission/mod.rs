//! Decisions about calls, and a person's trust in parts of a project.

mod call_judge;
mod trust;

pub use call_judge::{CallDecision, CallGuard, CallJudge, CallJudgement, CallOffer};
pub use trust::{Trust, TrustError, TrustItem};
