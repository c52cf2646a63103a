use std::sync::Arc;

use zk_core::model::SessionId;
use zk_core::service::{EngineName, StoreError};

use super::Runs;

impl Runs {
    /// Returns a handle to the runs for one tenant. Databases with row-level security hide the runs and sessions of other
    /// tenants; with others, the caller's filter by tenant is the only check.
    #[must_use]
    pub fn of_tenant(&self, tenant: &EngineName) -> Self {
        let engine = self.engine.of_tenant(tenant).unwrap_or_else(|| Arc::clone(&self.engine));
        let store = self.store.of_tenant(tenant).unwrap_or_else(|| Arc::clone(&self.store));
        Self { engine, store, redactor: Arc::clone(&self.redactor) }
    }

    /// Gives a session to the tenant of its run, if that has one.
    pub(crate) async fn assign_session(
        &self,
        session: &SessionId,
        tenant: Option<&EngineName>,
    ) -> Result<(), StoreError> {
        match tenant {
            Some(tenant) => self.store.set_tenant(session, tenant).await,
            None => Ok(()),
        }
    }
}
