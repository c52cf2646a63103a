use std::collections::BTreeSet;
use std::sync::Arc;

use zk_core::events::{Ruling, ToolGate};
use zk_core::kernel::{Answer, Cx, Handler};

use crate::output::OUTPUT_TOOL;
use crate::shared::RunShared;

/// Refuses every tool that is not on the list.
pub(super) struct AllowedTools {
    names: BTreeSet<String>,
    run: Arc<RunShared>,
}

impl AllowedTools {
    pub(super) fn new(names: &[String], run: Arc<RunShared>) -> Self {
        Self { names: names.iter().cloned().chain([OUTPUT_TOOL.to_owned()]).collect(), run }
    }
}

impl Handler<ToolGate> for AllowedTools {
    async fn call(&self, gate: &ToolGate, cx: &Cx) -> Answer<ToolGate> {
        if gate.is_decided() || !self.run.owns(cx) || self.names.contains(&gate.call.name) {
            return Ok(None);
        }
        let names: Vec<&str> =
            self.names.iter().map(String::as_str).filter(|name| *name != OUTPUT_TOOL).collect();
        let reason =
            format!("`{}` is not allowed here; allowed are: {}", gate.call.display_name, names.join(", "));
        Ok(Some(Ruling::Refuse(reason)))
    }
}
