use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// Limit of buffered output in bytes. On a slow terminal Esc waits for up to two buffers: one in flight and
/// one queued.
const MAX_BACKLOG_BYTES: usize = 64 * 1024;

/// Printed text to draw. Printing blocks while it is full, so that keys are handled between frames.
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

    /// All of it is drawn.
    pub fn clear(&self) {
        if self.0.bytes.swap(0, Ordering::Relaxed) > 0 {
            self.0.drawn.notify_waiters();
        }
    }

    /// Waits until more may be printed.
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
