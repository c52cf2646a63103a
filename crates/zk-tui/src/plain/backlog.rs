use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// Maximum size of printed text that is not drawn, in bytes. On a slow terminal, Escape waits for up to two
/// buffers: one in flight and one queued.
const MAX_BACKLOG_BYTES: usize = 64 * 1024;

/// Counter of printed text that is not drawn yet. Printing waits while it is full, so that keys are handled
/// between frames.
#[derive(Clone, Debug, Default)]
pub struct Backlog(Arc<State>);

#[derive(Debug, Default)]
struct State {
    bytes: AtomicUsize,
    drawn: Notify,
}

impl Backlog {
    pub(crate) fn add(&self, bytes: usize) {
        self.0.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Records that all printed text is drawn.
    pub fn clear(&self) {
        if self.0.bytes.swap(0, Ordering::Relaxed) > 0 {
            self.0.drawn.notify_waiters();
        }
    }

    /// Waits until there is room for more text.
    pub async fn room(&self) {
        loop {
            let mut drawn = pin!(self.0.drawn.notified());
            drawn.as_mut().enable();
            if self.0.bytes.load(Ordering::Relaxed) < MAX_BACKLOG_BYTES {
                return;
            }
            drawn.await;
        }
    }
}
