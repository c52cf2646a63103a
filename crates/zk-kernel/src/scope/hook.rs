use std::fmt;
use std::future::Future;
use std::panic::Location;
use std::sync::{Arc, Weak};

use super::inner::ScopeInner;
use super::task::Task;

/// Handle of one registration, to remove it before its scope closes. Dropping the handle changes nothing.
#[derive(Clone)]
pub struct Hook {
    /// Id of the registration; `None` if the scope was closed already.
    pub(super) id: Option<u64>,
    pub(super) scope: Weak<ScopeInner>,
}

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hook").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Hook {
    /// Registers `cleanup` to run when this registration is cancelled, or when its scope closes.
    #[track_caller]
    pub fn on_close<F, Fut>(self, cleanup: F) -> Self
    where
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        if let Some(scope) = self.scope.upgrade() {
            scope.add_cleanup(self.id, Location::caller(), cleanup);
        }
        self
    }

    /// Removes the registration at once, and ends a [task](super::Scope::spawn) at its next `.await`.
    /// Attached clean-ups run when the scope closes. A tombstone, which a reload made from a gate, stays.
    pub fn remove(&self) {
        if let Some(task) = self.unregister() {
            task.end_soon();
        }
    }

    /// Removes the registration, waits for the end of its task and runs the attached clean-ups.
    pub async fn cancel(self) {
        if let Some(task) = self.unregister() {
            task.end().await;
        }
        if let (Some(scope), Some(id)) = (self.scope.upgrade(), self.id) {
            scope.run_attached(id).await;
        }
    }

    /// Removes the registration; returns its task, if any, for the caller to end.
    fn unregister(&self) -> Option<Arc<Task>> {
        let id = self.id?;
        let scope = self.scope.upgrade()?;
        let task = scope.withdraw_cleanup(id);
        if let Some(bus) = scope.bus.upgrade() {
            bus.write_table(|table| {
                table.retain(|entry| entry.id != id || entry.run.is_none());
                table.retain_observers(|observer| observer.id != id);
            });
        }
        task
    }
}
