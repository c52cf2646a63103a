use std::ffi::OsStr;
use std::process::Stdio;

use tokio::process::{Child, ChildStdin};
use tokio::runtime::Handle;

use super::spawn::{self, MARK};

/// Waits for the end of its input, which comes with the end of this process, then kills the processes with
/// the mark.
const SCRIPT: &str = r#"read -r _
for round in 1 2 3; do
  for file in $(grep -lsF -e "$1" /proc/[0-9]*/environ); do
    pid=${file#/proc/}
    kill -KILL "${pid%/environ}"
  done
done"#;

/// Shell that outlives this process for a moment if it is killed, and ends background processes of its
/// commands. The kernel kills the commands themselves, but not their descendants.
#[derive(Debug)]
pub(super) struct Watchdog {
    child: Option<Child>,
    _life: Option<ChildStdin>,
    runtime: Handle,
}

impl Watchdog {
    /// Starts the shell. Without a shell there is no watchdog, and commands run without one.
    pub(super) fn start(mark: &str, runtime: &Handle) -> Self {
        let _inside = runtime.enter();
        let mut command = spawn::bare(OsStr::new("/bin/sh"), spawn::Life::Own);
        command.args(["-c", SCRIPT, "sh", &format!("{MARK}={mark}.")]).stdin(Stdio::piped());
        command.env("PATH", "/usr/bin:/bin").current_dir("/");
        let mut child = tokio::process::Command::from(command).spawn().ok();
        let life = child.as_mut().and_then(|child| child.stdin.take());
        Self { child, _life: life, runtime: runtime.clone() }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        let _inside = self.runtime.enter();
        if let Some(child) = &mut self.child {
            let _ = child.start_kill();
        }
    }
}
