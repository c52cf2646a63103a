use std::path::Path;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;
use zk_core::service::{Exec, ExecError, ExecOutcome, ExecRequest, OutputStream};
use zk_exec::{Environment, ProcessExec, Supervision};

pub(crate) fn environment() -> Environment {
    Environment::filtered([("PATH", "/usr/local/bin:/usr/bin:/bin"), ("LC_ALL", "C")])
}

/// Executor with a supervisor, which is this test program.
pub(crate) fn supervised(environment: Environment) -> ProcessExec {
    ProcessExec::supervised(environment, supervision())
}

/// Command line that turns this test program into a supervisor.
pub(crate) fn supervision() -> Supervision {
    let own = std::env::current_exe().unwrap();
    Supervision::with(own, ["--ignored", "--exact", "support::supervisor"])
}

/// Helper process, no test: the supervisor of the other tests.
#[test]
#[ignore = "started by another test"]
fn supervisor() {
    fork_supervisor(|| ());
}

/// Runs a supervisor, after `before`, and waits for its end.
#[expect(unsafe_code, reason = "the supervisor needs a process with one thread, which a test has not")]
pub(crate) fn fork_supervisor(before: impl FnOnce()) {
    // SAFETY: the copy of the forking thread runs the supervisor, which is made for that, and ends with it.
    match unsafe { libc::fork() } {
        0 => {
            before();
            let code = i32::from(zk_exec::run_supervisor().is_err());
            // SAFETY: ends the copy.
            unsafe { libc::_exit(code) }
        }
        pid => {
            rustix::stdio::dup2_stdin(std::fs::File::open("/dev/null").unwrap()).unwrap();
            let pid = rustix::process::Pid::from_raw(pid);
            rustix::process::waitpid(pid, rustix::process::WaitOptions::empty()).unwrap();
        }
    }
}

/// Runs `command` with bash and returns what it printed.
pub(crate) async fn bash(
    exec: &ProcessExec,
    command: &str,
    cwd: &Path,
    timeout: Option<Duration>,
) -> (Result<ExecOutcome, ExecError>, String) {
    bash_in(exec, command, cwd, timeout).await
}

/// As [`bash`], in any context.
pub(crate) async fn bash_in(
    exec: &dyn Exec,
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

/// Whether a process runs; a zombie does not.
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
