use std::collections::BTreeMap;
use std::sync::Arc;

use crate::model::ToolSpec;

/// The tools of the run, for plugins: `cx.service::<dyn RunTools>()`. Absent outside a run.
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
    /// The tools registered now that the run may use, offered or not, in the order of their names.
    fn tools(&self) -> Vec<RunTool>;

    /// Lets the model use a lazy tool: at once, and offered from the next turn to the end of the run. Does
    /// nothing for a tool that is offered already.
    ///
    /// # Errors
    /// [`UnknownTool`] when the run has no tool of that name.
    fn unlock(&self, name: &str) -> Result<(), UnknownTool>;

    /// Calls of the run so far, by canonical name.
    fn counts(&self) -> Arc<BTreeMap<String, u32>> {
        Arc::default()
    }

    /// Counts one more call of a tool.
    fn count(&self, name: &str) {
        let _ = name;
    }
}

/// A tool as a run has it.
#[derive(Clone, Debug)]
pub struct RunTool {
    /// The canonical name.
    pub name: Arc<str>,
    /// Description of the tool for the model.
    pub spec: Arc<ToolSpec>,
    /// Whether the model may call it: it is not lazy, or it was unlocked.
    pub unlocked: bool,
}

/// A name that no tool of the run has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this run has no tool `{name}`; `RunTools::tools` lists those it has")]
pub struct UnknownTool {
    /// The name.
    pub name: String,
}
