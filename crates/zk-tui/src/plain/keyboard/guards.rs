//! Guards of who listens to the keyboard, and for how long.

use tokio::sync::mpsc;

use super::Keyboard;
use crate::question::answer_keys::KeyMeaning;

/// Reads the terminal as long as it lives.
#[derive(Debug)]
pub(super) struct Listening(pub(super) Keyboard);

impl Drop for Listening {
    fn drop(&mut self) {
        let mut reader = self.0.0.reader();
        reader.listeners -= 1;
        if reader.listeners == 0
            && let Some((wake, thread)) = reader.running.take()
        {
            drop(wake);
            let _ = thread.join();
        }
    }
}

/// A run that keys stop, as long as it lives.
#[derive(Debug)]
pub struct Watching {
    pub(super) keyboard: Keyboard,
    pub(super) _listening: Option<Listening>,
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.keyboard.0.state().stop = None;
    }
}

/// Open question, withdrawn on drop.
pub(super) struct Asking(pub(super) Keyboard);

impl Drop for Asking {
    fn drop(&mut self) {
        let mut state = self.0.0.state();
        state.question = None;
        self.0.0.show(&state);
    }
}

/// Keys of one question.
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
