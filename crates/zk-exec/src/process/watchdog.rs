use std::ffi::OsStr;
use std::process::Stdio;

use tokio::process::{Child, ChildStdin};
use tokio::runtime::Handle;

use super::spawn::{self, MARK};

/// Waits for its input to end, which it does when this process is gone, then kills what carries the mark.
const SCRIPT: &str = r#"read -r _
for round in 1 2 3; do
  for file in $(grep -lsF -e "$1" /proc/[0-9]*/environ); do
    pid=${file#/proc/}
    kill -KILL "${pid%/environ}"
  done
done"#;

/// A shell that outlives this process by a moment, should it be killed, and ends what its commands left
/// running. The kernel ends the commands themselves; it knows nothing of what they started.
#[derive(Debug)]
pub(super) struct Watchdog {
    child: Option<Child>,
    _life: Option<ChildStdin>,
    runtime: Handle,
}

impl Watchdog {
    /// Starts it. Without a shell there is none; commands run all the same.
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
