use std::collections::BTreeSet;

use zk_core::events::{Ruling, ToolGate};
use zk_core::kernel::{Answer, Cx, Handler};

use crate::output::OUTPUT_TOOL;

/// Refuses every tool that is not on the list.
pub(super) struct AllowedTools(BTreeSet<String>);

impl AllowedTools {
    pub(super) fn new(names: &[String]) -> Self {
        Self(names.iter().cloned().chain([OUTPUT_TOOL.to_owned()]).collect())
    }
}

impl Handler<ToolGate> for AllowedTools {
    async fn call(&self, gate: &ToolGate, _: &Cx) -> Answer<ToolGate> {
        if gate.is_decided() || self.0.contains(&gate.call.name) {
            return Ok(None);
        }
        let names: Vec<&str> =
            self.0.iter().map(String::as_str).filter(|name| *name != OUTPUT_TOOL).collect();
        let reason =
            format!("`{}` is not allowed here; allowed are: {}", gate.call.display_name, names.join(", "));
        Ok(Some(Ruling::Refuse(reason)))
    }
}
