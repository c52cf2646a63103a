use std::path::Path;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;
use zk_core::service::{Exec, ExecError, ExecOutcome, ExecRequest, OutputStream};
use zk_exec::{Environment, ProcessExec};

pub(crate) fn exec() -> ProcessExec {
    ProcessExec::new(Environment::filtered([("PATH", "/usr/local/bin:/usr/bin:/bin"), ("LC_ALL", "C")]))
}

/// Runs `command` with bash and returns what it printed.
pub(crate) async fn bash(
    exec: &ProcessExec,
    command: &str,
    cwd: &Path,
    timeout: Option<Duration>,
) -> (Result<ExecOutcome, ExecError>, String) {
    let mut out = Vec::new();
    let mut sink = |_: OutputStream, bytes: &[u8]| out.extend_from_slice(bytes);
    let request = ExecRequest { timeout, ..ExecRequest::shell(command, cwd) };
    let outcome = exec.run(request, &mut sink, &CancellationToken::new()).await;
    (outcome, String::from_utf8_lossy(&out).into_owned())
}

/// Waits until `check` holds; a test that waits for ever is ended by the test runner.
pub(crate) fn eventually(what: &str, check: impl Fn() -> bool) {
    let began = Instant::now();
    while !check() {
        assert!(began.elapsed() < Duration::from_secs(20), "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether a process runs; one that only nobody has waited for does not.
pub(crate) fn runs(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .ok()
        .and_then(|stat| stat.rsplit_once(')').map(|(_, rest)| rest.trim_start().starts_with(['Z', 'X'])))
        .is_some_and(|gone| !gone)
}

/// The process id a command wrote to `file`.
pub(crate) fn pid_in(file: &Path) -> u32 {
    eventually("a process id", || {
        std::fs::read_to_string(file)
            .is_ok_and(|text| text.ends_with('\n') && text.trim().parse::<u32>().is_ok())
    });
    std::fs::read_to_string(file).unwrap().trim().parse().unwrap()
}
