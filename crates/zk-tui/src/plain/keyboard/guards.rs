//! Guards that decide who receives keys, and for how long.

use tokio::sync::mpsc;

use super::Keyboard;
use crate::question::answer_keys::KeyMeaning;

/// Guard that keeps the reader of the terminal running.
#[derive(Debug)]
pub(super) struct Listening(pub(super) Keyboard);

impl Drop for Listening {
    fn drop(&mut self) {
        let mut reader = self.0.0.lock_reader();
        reader.listeners -= 1;
        if reader.listeners == 0
            && let Some((wake, thread)) = reader.running.take()
        {
            drop(wake);
            let _ = thread.join();
        }
    }
}

/// Guard of a run that keys can stop.
#[derive(Debug)]
pub struct Watching {
    pub(super) keyboard: Keyboard,
    pub(super) _listening: Option<Listening>,
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.keyboard.0.lock_state().stop = None;
    }
}

/// Guard of an open question, which is withdrawn on drop.
pub(super) struct Asking(pub(super) Keyboard);

impl Drop for Asking {
    fn drop(&mut self) {
        let mut state = self.0.0.lock_state();
        state.question = None;
        self.0.0.show_typed(&state);
    }
}

/// Receiver of the keys' meanings for one question.
pub(crate) struct Choosing {
    pub(super) meanings: mpsc::UnboundedReceiver<KeyMeaning>,
    // Dropped before the listener, whose drop joins the reader's thread.
    pub(super) _asking: Asking,
    pub(super) _listening: Listening,
}

impl Choosing {
    /// Meaning of the next key; `None` if the terminal is disconnected.
    pub(crate) async fn next(&mut self) -> Option<KeyMeaning> {
        self.meanings.recv().await
    }
}
