use std::pin::{Pin, pin};

use crate::opening::error::ChatError;

/// Single-threaded runtime, driven by the calling thread.
#[derive(Debug)]
pub struct Runtime(tokio::runtime::Runtime);

impl Runtime {
    /// Makes a runtime with timers and input.
    ///
    /// # Errors
    /// [`ChatError::Runtime`] when the system lacks resources.
    pub fn new() -> Result<Self, ChatError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.map(Self).map_err(ChatError::Runtime)
    }

    /// Shuts down without waiting for threads blocked in reads.
    pub fn leave(self) {
        self.0.shutdown_background();
    }

    /// Runs `future` to completion. Compiled once for each output type, so these are few.
    pub fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        let future: Pin<&mut dyn Future<Output = T>> = pin!(future);
        self.0.block_on(future)
    }
}
