use tokio::runtime::Handle;

use super::Scope;

/// Guard that closes its scope when dropped.
#[derive(Debug)]
pub struct ScopeGuard {
    scope: Scope,
}

impl ScopeGuard {
    /// Returns the guarded scope.
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
        self.scope.close_in_background();
    }
}

impl Scope {
    /// Returns a guard that closes the scope when dropped: registrations are removed at once, and clean-ups
    /// run on the current runtime if there is one.
    #[must_use = "dropping the guard closes the scope"]
    pub fn close_on_drop(self) -> ScopeGuard {
        ScopeGuard { scope: self }
    }

    /// Removes all registrations at once, and runs the clean-ups on the current runtime or otherwise when the
    /// bus closes.
    pub(crate) fn close_in_background(&self) {
        self.inner.remove();
        if let Ok(runtime) = Handle::try_current() {
            if !self.inner.has_no_cleanups() {
                let inner = self.inner.clone();
                runtime.spawn(async move { inner.close().await });
                return;
            }
        } else {
            self.inner.end_tasks();
        }
        if self.inner.has_no_cleanups() {
            self.inner.finish();
        }
    }
}
