use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use secrecy::SecretString;
use zk_core::service::{Engine, EngineError};
use zk_engine::EngineKind;

use super::engine::TemporalEngine;
use super::location::TemporalLocation;

/// Kind of the addresses `temporal://…`, for a program on `zk-cli`.
///
/// ```
/// use zk_engine::EngineKind;
/// use zk_fleet::TemporalKind;
///
/// let kind = TemporalKind::new(None);
/// assert!(kind.open("temporal://127.0.0.1:7233/team").is_ok());
/// assert!(kind.open("temporal://user:password@host").is_err());
/// ```
#[derive(Default)]
pub struct TemporalKind {
    api_key: Option<SecretString>,
}

impl fmt::Debug for TemporalKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TemporalKind").finish_non_exhaustive()
    }
}

impl TemporalKind {
    /// Creates the kind, with the API key for its servers if they want one. A key needs an address with `?tls`.
    #[must_use]
    pub fn new(api_key: Option<SecretString>) -> Self {
        Self { api_key }
    }

    fn engine(&self, address: &str) -> Result<TemporalEngine, EngineError> {
        let failed = |why: String| EngineError::Failed { doing: "use the engine's address", why };
        let location: TemporalLocation =
            address.parse().map_err(|error: super::location::LocationError| failed(error.to_string()))?;
        match &self.api_key {
            None => Ok(TemporalEngine::new(location)),
            Some(_) if !location.has_tls() => {
                Err(failed(format!("{location} would send the API key in clear; add ?tls, or unset the key")))
            }
            Some(key) => Ok(TemporalEngine::new(location).with_api_key(key.clone())),
        }
    }
}

#[async_trait]
impl EngineKind for TemporalKind {
    fn schemes(&self) -> &'static [&'static str] {
        &["temporal"]
    }

    fn open(&self, address: &str) -> Result<Arc<dyn Engine>, EngineError> {
        Ok(Arc::new(self.engine(address)?))
    }

    async fn set_up(&self, address: &str) -> Result<String, EngineError> {
        let engine = self.engine(address)?;
        let version = engine.check().await?;
        Ok(format!("{} is ready for runs ({version}); nothing had to be prepared", engine.location()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_never_sent_in_clear() {
        let kind = TemporalKind::new(Some("canary-key".into()));
        let error = kind.open("temporal://h/n").err().unwrap().to_string();
        assert!(error.contains("?tls") && !error.contains("canary"), "{error}");
        assert!(kind.open("temporal://h/n?tls").is_ok());
        assert!(!format!("{kind:?}").contains("canary"));
    }
}
