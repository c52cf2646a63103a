use std::fmt;
use std::sync::Arc;

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::registry::{Registration, Registry};
use super::shared::{ExtensionState, Introduction, Shared};
use crate::error::ExtensionError;

/// Handle of an extension, for the program that installed it.
#[derive(Clone)]
pub struct ExtensionHandle {
    pub(super) shared: Arc<Shared>,
    pub(super) registry: Arc<Registry>,
}

impl fmt::Debug for ExtensionHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExtensionHandle").field("name", &self.shared.name()).finish_non_exhaustive()
    }
}

impl ExtensionHandle {
    /// Returns the state of its program.
    #[must_use]
    pub fn state(&self) -> ExtensionState {
        self.shared.state()
    }

    /// Waits until it is ready.
    ///
    /// # Errors
    /// [`ExtensionError`], if it does not run or is not ready within its time.
    pub async fn ready(&self) -> Result<Introduction, ExtensionError> {
        self.shared.ready().await
    }

    /// Returns everything that is registered now.
    #[must_use]
    pub fn registered(&self) -> Vec<Registration> {
        self.registry.list()
    }

    /// Sends a request of the protocol, for programs that try an extension out.
    ///
    /// # Errors
    /// [`ExtensionError`], if there is no result.
    pub async fn request(&self, method: &str, params: &Value) -> Result<Value, ExtensionError> {
        let introduction = self.shared.ready().await?;
        let limit = self.shared.config.limits.call;
        introduction.link.request(method, params, limit, &CancellationToken::new()).await
    }
}
