use rustix::process::{
    Signal, getpgid, getpgrp, getpid, getppid, getsid, kill_current_process_group, kill_process,
};

/// Stops the process as Ctrl-Z does, until a shell continues it; with `with_group`, its whole process group.
/// Returns false if no shell would continue it.
pub fn stop_process(with_group: bool) -> bool {
    let has_shell = getppid().is_some_and(|parent| {
        let is_of_session = getsid(Some(parent)).ok().is_some_and(|of| getsid(None).ok() == Some(of));
        is_of_session && getpgid(Some(parent)).is_ok_and(|group| group != getpgrp())
    });
    if has_shell {
        // SIGTSTP is caught here and would not stop the process, so SIGSTOP is sent.
        let _ = if with_group {
            kill_current_process_group(Signal::STOP)
        } else {
            kill_process(getpid(), Signal::STOP)
        };
    }
    has_shell
}
