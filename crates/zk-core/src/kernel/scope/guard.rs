use super::Scope;

/// Closes its scope when dropped.
#[derive(Debug)]
pub struct ScopeGuard {
    pub(super) scope: Scope,
}

impl ScopeGuard {
    /// The guarded scope.
    #[must_use]
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    /// Closes the scope and waits for its clean-ups.
    pub async fn close(self) {
        self.scope.close().await;
    }
}

impl Drop for ScopeGuard {
    fn drop(&mut self) {
        self.scope.abandon();
    }
}
