//! Beginning of each request: the system prompt, and the check of the prefix that providers cache.

mod prefix_guard;
mod sections;

pub(crate) use prefix_guard::{Next, PrefixGuard, Rewrites};
pub(crate) use sections::system_prompt;
pub use sections::{GUIDE_SECTION, IDENTITY_SECTION, SectionText, section_texts};
