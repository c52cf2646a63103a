use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use zk_core::events::{Ruling, ToolGate};
use zk_core::kernel::{Answer, Cx, Handler};
use zk_core::model::ToolOutput;

use crate::lock::lock;
use crate::run::RunShared;
use crate::{Behavior, DedupKey};

/// Last successful call of each deduplicated tool, kept for the agent's lifetime.
#[derive(Default)]
pub(crate) struct DedupMemory(Mutex<HashMap<String, (String, ToolOutput)>>);

impl DedupMemory {
    /// Stores the result of a call under its cache key, as by [`call_key`].
    pub(crate) fn record(&self, tool: &str, key: String, output: &ToolOutput) {
        lock(&self.0).insert(tool.to_owned(), (key, output.clone()));
    }

    pub(crate) fn clear(&self) {
        lock(&self.0).clear();
    }

    fn replay(&self, tool: &str, key: &str) -> Option<ToolOutput> {
        lock(&self.0).get(tool).filter(|(last, _)| last == key).map(|(_, output)| output.clone())
    }
}

/// Computes the cache key of a call from the arguments that its gates saw.
pub(crate) fn call_key(behavior: &Behavior, tool: &str, args: &Value) -> Option<String> {
    behavior.dedup_tools.get(tool).and_then(|key| usable_key(key, args))
}

fn usable_key(key: &DedupKey, args: &Value) -> Option<String> {
    key(args).filter(|key| !key.is_empty())
}

/// Gate that answers a call with the cached result, if it repeats the last call of its tool.
pub(super) struct Dedup {
    keys: BTreeMap<String, DedupKey>,
    memory: Arc<DedupMemory>,
    run: Arc<RunShared>,
}

impl Dedup {
    pub(super) fn new(
        keys: BTreeMap<String, DedupKey>,
        memory: Arc<DedupMemory>,
        run: Arc<RunShared>,
    ) -> Self {
        Self { keys, memory, run }
    }
}

impl Handler<ToolGate> for Dedup {
    async fn call(&self, gate: &ToolGate, cx: &Cx) -> Answer<ToolGate> {
        if gate.is_decided() || !self.run.owns(cx) {
            return Ok(None);
        }
        let replayed = self.keys.get(&gate.call.name).and_then(|key| {
            let key = usable_key(key, &gate.args)?;
            self.memory.replay(&gate.call.name, &key)
        });
        Ok(replayed.map(Ruling::Substitute))
    }
}
