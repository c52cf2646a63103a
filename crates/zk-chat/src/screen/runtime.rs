use std::pin::{Pin, pin};

use crate::opening::error::ChatError;

/// Runtime of one job, on the thread that it is called from.
#[derive(Debug)]
pub struct Runtime(tokio::runtime::Runtime);

impl Runtime {
    /// Makes a runtime with timers and input.
    ///
    /// # Errors
    /// [`ChatError::Runtime`] when the system has no resources for one.
    pub fn new() -> Result<Self, ChatError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.map(Self).map_err(ChatError::Runtime)
    }

    /// Ends without waiting for threads that read what may never come.
    pub fn leave(self) {
        self.0.shutdown_background();
    }

    /// Runs `future` to its end. The runtime is compiled for each type of future: by what they give, these are few.
    pub fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        let future: Pin<&mut dyn Future<Output = T>> = pin!(future);
        self.0.block_on(future)
    }
}
