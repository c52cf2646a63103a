use zk_core::kernel::Cx;
use zk_core::service::{RunTools, Tool};

/// Names of other tools in what a model is told: advice to use a tool that it does not have costs it a call.
#[derive(Clone, Debug)]
pub(crate) struct ToolNames(Cx);

impl ToolNames {
    /// Returns the names of the tools that the model of this run may call.
    pub(crate) fn of(cx: &Cx) -> Self {
        Self(cx.clone())
    }

    /// Returns the model's name of a tool; nothing if it may not call it.
    pub(crate) fn get(&self, name: &str) -> Option<String> {
        match self.0.service::<dyn RunTools>() {
            Some(run) => {
                let tool = run.tools().into_iter().find(|tool| &*tool.name == name && tool.unlocked);
                tool.map(|tool| tool.spec.name.clone())
            }
            None => self.0.item::<dyn Tool>(name).map(|_| name.to_owned()),
        }
    }

    /// A clause that names a tool; empty if the model does not have it.
    pub(crate) fn advise(&self, name: &str, clause: impl FnOnce(&str) -> String) -> String {
        self.get(name).map_or_else(String::new, |name| clause(&name))
    }
}
