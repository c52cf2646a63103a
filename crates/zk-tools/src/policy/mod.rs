mod compress;
mod handles;
mod redact;
mod result_caps;
mod spill;
mod tags;

pub(crate) use compress::CutOutput;
pub use compress::{
    Certainty, Compress, CompressLimits, Compression, LearnedRule, LearnedRules, OutputCompressed,
};
pub use handles::OutputHandles;
pub use redact::RedactResults;
pub(crate) use result_caps::ResultCaps;
pub use spill::Spill;
pub(crate) use spill::handle_of;
pub use tags::VisibleTags;
pub(crate) use tags::visible_tags;
