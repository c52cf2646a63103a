use async_trait::async_trait;

use crate::kernel::{BoxError, Cx};
use crate::model::Block;

/// Tag around context that precedes a prompt, and its
/// [`Message::injected_by`](crate::model::Message::injected_by).
pub const QUERY_CONTEXT: &str = "query_context";

/// Tag around context that follows the last message of one request.
pub const DYNAMIC_CONTEXT: &str = "dynamic_context";

/// Producer of context about the environment and current state, for the model: a registry item under its
/// name.
///
/// Per-prompt text is put before a prompt and stays in the history; it is sent again only when it changed.
/// Per-request text follows the last message of a request and is not kept. Neither changes earlier content,
/// so that providers can cache it. A producer without a text adds nothing.
///
/// ```
/// use std::sync::Arc;
///
/// use async_trait::async_trait;
/// use zk_core::kernel::{BoxError, Bus, Cx};
/// use zk_core::service::{ContextMode, ContextProducer};
///
/// struct Branch;
///
/// #[async_trait]
/// impl ContextProducer for Branch {
///     fn mode(&self) -> ContextMode {
///         ContextMode::PerQuery
///     }
///
///     async fn text(&self, _: &Cx) -> Result<Option<String>, BoxError> {
///         Ok(Some("the release is frozen".to_owned()))
///     }
/// }
///
/// let bus = Bus::new();
/// bus.scope("release").provide::<dyn ContextProducer>("release", Arc::new(Branch))?;
/// # Ok::<(), zk_core::kernel::ProvideError>(())
/// ```
#[async_trait]
pub trait ContextProducer: Send + Sync {
    /// Returns the time at which the producer is asked.
    fn mode(&self) -> ContextMode;

    /// Returns the current text; `None` if there is nothing to say.
    ///
    /// # Errors
    /// A producer that fails or takes longer than two seconds is left out and announced as
    /// [`PartLeftOut`](crate::events::PartLeftOut).
    async fn text(&self, cx: &Cx) -> Result<Option<String>, BoxError>;
}

/// Time at which a [`ContextProducer`] is asked for its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ContextMode {
    /// Once for each prompt.
    PerQuery,
    /// For each request.
    PerRequest,
}

/// Whether the block is context for one request ([`DYNAMIC_CONTEXT`]). Such a block is sent only once, so a
/// cache mark behind it would be wasted.
#[must_use]
pub fn is_dynamic_context(block: &Block) -> bool {
    let inner = block.as_text().and_then(|text| text.strip_prefix('<')?.strip_prefix(DYNAMIC_CONTEXT));
    inner.is_some_and(|rest| rest.starts_with('>'))
}

/// Whether the block is content of a prompt or an answer: no context that zk adds, and no call, result or
/// reasoning.
#[must_use]
pub fn is_said(block: &Block) -> bool {
    match block {
        // Context may have been joined to the prompt as blocks of one message when the history was
        // normalised.
        Block::Text(said) => {
            let inner = said.text.strip_prefix('<').and_then(|text| text.strip_prefix(QUERY_CONTEXT));
            !is_dynamic_context(block) && !inner.is_some_and(|rest| rest.starts_with('>'))
        }
        Block::Image(_) | Block::Document(_) => true,
        Block::ToolCall(_)
        | Block::ToolResult(_)
        | Block::Thinking(_)
        | Block::Compaction(_)
        | Block::Provider(_) => false,
    }
}
