use zk_chat::{Interruption, Signals};

use crate::exit::Exit;

/// Watches the signals of the process. `on_leave` is called before a signal ends it.
#[expect(clippy::exit, reason = "a second signal ends the process where it is")]
pub(crate) fn watch(on_leave: impl Fn() + Send + Sync + 'static) -> std::io::Result<Signals> {
    Signals::watch(move |signal| {
        on_leave();
        std::process::exit(exit_of(signal).code().into());
    })
}

/// Returns the exit code of a process that a signal ended.
pub(crate) fn exit_of(signal: Interruption) -> Exit {
    match signal {
        Interruption::Interrupted => Exit::Interrupted,
        Interruption::Terminated => Exit::Terminated,
    }
}
