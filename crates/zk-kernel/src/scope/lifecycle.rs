use std::future::Future;
use std::panic::Location;

use super::{Hook, Scope};

impl Scope {
    /// Registers a clean-up to run when the scope closes; the newest clean-up runs first. Removing the
    /// returned hook withdraws it. On a closed scope it runs at once, on the current runtime.
    #[track_caller]
    pub fn on_close<F, Fut>(&self, cleanup: F) -> Hook
    where
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let id = self.inner.add_cleanup(None, Location::caller(), cleanup);
        self.hook(id)
    }

    /// Spawns a background task that runs until it ends or the scope closes. Closing drops the task at its
    /// next `.await` and waits for that. Tasks and clean-ups end newest first, so a clean-up registered after
    /// the task can ask it to end gracefully. A panic is reported.
    ///
    /// Without a runtime, the task waits for [`Bus::warm_up`](crate::Bus::warm_up), which an agent calls when
    /// a run starts. [Cancelling](Hook::cancel) the returned hook ends only this task.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use zk_kernel::Bus;
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
    /// let bus = Bus::new();
    /// bus.scope("heartbeat").spawn(async {
    ///     loop {
    ///         tokio::time::sleep(Duration::from_secs(30)).await;
    ///     }
    /// });
    /// bus.close().await; // the task is gone
    /// # });
    /// ```
    #[track_caller]
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> Hook {
        let location = Location::caller();
        let added = self.open_bus(location).and_then(|bus| {
            let (id, task) = self.inner.add_task(location, task)?;
            bus.start(task);
            Some(id)
        });
        self.hook(added)
    }

    /// Removes all registrations of this scope and runs its clean-ups, newest first. If this future is
    /// dropped half-way, the next close of the scope or the bus runs the remaining clean-ups.
    pub async fn close(&self) {
        self.inner.close().await;
    }
}
