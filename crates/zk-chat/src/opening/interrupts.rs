use tokio_util::sync::CancellationToken;

/// Signal that interrupted a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interruption {
    /// Interrupt by the person.
    Interrupted,
    /// Termination request.
    Terminated,
}

/// Signals of the process. While disarmed, interrupts go to the reader of the terminal.
pub trait Interrupts: Send + Sync {
    /// Makes the next signal cancel `stop` instead of ending the process.
    fn arm(&self, stop: CancellationToken);

    /// Stops handling interrupts, which then go to the reader of the terminal.
    fn disarm(&self);

    /// Signal received since the last `arm`.
    fn seen(&self) -> Option<Interruption>;

    /// Makes the suspend signal (SIGTSTP) call `suspend`; only the first call of this counts.
    fn on_suspend(&self, suspend: Box<dyn Fn() + Send + Sync>);
}

/// Signals of a process that keeps the default handlers.
#[derive(Clone, Copy, Debug)]
pub struct NoInterrupts;

impl Interrupts for NoInterrupts {
    fn arm(&self, _: CancellationToken) {}

    fn disarm(&self) {}

    fn seen(&self) -> Option<Interruption> {
        None
    }

    fn on_suspend(&self, _: Box<dyn Fn() + Send + Sync>) {}
}
