//! Parts of a request beside the conversation, and the context window that has to hold them all.

mod context_id;
mod context_producer;
mod section;
mod window;

pub use context_id::{ContextId, SharedReads};
pub use context_producer::{
    ContextMode, ContextProducer, DYNAMIC_CONTEXT, QUERY_CONTEXT, is_dynamic_context, is_said,
};
pub use section::{FixedSection, PromptSection, drop_section, section_order};
pub use window::{
    Compacted, ContextWindow, PinnedContext, Reduction, WindowCause, WindowFill, WindowLevel, WindowPlan,
    WindowStrategy, WindowView,
};
