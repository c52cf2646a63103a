use zk_core::kernel::Cx;
use zk_core::service::{RunTools, Tool};

/// Names of the tools that this run offers, for messages to its model: advice to use a missing tool would
/// cost a call.
#[derive(Clone, Debug)]
pub(crate) struct ToolNames(Cx);

impl ToolNames {
    /// Tools that the model of this run may call.
    pub(crate) fn of(cx: &Cx) -> Self {
        Self(cx.clone())
    }

    /// Model's name of a tool; `None` if the model may not call it.
    pub(crate) fn get(&self, name: &str) -> Option<String> {
        match self.0.service::<dyn RunTools>() {
            Some(run) => {
                let tool = run.tools().into_iter().find(|tool| &*tool.name == name && tool.unlocked);
                tool.map(|tool| tool.spec.name.clone())
            }
            None => self.0.item::<dyn Tool>(name).map(|_| name.to_owned()),
        }
    }

    /// Clause with the name of a tool; empty if the model may not call it.
    pub(crate) fn advise(&self, name: &str, clause: impl FnOnce(&str) -> String) -> String {
        self.get(name).map_or_else(String::new, |name| clause(&name))
    }
}
