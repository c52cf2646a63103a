use std::path::Path;
use std::process::Stdio;

use zk_exec::ProcessExec;

use crate::support::{bash, environment, eventually, pid_in, runs};

/// Not a test: the process that [`nothing_outlives_a_killed_parent`] kills.
#[tokio::test]
#[ignore = "started by another test"]
async fn victim() {
    let command = "echo $$ > leader; sleep 100 & echo $! > child; setsid sleep 100 & echo $! > escaped; wait";
    let exec = ProcessExec::new(environment());
    // The watchdog is started after the first command.
    let _ = bash(&exec, "sleep 0.2", Path::new("."), None).await;
    let _ = bash(&exec, command, Path::new("."), None).await;
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a host to be killed has to be a process of its own")]
fn nothing_outlives_a_killed_parent() {
    let dir = tempfile::tempdir().unwrap();
    let mut host = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "parent::victim"])
        .current_dir(dir.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let pids = ["leader", "child", "escaped"].map(|name| pid_in(&dir.path().join(name)));
    assert!(pids.iter().all(|pid| runs(*pid)));
    host.kill().unwrap();
    host.wait().unwrap();
    for pid in pids {
        eventually("the end", || !runs(pid));
    }
}
