use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use zk_core::model::{AgentError, Block, Message, ToolSpec};

/// Aliases of tools: names for the model that differ from the canonical ones.
#[derive(Clone, Default)]
pub(crate) struct Aliases {
    to_wire: Arc<BTreeMap<String, String>>,
    to_canonical: Arc<BTreeMap<String, String>>,
}

impl Aliases {
    pub(crate) fn new(to_wire: BTreeMap<String, String>) -> Result<Self, AgentError> {
        let mut to_canonical = BTreeMap::new();
        for (canonical, wire) in &to_wire {
            if let Some(other) = to_canonical.insert(wire.clone(), canonical.clone()) {
                return Err(AgentError::Usage(format!(
                    "tools `{other}` and `{canonical}` would both be called `{wire}` by the model"
                )));
            }
        }
        Ok(Self { to_wire: Arc::new(to_wire), to_canonical: Arc::new(to_canonical) })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.to_wire.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&String, &String)> {
        self.to_wire.iter()
    }

    /// Checks that a tool's name does not collide with an alias.
    pub(crate) fn check(&self, name: &str) -> Result<(), String> {
        let clashes = !self.to_wire.contains_key(name)
            && self.to_canonical.get(name).is_some_and(|other| other != name);
        if clashes {
            return Err(format!("the alias `{name}` is the name of another tool; choose another alias"));
        }
        Ok(())
    }

    pub(crate) fn wire(&self, canonical: &str) -> String {
        self.to_wire.get(canonical).map_or_else(|| canonical.to_owned(), Clone::clone)
    }

    pub(crate) fn canonical(&self, wire: String) -> String {
        self.to_canonical.get(&wire).cloned().unwrap_or(wire)
    }

    pub(crate) fn spec(&self, canonical: &str, spec: &Arc<ToolSpec>) -> Arc<ToolSpec> {
        let wire = self.wire(canonical);
        if wire == spec.name {
            return spec.clone();
        }
        Arc::new(ToolSpec { name: wire, ..ToolSpec::clone(spec) })
    }
}

/// Cache of messages with renamed tools, so that equal messages of several requests are shared.
#[derive(Default)]
pub(crate) struct Renamed {
    /// Renamed messages by the address of the stored message, which each entry keeps alive.
    by_address: HashMap<usize, (Arc<Message>, Arc<Message>)>,
}

impl Renamed {
    pub(crate) fn of(&mut self, stored: Arc<Message>, aliases: &Aliases) -> Arc<Message> {
        if !stored.calls().any(|call| aliases.to_wire.contains_key(&call.name)) {
            return stored;
        }
        let address = Arc::as_ptr(&stored).addr();
        let (_, renamed) = self.by_address.entry(address).or_insert_with(|| {
            let mut renamed = Message::clone(&stored);
            for block in &mut renamed.content {
                if let Block::ToolCall(call) = block {
                    call.name = aliases.wire(&call.name);
                }
            }
            (stored, Arc::new(renamed))
        });
        renamed.clone()
    }
}
