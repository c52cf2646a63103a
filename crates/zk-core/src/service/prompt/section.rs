use std::sync::Arc;

use async_trait::async_trait;

use crate::kernel::{BoxError, Cx, Scope};

/// One section of the system prompt: a registry item whose name is the section's id.
///
/// The agent puts its own prompt first, then the sections by [`order`](Self::order) and id, separated by
/// empty lines. A section has one owner; other plugins decorate, replace or drop it ([`drop_section`]) by its
/// id. Text that changes from turn to turn belongs to [`ContextTransform`](crate::events::ContextTransform)
/// instead, so that providers can cache the prompt.
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
    /// Returns the position among the sections, lowest first; see [`section_order`].
    fn order(&self) -> i32;

    /// Returns the text, which is requested at the start of each run and fixed for it. A blank text leaves
    /// the section out.
    ///
    /// # Errors
    /// A section that fails, panics or takes longer than five seconds is left out and announced as
    /// [`PartLeftOut`](crate::events::PartLeftOut).
    async fn text(&self, cx: &Cx) -> Result<String, BoxError>;
}

/// Usual positions of sections.
pub mod section_order {
    /// Position of sections about the working environment.
    pub const PLACE: i32 = 100;
    /// Position of sections with instructions of the project.
    pub const PROJECT: i32 = 200;
    /// Position of sections about content that can be loaded on demand.
    pub const SKILLS: i32 = 300;
    /// Position of sections with memories.
    pub const MEMORY: i32 = 400;
    /// Position after all other sections.
    pub const AT_END: i32 = 1000;
}

/// A section with a constant text.
#[derive(Clone, Debug)]
pub struct FixedSection {
    order: i32,
    text: String,
}

impl FixedSection {
    /// Creates a section with `text` at position `order`.
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

/// Drops the section `id` from the prompt as long as `scope` is open, regardless of its owner.
#[track_caller]
pub fn drop_section(scope: &Scope, id: &str) {
    scope.decorate::<dyn PromptSection>(id, |section| Arc::new(FixedSection::new(section.order(), "")));
}
