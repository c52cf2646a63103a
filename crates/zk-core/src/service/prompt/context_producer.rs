use async_trait::async_trait;

use crate::kernel::{BoxError, Cx};
use crate::model::Block;

/// Tag of what is put before a prompt, and who put it there.
pub const QUERY_CONTEXT: &str = "query_context";

/// Tag of what stands behind the last message of one request.
pub const DYNAMIC_CONTEXT: &str = "dynamic_context";

/// Something a model should know of where it works and what goes on: a registry item under its name.
///
/// Text that holds when a prompt is sent is put before the prompt and stays there; it is sent again only once
/// it is another text. Text that holds for the moment is put behind the last message of each request and is
/// not kept. Neither ever changes what was sent before, so that providers can cache it; a part without a text
/// adds nothing at all.
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
    /// Moments at which it is asked.
    fn mode(&self) -> ContextMode;

    /// The text now; nothing where there is nothing to say.
    ///
    /// # Errors
    /// A part that fails or takes longer than two seconds is left out and announced as
    /// [`PartLeftOut`](crate::events::PartLeftOut).
    async fn text(&self, cx: &Cx) -> Result<Option<String>, BoxError>;
}

/// Moments at which a [`ContextProducer`] is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ContextMode {
    /// Once for each prompt.
    PerQuery,
    /// For each request.
    PerRequest,
}

/// Whether a block is [`DYNAMIC_CONTEXT`]. Such a block is sent once: a cache mark behind it would be wasted.
#[must_use]
pub fn is_dynamic_context(block: &Block) -> bool {
    let inner = block.as_text().and_then(|text| text.strip_prefix('<')?.strip_prefix(DYNAMIC_CONTEXT));
    inner.is_some_and(|rest| rest.starts_with('>'))
}
