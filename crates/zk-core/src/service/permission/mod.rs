//! Decisions about calls, and what a person trusts.

mod call_judge;
mod trust;

pub use call_judge::{CallDecision, CallGuard, CallJudge, CallJudgement, CallOffer};
pub use trust::{Trust, TrustError, TrustItem};
