//! Recording side: digests of requests and facts about calls, stored with a session.

mod plugin;
mod provider;
mod stored;

pub use plugin::ReplayLog;
pub use stored::{REPLAY_ENTRY, REPLAY_ENTRY_VERSION, Verdict};

pub(crate) use plugin::MAX_REQUESTS;
pub(crate) use provider::{is_side_call, side_call_digest};
pub(crate) use stored::{CallFacts, PartFacts, RequestFacts, RunFacts};
