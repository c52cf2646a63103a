use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;

use crate::screen::host_messages::HostEvent;

/// Work that borrows the terminal.
pub(crate) struct TerminalLoan(pub(crate) Pin<Box<dyn Future<Output = ()> + Send>>);

/// Error: no conversation is drawn, so there is no screen that could lend the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no screen of the conversation has the terminal now")]
pub struct NoScreen;

/// Lends the terminal of a drawn conversation to other work, such as a command in the person's shell. Clones
/// share the screen.
#[derive(Clone, Default)]
pub struct TerminalLoans(Arc<Mutex<Option<UnboundedSender<HostEvent>>>>);

impl fmt::Debug for TerminalLoans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TerminalLoans").field("is_drawn", &self.lock().is_some()).finish()
    }
}

impl TerminalLoans {
    /// Runs `work` while the screen neither draws nor reads: the terminal is in raw mode, the cursor below the
    /// conversation. The screen continues where `work` leaves the cursor.
    ///
    /// # Errors
    /// [`NoScreen`] without a screen, or if it ended before `work` was complete.
    pub async fn lend<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, NoScreen> {
        let screen = self.lock().clone().ok_or(NoScreen)?;
        let (sender, done) = oneshot::channel();
        let loan = TerminalLoan(Box::pin(async move {
            // The borrower may have been stopped.
            let _ = sender.send(work.await);
        }));
        screen.send(HostEvent::Lend(loan)).map_err(|_| NoScreen)?;
        done.await.map_err(|_| NoScreen)
    }

    /// Sets the screen that lends, or none.
    pub(crate) fn set_screen(&self, screen: Option<UnboundedSender<HostEvent>>) {
        *self.lock() = screen;
    }

    fn lock(&self) -> MutexGuard<'_, Option<UnboundedSender<HostEvent>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
