use std::sync::Arc;

use tokio::runtime::Handle;

use super::ScopeInner;

/// Scopes of a bus that was dropped without a close, newest last.
pub(crate) struct DetachedScopes(Vec<Arc<ScopeInner>>);

impl DetachedScopes {
    /// Closes `scopes` on the current runtime. Without a runtime, or if it shuts down meanwhile, the
    /// remaining clean-ups are polled once.
    pub(crate) fn close(mut scopes: Vec<Arc<ScopeInner>>) {
        scopes.iter().for_each(|scope| scope.mark_closed());
        scopes.retain(|scope| !scope.has_no_cleanups());
        if scopes.is_empty() {
            return;
        }
        let detached = Self(scopes);
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(detached.close_all());
        }
    }

    async fn close_all(mut self) {
        while let Some(scope) = self.0.last().cloned() {
            scope.close().await;
            self.0.pop();
        }
    }
}

impl Drop for DetachedScopes {
    fn drop(&mut self) {
        while let Some(scope) = self.0.pop() {
            scope.close_now();
        }
    }
}
