mod absent;
mod degraded;
mod escapes;
mod hosts;
mod layers;
mod names;
mod proof;
mod reads;
mod repositories;
mod work;

use std::path::Path;

use zk_core::service::Exit;
use zk_exec::{SandboxExec, SandboxPolicy};

use crate::support::{bash_in, environment, supervision};

/// Whether a program exists; prints a line if not.
#[expect(clippy::print_stdout, reason = "a skipped test says so")]
pub(crate) fn has(program: &str) -> bool {
    let found =
        ["/usr/local/bin", "/usr/bin", "/bin"].iter().any(|dir| Path::new(dir).join(program).exists());
    if !found {
        println!("skipped: there is no {program}");
    }
    found
}

/// Executor in a sandbox; `None`, with a printed line, if this machine cannot make one.
#[expect(clippy::print_stdout, reason = "a skipped test says so")]
pub(crate) fn sandboxed(policy: &SandboxPolicy) -> Option<SandboxExec> {
    let exec = SandboxExec::new(policy, environment(), supervision()).unwrap();
    match exec.start() {
        Ok(_) => Some(exec),
        Err(error) => {
            println!("skipped: {error}");
            None
        }
    }
}

/// Exit code and output of a command.
pub(crate) async fn run(exec: &SandboxExec, command: &str, cwd: &Path) -> (i32, String) {
    let (outcome, out) = bash_in(exec, &format!("exec 2>&1; {command}"), cwd, None).await;
    match outcome.unwrap().exit {
        Exit::Code(code) => (code, out),
        other => (-1, format!("{out}{other:?}")),
    }
}
