//! Limits of one command, and the messages when it uses more.

use std::time::Duration;

use zk_core::service::{DeniedAct, Exec, ExecOutcome, ExecRequest, Exit, KillSignal};
use zk_exec::{Limits, ProcessExec};

use crate::support::{bash, environment, eventually, pid_in, runs, supervised};

fn limited(limits: Limits) -> ProcessExec {
    supervised(environment()).limited(limits)
}

async fn outcome(exec: &ProcessExec, command: &str) -> (ExecOutcome, String) {
    let dir = tempfile::tempdir().unwrap();
    let (outcome, out) = bash(exec, command, dir.path(), Some(Duration::from_secs(60))).await;
    (outcome.unwrap(), out)
}

fn denial_texts(outcome: &ExecOutcome) -> Vec<String> {
    assert!(outcome.denials.iter().all(|denial| denial.act == DeniedAct::Exceed));
    outcome.denials.iter().map(ToString::to_string).collect()
}

#[tokio::test]
async fn a_process_that_takes_more_memory_than_a_command_may_is_refused_it_and_that_is_told() {
    let exec = limited(Limits { memory: Some(40 << 20), ..Limits::default() });
    // One text of 60 MB.
    let (outcome, out) =
        outcome(&exec, "exec 2>&1; x=$(head -c 60000000 /dev/zero | tr '\\0' x); echo ${#x}").await;
    assert!(!out.contains("60000000"), "{out}");
    assert_ne!(outcome.exit, Exit::Code(0), "{out}");
    assert_eq!(denial_texts(&outcome), ["stopped by a limit: memory above 40 MiB (of one command)"], "{out}");
}

#[tokio::test]
async fn processes_that_share_out_their_memory_are_ended_together() {
    let exec = limited(Limits { memory: Some(60 << 20), ..Limits::default() });
    let part = "(x=$(head -c 15000000 /dev/zero | tr '\\0' x); sleep 30; echo ${#x}) &";
    let (outcome, out) = outcome(&exec, &format!("{part} {part} {part} {part} {part} wait; echo all")).await;
    assert_eq!((outcome.exit, out.as_str()), (Exit::Signal(9), ""));
    assert_eq!(denial_texts(&outcome), ["stopped by a limit: memory above 60 MiB (of one command)"]);
}

#[tokio::test]
async fn memory_that_processes_share_counts_once() {
    let exec = limited(Limits { memory: Some(60 << 20), ..Limits::default() });
    let command =
        "x=$(head -c 20000000 /dev/zero | tr '\\0' x); for i in 1 2 3 4 5 6 7 8; do sleep 0.4 & done
        for i in 1 2 3 4; do (read -t 0.4 y < <(sleep 1); :) & done; wait; echo ${#x}";
    let (outcome, out) = outcome(&exec, command).await;
    assert_eq!((outcome.exit, out.trim()), (Exit::Code(0), "20000000"), "{:?}", outcome.denials);
}

#[tokio::test]
async fn more_processes_than_a_command_may_have_are_ended_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let exec = limited(Limits { processes: Some(20), ..Limits::default() });
    let few = "for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.2 & done; wait; echo done";
    let (done, out) = bash(&exec, few, dir.path(), None).await;
    assert_eq!((done.unwrap().exit, out.as_str()), (Exit::Code(0), "done\n"));
    let bomb = "setsid sleep 100 & echo $! > pid; while :; do sleep 100 & done";
    let (ended, _) = bash(&exec, bomb, dir.path(), None).await;
    let ended = ended.unwrap();
    assert_eq!(ended.exit, Exit::Signal(9));
    assert_eq!(denial_texts(&ended), ["stopped by a limit: more than 20 processes (of one command)"]);
    let left = pid_in(&dir.path().join("pid"));
    eventually("the end of what it started", || !runs(left));
}

#[tokio::test]
async fn a_command_that_prints_more_than_it_may_is_ended_and_gives_what_is_below() {
    for exec in [limited(LITTLE), ProcessExec::new(environment()).limited(LITTLE)] {
        let (outcome, out) = outcome(&exec, "yes").await;
        assert_eq!((outcome.exit, out.len()), (Exit::Signal(9), 100_000));
        assert_eq!(denial_texts(&outcome), ["stopped by a limit: output above 97 KiB (of one command)"]);
    }
}

const LITTLE: Limits = Limits { memory: None, processes: None, output: Some(100_000) };

#[tokio::test]
async fn a_command_below_its_limits_is_as_it_is_without() {
    let exec = limited(Limits { memory: Some(1 << 30), processes: Some(100), output: Some(1 << 20) });
    let (outcome, out) = outcome(&exec, "echo MemoryError; ls / > /dev/null; exit 0").await;
    assert_eq!((outcome.exit, out.as_str()), (Exit::Code(0), "MemoryError\n"));
    assert_eq!(denial_texts(&outcome), [] as [String; 0]);
}

#[tokio::test]
async fn a_command_that_is_to_outlive_the_program_is_refused_where_nothing_would_hold_its_limits() {
    let dir = tempfile::tempdir().unwrap();
    let output = dir.path().join("output");
    std::fs::write(&output, "").unwrap();
    let detached = async |limits: Limits| {
        let request = ExecRequest::shell("touch ran; sleep 60", dir.path());
        limited(limits).spawn_detached(request, &output).await
    };
    let processes = Limits { processes: Some(5), ..Limits::default() };
    let printed = Limits { output: Some(1 << 20), ..Limits::default() };
    for (limits, named) in [(processes, "processes"), (printed, "output")] {
        let error = detached(limits).await.err().unwrap().to_string();
        let expected = format!("hold it to its limit on {named} once this program has ended");
        assert!(error.contains(&expected), "{error}");
    }
    assert!(!dir.path().join("ran").exists());
    let memory = Limits { memory: Some(1 << 30), ..Limits::default() };
    detached(memory).await.unwrap().kill(KillSignal::Kill).await.unwrap();
}
