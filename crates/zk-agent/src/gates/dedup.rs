use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, Weak};

use serde_json::Value;
use zk_core::events::{Ruling, ToolGate};
use zk_core::kernel::{Answer, Cx, Handler};
use zk_core::model::ToolOutput;

use crate::agent::AgentInner;
use crate::shared::lock;
use crate::{Behavior, DedupKey};

/// The last successful call of each tool that may be replayed, for as long as the agent lives.
#[derive(Default)]
pub(crate) struct DedupMemory(Mutex<HashMap<String, (String, ToolOutput)>>);

impl DedupMemory {
    pub(crate) fn record(&self, behavior: &Behavior, tool: &str, args: &Value, output: &ToolOutput) {
        if let Some(key) = behavior.dedup_tools.get(tool).and_then(|key| usable_key(key, args)) {
            lock(&self.0).insert(tool.to_owned(), (key, output.clone()));
        }
    }

    pub(crate) fn clear(&self) {
        lock(&self.0).clear();
    }

    fn replay(&self, tool: &str, key: &str) -> Option<ToolOutput> {
        lock(&self.0).get(tool).filter(|(last, _)| last == key).map(|(_, output)| output.clone())
    }
}

fn usable_key(key: &DedupKey, args: &Value) -> Option<String> {
    key(args).filter(|key| !key.is_empty())
}

/// Gives a call that repeats the last one of its tool the same result.
pub(super) struct Dedup {
    keys: BTreeMap<String, DedupKey>,
    agent: Weak<AgentInner>,
}

impl Dedup {
    pub(super) fn new(keys: BTreeMap<String, DedupKey>, agent: Weak<AgentInner>) -> Self {
        Self { keys, agent }
    }
}

impl Handler<ToolGate> for Dedup {
    async fn call(&self, gate: &ToolGate, _: &Cx) -> Answer<ToolGate> {
        if gate.is_decided() {
            return Ok(None);
        }
        let replayed = self.keys.get(&gate.call.name).and_then(|key| {
            let key = usable_key(key, &gate.args)?;
            self.agent.upgrade()?.dedup.replay(&gate.call.name, &key)
        });
        Ok(replayed.map(Ruling::Substitute))
    }
}
