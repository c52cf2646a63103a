use std::sync::Arc;

use zk_core::kernel::Bus;
use zk_exec::{Environment, ReadSandbox, ReadSandboxNotice};
use zk_permission::{DeniedFiles, Mode, PermissionJudge, PrivateFiles};

use super::{hide_in, start_for_reads};
use crate::app::Workplace;
use crate::containment::ForReads;
use crate::settings::Settings;

/// Files hidden from all reads, even if they appear later.
pub(crate) struct Unseen {
    pub(crate) denied: Arc<DeniedFiles>,
    /// Credential files of the project that a command judged as a read could reach.
    pub(crate) private: PrivateFiles,
}

/// Provides the read-only sandbox to tools as long as it can be used, and closes it with the bus.
pub(crate) fn provide_reads(
    bus: &Bus,
    (work, settings): (&Workplace, &Settings),
    judge: PermissionJudge,
    unseen: Unseen,
    found: ForReads,
    is_in_sandbox: bool,
) {
    let (made_in, made_with) = (work.clone(), settings.clone());
    let sandbox = ReadSandbox::new(move || {
        let environment = Environment::filtered(made_in.machine.env.without_secrets());
        start_for_reads(&made_in, &made_with, environment).map_err(|failure| failure.message)
    });
    let sandbox = match found {
        ForReads::Tested(exec) => sandbox.tested(*exec),
        ForReads::Later => sandbox,
        ForReads::Absent => return,
    };
    let Unseen { denied, private } = unseen;
    let (notices, judging, wanting) = (work.machine.notices.clone(), judge.clone(), judge.clone());
    let sandbox = sandbox
        .on_made(move |exec| hide_in(&denied, exec))
        .hide_appeared(move || private.take_new())
        .on_change(move |holds| if holds { judging.hold_reads() } else { judging.restrict_reads() })
        .wanted_if(move || wanting.mode() != Mode::All)
        .on_notice(move |notice| match notice {
            ReadSandboxNotice::Lost { reason } => {
                let then = if is_in_sandbox && judge.mode() == Mode::Auto {
                    "commands that only read run in the sandbox that can write to the project"
                } else {
                    "commands that only read are asked about, but for programs without configuration of their own"
                };
                notices.show(&format!(
                    "warning: {then}, until the read-only sandbox can be set up again: {reason}"
                ));
            }
            ReadSandboxNotice::Restored => {
                notices.show("the read-only sandbox is set up again: commands that only read run in it");
            }
        });
    sandbox.provide(bus);
}
