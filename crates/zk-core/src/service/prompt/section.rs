use std::sync::Arc;

use async_trait::async_trait;

use crate::kernel::{BoxError, Cx, Scope};

/// One section of the system prompt: a registry item whose name is the section's id.
///
/// The agent puts its own prompt first, then the sections by [`order`](Self::order) and id, an empty line between
/// them. A section has one owner; another plugin decorates it, replaces it or drops it ([`drop_section`]) by its id.
/// What changes from turn to turn has no place here: it goes to
/// [`ContextTransform`](crate::events::ContextTransform), so that providers can cache the prompt.
///
/// ```
/// use std::sync::Arc;
///
/// use zk_core::kernel::Bus;
/// use zk_core::service::{FixedSection, PromptSection, section_order};
///
/// let bus = Bus::new();
/// let section = FixedSection::new(section_order::PROJECT, "Write tests first.");
/// bus.scope("house-rules").provide::<dyn PromptSection>("house-rules", Arc::new(section))?;
/// # Ok::<(), zk_core::kernel::ProvideError>(())
/// ```
#[async_trait]
pub trait PromptSection: Send + Sync {
    /// Place among the sections, lowest first; see [`section_order`].
    fn order(&self) -> i32;

    /// The text, asked for at the start of each run and fixed for it. A blank one leaves the section out.
    ///
    /// # Errors
    /// A section that fails, panics or takes longer than five seconds is left out and announced as
    /// [`PartLeftOut`](crate::events::PartLeftOut).
    async fn text(&self, cx: &Cx) -> Result<String, BoxError>;
}

/// The usual places of sections.
pub mod section_order {
    /// Place of sections on where the agent works.
    pub const PLACE: i32 = 100;
    /// Place of sections on what the project says.
    pub const PROJECT: i32 = 200;
    /// Place of sections on what can be loaded on demand.
    pub const SKILLS: i32 = 300;
    /// Place of sections on what was remembered.
    pub const MEMORY: i32 = 400;
    /// After everything else.
    pub const AT_END: i32 = 1000;
}

/// A section whose text is known when it is registered.
#[derive(Clone, Debug)]
pub struct FixedSection {
    order: i32,
    text: String,
}

impl FixedSection {
    /// A section with `text` at `order`.
    #[must_use]
    pub fn new(order: i32, text: impl Into<String>) -> Self {
        Self { order, text: text.into() }
    }
}

#[async_trait]
impl PromptSection for FixedSection {
    fn order(&self) -> i32 {
        self.order
    }

    async fn text(&self, _: &Cx) -> Result<String, BoxError> {
        Ok(self.text.clone())
    }
}

/// Leaves the section `id` out of the prompt as long as `scope` is open, whoever registered it.
#[track_caller]
pub fn drop_section(scope: &Scope, id: &str) {
    scope.decorate::<dyn PromptSection>(id, |section| Arc::new(FixedSection::new(section.order(), "")));
}
