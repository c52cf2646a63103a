use std::collections::BTreeMap;
use std::sync::Arc;

use crate::model::ToolSpec;

/// Tools of the current run, for plugins: `cx.service::<dyn RunTools>()`. Absent outside of a run.
///
/// ```
/// use zk_core::kernel::Cx;
/// use zk_core::service::{RunTools, UnknownTool};
///
/// /// What a tool that searches tools does with its hits.
/// fn disclose(hits: &[&str], cx: &Cx) -> Result<(), UnknownTool> {
///     let Some(tools) = cx.service::<dyn RunTools>() else { return Ok(()) };
///     hits.iter().try_for_each(|name| tools.unlock(name))
/// }
/// ```
pub trait RunTools: Send + Sync {
    /// Returns all registered tools that the run may use, offered or not, sorted by name.
    fn tools(&self) -> Vec<RunTool>;

    /// Unlocks a lazy tool: the model may call it at once, and requests offer it from the next turn to the
    /// end of the run. Does nothing for a tool that is already offered.
    ///
    /// # Errors
    /// [`UnknownTool`] when the run has no tool of that name.
    fn unlock(&self, name: &str) -> Result<(), UnknownTool>;

    /// Returns the number of calls of the run so far, by canonical name.
    fn counts(&self) -> Arc<BTreeMap<String, u32>> {
        Arc::default()
    }

    /// Counts one more call of the tool `name`.
    fn count(&self, name: &str) {
        let _ = name;
    }
}

/// A tool of a run.
#[derive(Clone, Debug)]
pub struct RunTool {
    /// Canonical name of the tool.
    pub name: Arc<str>,
    /// Specification of the tool for the model.
    pub spec: Arc<ToolSpec>,
    /// Whether requests offer the tool only once the run asked for it.
    pub is_lazy: bool,
    /// Whether the model may call the tool: it is not lazy, or was unlocked.
    pub unlocked: bool,
}

/// The run has no tool of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this run has no tool `{name}`; `RunTools::tools` lists those it has")]
pub struct UnknownTool {
    /// Name of the requested tool.
    pub name: String,
}
