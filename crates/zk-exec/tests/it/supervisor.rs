use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{bash, environment, eventually, pid_in, runs, supervised};

/// The parent of a process.
fn parent_of(pid: u32) -> u32 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(')').unwrap().1.split_ascii_whitespace().nth(1).unwrap().parse().unwrap()
}

fn kill(pid: u32) {
    kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), Signal::KILL).unwrap();
}

#[tokio::test]
async fn a_supervised_command_starts_with_no_signal_blocked_and_no_terminal() {
    let exec = supervised(environment());
    let look = "(: < /dev/tty) 2>/dev/null || echo no terminal; exec grep ^SigBlk /proc/self/status";
    let (outcome, out) = bash(&exec, look, Path::new("/"), None).await;
    outcome.unwrap();
    assert_eq!(out, "no terminal\nSigBlk:\t0000000000000000\n");
}

#[tokio::test]
async fn a_script_that_signals_its_parent_ends_neither_itself_nor_what_watches_it() {
    let exec = supervised(environment());
    let (outcome, out) = bash(&exec, "kill $PPID; kill -HUP $PPID; echo on", Path::new("/"), None).await;
    assert_eq!((outcome.unwrap().exit, out.as_str()), (zk_core::service::Exit::Code(0), "on\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_supervisor_takes_its_commands_along_and_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let exec = supervised(environment());
    let command = "env -i setsid sleep 100 > /dev/null 2>&1 & echo $! > pid; echo $PPID > reaper";
    bash(&exec, command, dir.path(), None).await.0.unwrap();
    let (left, reaper) = (pid_in(&dir.path().join("pid")), pid_in(&dir.path().join("reaper")));
    assert!(runs(left) && runs(reaper));
    kill(parent_of(reaper));
    eventually("the end of what the supervisor watched", || !runs(left) && !runs(reaper));
    let (outcome, out) = bash(&exec, "echo again", dir.path(), None).await;
    outcome.unwrap();
    assert_eq!(out, "again\n");
}

#[test]
fn a_close_outside_of_a_runtime_ends_everything_without_waiting_for_a_clock() {
    let dir = tempfile::tempdir().unwrap();
    let exec = supervised(environment());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let command = "env -i setsid sleep 100 > /dev/null 2>&1 & echo $! > pid";
    runtime.block_on(bash(&exec, command, dir.path(), None)).0.unwrap();
    let left = pid_in(&dir.path().join("pid"));
    assert!(runs(left));
    drop(runtime);
    assert!(runs(left));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(std::pin::pin!(exec.close()).poll(&mut context).is_ready());
    eventually("the end of what the supervisor watched", || !runs(left));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_reaper_takes_its_command_along_and_the_rest_falls_to_the_supervisor() {
    let dir = tempfile::tempdir().unwrap();
    let exec = supervised(environment());
    let command = "env -i setsid sleep 100 > /dev/null 2>&1 & echo $! > pid; kill -9 $PPID; sleep 100";
    let (outcome, _) = bash(&exec, command, dir.path(), None).await;
    assert!(outcome.unwrap_err().to_string().contains("was killed"));
    let left = pid_in(&dir.path().join("pid"));
    exec.close().await;
    assert!(!runs(left));
}

#[tokio::test]
async fn a_program_that_cannot_start_its_supervisor_says_so() {
    let supervision = zk_exec::Supervision::with("/no/such/program", ["x"]);
    let exec = zk_exec::ProcessExec::supervised(environment(), supervision);
    let (outcome, _) = bash(&exec, "true", Path::new("/"), None).await;
    let error = outcome.unwrap_err().to_string();
    assert!(error.contains("the process that watches over commands (/no/such/program)"), "{error}");
}
