use std::sync::Arc;

use zk_core::kernel::Bus;
use zk_exec::{ReadSandbox, ReadSandboxNotice, SandboxExec};
use zk_permission::{DeniedFiles, Mode, PermissionJudge, PrivateFiles};
use zk_tui::plain::Notices;

use super::containment::ForReads;
use super::denied::hide_in;

/// Files hidden from all reads, even if they appear later.
#[derive(Debug)]
pub struct Unseen {
    /// Files that rules deny by a pattern.
    pub denied: Arc<DeniedFiles>,
    /// Credential files of the project that a command judged as a read could reach.
    pub private: PrivateFiles,
}

/// Provides the read-only sandbox to tools as long as it can be used, and closes it with the bus. `start` sets
/// it up, or returns the reason why it cannot.
pub fn provide_reads(
    bus: &Bus,
    start: impl Fn() -> Result<SandboxExec, String> + Send + Sync + 'static,
    notices: Notices,
    judge: PermissionJudge,
    unseen: Unseen,
    found: ForReads,
    is_in_sandbox: bool,
) {
    let sandbox = ReadSandbox::new(start);
    let sandbox = match found {
        ForReads::Tested(exec) => sandbox.tested(*exec),
        ForReads::Later => sandbox,
        ForReads::Absent => return,
    };
    let Unseen { denied, private } = unseen;
    let (judging, wanting) = (judge.clone(), judge.clone());
    let sandbox = sandbox
        .on_made(move |exec| hide_in(&denied, exec))
        .hide_appeared(move || private.take_new_files())
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
