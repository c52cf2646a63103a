//! Commands in the background: started, listed, read, awaited and ended through the tools.

use std::sync::Arc;

use serde_json::json;
use zk_core::events::{SessionLoaded, SessionStart, SessionSwitch};
use zk_core::model::{Display, ToolErrorKind};
use zk_tools::{JobPhase, Jobs, Spill, ToolsOptions};

use crate::support::{Desk, MEMORY, forget_peak, grown_since};

/// Whether a process runs; a zombie does not.
pub(crate) fn runs(pid: &str) -> bool {
    std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()))
        .ok()
        .and_then(|stat| stat.rsplit_once(')').map(|(_, rest)| rest.trim_start().starts_with(['Z', 'X'])))
        .is_some_and(|gone| !gone)
}

/// Waits until a process that was killed is gone: those that left the job's session are not waited for by anybody.
pub(crate) async fn ended(pid: &str) {
    let wait = async {
        while runs(pid) {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    let waited = tokio::time::timeout(std::time::Duration::from_secs(60), wait).await;
    assert!(waited.is_ok(), "process {pid} still runs");
}

/// Reads of a job until its new output contains `wanted`.
pub(crate) async fn read_until(desk: &Desk, id: &str, wanted: &str) -> String {
    let mut all = String::new();
    while !all.contains(wanted) {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        all.push_str(&desk.ok("jobs", json!({ "action": "tail", "id": id })).await);
    }
    all
}

#[tokio::test]
async fn a_background_command_is_started_listed_read_and_killed() {
    let desk = Desk::new();
    let command = "echo $$ > pid; echo first; while [ ! -e go ]; do sleep 0.02; done; echo second; sleep 100";
    let started = desk.ok("shell", json!({ "command": command, "background": true })).await;
    assert!(started.starts_with("job-1 started; it ends with this conversation"), "{started}");
    let read = read_until(&desk, "job-1", "first\n").await;
    assert!(read.ends_with("(job-1: running)"), "{read}");
    let again = desk.ok("jobs", json!({ "action": "tail", "id": "job-1" })).await;
    assert_eq!(again, "(nothing new)\n(job-1: running)");
    desk.put("go", "");
    let read = read_until(&desk, "job-1", "second\n").await;
    assert!(!read.contains("first"), "only what is new: {read}");
    let list = desk.ok("jobs", json!({ "action": "list" })).await;
    assert!(list.starts_with("job-1  running; 13 B printed, 0 B unread;"), "{list}");
    let killed = desk.ok("jobs", json!({ "action": "kill", "id": "job-1" })).await;
    assert!(killed.contains("(job-1: killed after "), "{killed}");
    ended(&desk.get("pid")).await;
    desk.bus.close().await;
}

#[tokio::test]
async fn a_wait_ends_with_the_job_and_gives_its_output_and_its_exit_code() {
    let desk = Desk::new();
    let args = json!({ "command": "echo out; echo err >&2; exit 3", "background": true });
    desk.ok("shell", args).await;
    let read = desk.ok("jobs", json!({ "action": "wait", "id": "job-1", "timeout_ms": 60_000 })).await;
    assert!(
        read.contains("out\n") && read.contains("err\n") && read.contains("(job-1: exit 3 after "),
        "{read}"
    );
    let error = desk.err("jobs", json!({ "action": "tail", "id": "job-7" })).await;
    assert_eq!(
        (error.kind, error.message.as_str()),
        (ToolErrorKind::NotFound, "there is no job `job-7`; known: job-1")
    );
    assert_eq!(desk.err("jobs", json!({ "action": "kill" })).await.kind, ToolErrorKind::InvalidArgs);
}

#[tokio::test]
async fn a_job_that_is_deaf_to_term_is_killed_with_all_it_started() {
    let desk = Desk::new();
    let command = "trap '' TERM; setsid sleep 300 & echo $! > inner; echo $$ > pid; echo up; while :; do sleep 0.1; done";
    desk.ok("shell", json!({ "command": command, "background": true })).await;
    read_until(&desk, "job-1", "up").await;
    desk.ok("jobs", json!({ "action": "kill", "id": "job-1" })).await;
    ended(&desk.get("pid")).await;
    ended(&desk.get("inner")).await;
}

#[tokio::test]
async fn jobs_end_when_their_host_closes() {
    let desk = Desk::new();
    desk.ok("shell", json!({ "command": "echo $$ > pid; echo up; sleep 300", "background": true })).await;
    read_until(&desk, "job-1", "up").await;
    assert!(runs(&desk.get("pid")));
    desk.bus.close().await;
    ended(&desk.get("pid")).await;
}

/// Number of printed megabytes; the variable sets it for the whole campaign, 1000.
#[expect(clippy::disallowed_methods, reason = "how the whole size is asked for")]
fn megabytes() -> u64 {
    std::env::var("ZK_FLOOD_MB").ok().and_then(|text| text.parse().ok()).unwrap_or(64)
}

#[tokio::test]
async fn a_flood_in_the_background_needs_memory_for_its_end_alone() {
    let _alone = MEMORY.lock().await;
    let options = ToolsOptions { output_file_bytes: 1 << 20, ..ToolsOptions::default() };
    let desk = Desk::with(options);
    desk.bus.install(&Spill::new(desk.root.join("outputs"))).unwrap();
    let bytes = megabytes() << 20;
    let before = forget_peak();
    let command = format!("yes 0123456789 | head -c {bytes}; echo the end");
    desk.ok("shell", json!({ "command": command, "background": true })).await;
    let jobs = desk.bus.service::<Jobs>().unwrap();
    while !jobs.list()[0].phase.is_over() {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert!(matches!(jobs.list()[0].phase, JobPhase::Ended { .. }));
    assert!(jobs.list()[0].printed >= bytes);
    let read = desk.ok("jobs", json!({ "action": "tail", "id": "job-1" })).await;
    assert!(read.len() < 34_000 && read.contains("the end\n(job-1: exit 0"), "{}", read.len());
    assert!(read.contains("its first 1.0 MB are in "), "{}", read.lines().next().unwrap());
    assert!(grown_since(before) < 32 << 20);
}

#[tokio::test]
async fn the_whole_of_a_long_output_is_in_a_file_that_can_be_read() {
    let desk = Desk::new();
    desk.bus.install(&Spill::new(desk.root.join("outputs"))).unwrap();
    let text = desk.ok("shell", json!({ "command": "seq 1 20000" })).await;
    let first = text.lines().next().unwrap();
    let path = first.split("all of it is in ").nth(1).unwrap().trim_end_matches(")…");
    let whole: String = (1..=20_000).map(|n| format!("{n}\n")).collect();
    assert_eq!(std::fs::read_to_string(path).unwrap(), whole);
    let read = desk.ok("read_file", json!({ "path": path, "limit": 2 })).await;
    assert!(read.contains('2'), "{read}");
}

#[tokio::test]
async fn a_time_limit_ends_jobs_with_what_they_left_and_lets_none_be_detached() {
    let limit = std::time::Duration::from_millis(300);
    let desk = Desk::with(ToolsOptions { job_timeout_max: Some(limit), ..ToolsOptions::default() });
    for (id, command) in
        [("job-1", "echo $$ > pid; sleep 300"), ("job-2", "sleep 300 > /dev/null 2>&1 & echo $! > pid")]
    {
        let args = json!({ "command": command, "background": true, "timeout_ms": 600_000 });
        let started = desk.ok("shell", args).await;
        assert!(started.contains("and is ended after 0 s"), "{started}");
        let read = desk.ok("jobs", json!({ "action": "wait", "id": id, "timeout_ms": 60_000 })).await;
        assert!(read.contains(&format!("({id}: took too long and was ended")), "{read}");
        ended(&desk.get("pid")).await;
    }
    let args = json!({ "command": "sleep 300", "background": true, "detach": true });
    let error = desk.err("shell", args).await;
    assert!(error.message.contains("start it without detach"), "{}", error.message);
}

#[tokio::test]
async fn a_job_belongs_to_the_conversation_it_was_started_in() {
    let desk = Desk::new();
    let (jobs, cx) = (desk.bus.service::<Jobs>().unwrap(), desk.bus.cx());
    let start = async || desk.ok("shell", json!({ "command": "sleep 300", "background": true })).await;
    let loaded = || SessionLoaded { session_id: None, entries: Arc::from([]) };
    let run = || SessionStart { session_id: None, run_id: "r".into(), messages: 0 };
    start().await;
    // The first run of a resumed conversation.
    cx.emit(loaded()).await.unwrap();
    cx.emit(run()).await.unwrap();
    assert_eq!(jobs.list().len(), 1, "it was started there");
    cx.emit(SessionSwitch { from: Some("s".into()), to: Some("s".into()), entries: Arc::from([]) })
        .await
        .unwrap();
    cx.emit(loaded()).await.unwrap();
    cx.emit(run()).await.unwrap();
    assert_eq!(jobs.list().len(), 1, "the session was only read again");
    cx.emit(SessionSwitch { from: None, to: None, entries: Arc::from([]) }).await.unwrap();
    assert_eq!(jobs.list().len(), 0, "another one takes its place");
    start().await;
    cx.emit(loaded()).await.unwrap();
    cx.emit(run()).await.unwrap();
    assert_eq!(jobs.list().len(), 1);
    // Nothing else reports the reset of an agent.
    cx.emit(loaded()).await.unwrap();
    assert_eq!(jobs.list().len(), 0);
    desk.bus.close().await;
}

#[tokio::test]
async fn a_command_that_a_person_puts_in_the_background_goes_on_and_its_call_is_over() {
    let desk = Desk::new();
    let jobs = desk.bus.service::<Jobs>().unwrap();
    assert_eq!(jobs.put_in_background(), 0, "nothing runs");
    let command = "echo first; touch begun; while [ ! -e go ]; do sleep 0.02; done; echo last";
    // The time limit is that of a call: a background command has none.
    let call = desk.output("shell", json!({ "command": command, "timeout_ms": 60_000 }));
    let leave = async {
        while !desk.root.join("begun").exists() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        jobs.put_in_background()
    };
    let (output, count) = tokio::join!(call, leave);
    let output = output.unwrap();
    let text = output.content.to_text();
    assert!(count == 1 && text.contains("the user put it in the background"), "{count} {text}");
    let shown = Display::Line { text: "goes on in the background as job-1".to_owned() };
    assert_eq!(output.display, Some(shown));
    assert_eq!(jobs.put_in_background(), 0, "it is none of a call any more");
    assert_eq!(jobs.list().first().map(|job| job.phase.clone()), Some(JobPhase::Running));
    desk.put("go", "");
    let rest = desk.ok("jobs", json!({ "action": "wait", "id": "job-1" })).await;
    assert!(rest.contains("last\n(job-1: "), "{rest}");
    assert_eq!(format!("{text}{rest}").matches("first\n").count(), 1, "all of it is read once: {text}{rest}");
}
