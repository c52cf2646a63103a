use zk_chat::{Interruption, Signals};

use crate::exit::Exit;

/// Watches the signals of the process. `on_leave` is called before a signal ends it.
#[expect(clippy::exit, reason = "a second signal ends the process where it is")]
pub(crate) fn watch(on_leave: impl Fn() + Send + Sync + 'static) -> std::io::Result<Signals> {
    Signals::watch(move |signal| {
        on_leave();
        std::process::exit(Exit::from(signal).code().into());
    })
}

impl From<Interruption> for Exit {
    fn from(signal: Interruption) -> Self {
        match signal {
            Interruption::Interrupted => Self::Interrupted,
            Interruption::Terminated => Self::Terminated,
        }
    }
}
