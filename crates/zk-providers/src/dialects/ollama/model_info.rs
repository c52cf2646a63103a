//! Details of models, as reported by their server.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

/// Details of one model from `/api/show`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ModelInfo {
    /// Window that the model was trained for, in tokens.
    pub(super) window: Option<u64>,
    pub(super) sees: bool,
    pub(super) thinks: bool,
    /// Whether it has a template for tool calls.
    pub(super) calls: bool,
    /// Whether it is a chat model, not one for embeddings.
    pub(super) answers: bool,
}

impl ModelInfo {
    /// Parses the details; `None` from a server that lists no capabilities.
    pub(super) fn read(shown: &Value) -> Option<Self> {
        let capabilities = shown.get("capabilities")?.as_array()?;
        let can = |what: &str| capabilities.iter().any(|capability| capability == what);
        let info = shown.get("model_info").and_then(Value::as_object);
        let window = info
            .and_then(|info| info.iter().find(|(name, _)| name.ends_with(".context_length")))
            .and_then(|(_, length)| length.as_u64());
        Some(Self {
            window,
            sees: can("vision"),
            thinks: can("thinking"),
            calls: can("tools"),
            answers: can("completion"),
        })
    }
}

/// Cache of the details fetched so far, by model id.
#[derive(Debug, Default)]
pub(super) struct ModelInfoCache(Mutex<HashMap<String, ModelInfo>>);

impl ModelInfoCache {
    pub(super) fn get(&self, id: &str) -> Option<ModelInfo> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(id).cloned()
    }

    pub(super) fn insert(&self, id: &str, info: ModelInfo) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(id.to_owned(), info);
    }
}
