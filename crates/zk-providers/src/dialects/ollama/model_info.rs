//! Details of models, as their server reports them.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

/// One model, as `/api/show` describes it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ModelInfo {
    /// The window it was made for, in tokens.
    pub(super) window: Option<u64>,
    pub(super) sees: bool,
    pub(super) thinks: bool,
    /// The model answers at all, and is not for embeddings.
    pub(super) answers: bool,
}

impl ModelInfo {
    /// Reads a description; nothing from a server that names no capabilities.
    pub(super) fn read(shown: &Value) -> Option<Self> {
        let capabilities = shown.get("capabilities")?.as_array()?;
        let can = |what: &str| capabilities.iter().any(|capability| capability == what);
        let info = shown.get("model_info").and_then(Value::as_object);
        let window = info
            .and_then(|info| info.iter().find(|(name, _)| name.ends_with(".context_length")))
            .and_then(|(_, length)| length.as_u64());
        Some(Self { window, sees: can("vision"), thinks: can("thinking"), answers: can("completion") })
    }
}

/// The descriptions that were fetched so far, by id.
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
