use tokio_util::sync::CancellationToken;

/// Signal that stopped something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interruption {
    /// The person does not want to wait.
    Interrupted,
    /// The process has to end.
    Terminated,
}

/// Signals of the process. Where nothing is armed, the terminal's reader gets those of the person.
pub trait Interrupts: Send + Sync {
    /// The next signal stops `stop`, and the process goes on.
    fn arm(&self, stop: CancellationToken);

    /// Leaves interrupts from now on to whoever reads the terminal.
    fn disarm(&self);

    /// The signal that came since something was armed.
    fn seen(&self) -> Option<Interruption>;

    /// Makes the signal that stops a process call `suspend`; only the first `suspend` counts.
    fn on_suspend(&self, suspend: Box<dyn Fn() + Send + Sync>);
}

/// Signals of a process that leaves them as they are.
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
