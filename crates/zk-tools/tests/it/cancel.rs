//! Every tool, stopped or dropped at each of its awaits.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use zk_core::model::{ToolError, ToolErrorKind, ToolOutput};
use zk_core::service::Questions;
use zk_tools::{NAMES, Spill};

use crate::support::Desk;

/// Maximum number of awaits to try.
const MOST: usize = 12;

/// Returns one call of each tool that there is.
fn calls(seconds: &str) -> Vec<(&'static str, Value)> {
    let all = vec![
        ("ask_user", json!({ "question": "?" })),
        ("edit", json!({ "path": "a.txt", "old_string": "one", "new_string": "two" })),
        ("glob", json!({ "pattern": "**/*" })),
        ("grep", json!({ "pattern": "one" })),
        ("jobs", json!({ "action": "list" })),
        ("list_files", json!({})),
        ("multi_edit", json!({ "path": "a.txt", "edits": [{ "old_string": "one", "new_string": "two" }] })),
        ("present_plan", json!({ "plan": "1." })),
        ("read_file", json!({ "path": "a.txt" })),
        ("recall", json!({ "handle": "kept.txt" })),
        ("shell", json!({ "command": format!("echo begun; sleep {seconds} & wait") })),
        ("todo_read", json!({})),
        ("todo_write", json!({ "todos": [{ "content": "a", "status": "pending" }] })),
        ("write_file", json!({ "path": "a.txt", "content": "two\n" })),
    ];
    assert_eq!(all.iter().map(|(name, _)| *name).collect::<Vec<_>>(), NAMES);
    all
}

/// Unique number of seconds for a sleeping command.
fn seconds(which: u32) -> String {
    format!("{}.{which}", 100_000 + std::process::id())
}

/// Polls `call` and runs `then` at its `n`th await, which decides whether to continue; `None` if it stops. A
/// call that waits for ever is polled all the same.
async fn at_await<T>(n: usize, call: impl Future<Output = T>, mut then: impl FnMut() -> bool) -> Option<T> {
    let mut call = pin!(call);
    let mut polled = 0;
    let mut tick = tokio::time::interval(Duration::from_millis(5));
    poll_fn(|cx| {
        while tick.poll_tick(cx).is_ready() {}
        if polled == n && !then() {
            return Poll::Ready(None);
        }
        polled += 1;
        call.as_mut().poll(cx).map(Some)
    })
    .await
}

fn desk() -> Desk {
    let desk = Desk::new();
    desk.put("a.txt", "one\n");
    desk.put("outputs/kept.txt", "kept\n");
    desk.bus.install(&Spill::new(desk.root.join("outputs"))).unwrap();
    desk
}

/// Waits until a call has left no process, no temporary file and no partial file.
#[expect(clippy::panic, reason = "what is left over fails the test")]
async fn check(desk: &Desk, seconds: &str, what: &str) {
    let mut found = String::new();
    for _ in 0..1_000 {
        found = left_over(desk, seconds);
        if found.is_empty() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{what}: {found}");
}

fn left_over(desk: &Desk, seconds: &str) -> String {
    let entries = std::fs::read_dir(&desk.root).unwrap().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    let now = desk.get("a.txt");
    if names != ["a.txt", "outputs"] {
        return format!("files: {names:?}");
    }
    if now != "one\n" && now != "two\n" {
        return format!("a torn file: {now:?}");
    }
    if is_sleeping(seconds) { "a child is alive".to_owned() } else { String::new() }
}

/// Whether the command of a shell call still runs.
fn is_sleeping(seconds: &str) -> bool {
    let wanted = format!("sleep\0{seconds}\0");
    let mine = |pid: &str| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line == wanted.as_bytes()
    };
    std::fs::read_dir("/proc").unwrap().flatten().any(|entry| mine(&entry.file_name().to_string_lossy()))
}

fn is_honest(result: &Result<ToolOutput, ToolError>, name: &str) -> bool {
    match result {
        // The call was done before the stop.
        Ok(_) => name != "shell",
        Err(error) => {
            error.kind == ToolErrorKind::Aborted
                || (matches!(name, "ask_user" | "present_plan") && error.kind == ToolErrorKind::Denied)
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_that_is_stopped_at_any_await_leaves_nothing_behind() {
    let seconds = seconds(1);
    for (name, args) in calls(&seconds) {
        for n in 0..MOST {
            let mut desk = desk();
            let stop = desk.stop.clone();
            let mut reached = false;
            let result = at_await(n, desk.output(name, args.clone()), || {
                reached = true;
                stop.cancel();
                true
            })
            .await
            .unwrap();
            if reached {
                assert!(is_honest(&result, name), "{name} at {n}: {result:?}");
            }
            check(&desk, &seconds, &format!("{name} stopped at {n}")).await;
            if !reached {
                break;
            }
            // No lock is held: the next call works.
            desk.stop = CancellationToken::new();
            let args = json!({ "path": "a.txt", "content": "three\n" });
            desk.ok("read_file", json!({ "path": "a.txt" })).await;
            if let Err(error) = desk.output("write_file", args.clone()).await {
                // A write in flight at the stop was executed after the read. There is only one.
                assert!(error.message.contains("it changed since you last saw it"), "{error:?}");
                desk.ok("read_file", json!({ "path": "a.txt" })).await;
                desk.ok("write_file", args).await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_that_is_dropped_at_any_await_leaves_nothing_behind() {
    let seconds = seconds(2);
    for (name, args) in calls(&seconds) {
        for n in 0..MOST {
            let desk = desk();
            let result = at_await(n, desk.output(name, args.clone()), || false).await;
            check(&desk, &seconds, &format!("{name} dropped at {n}")).await;
            if result.is_some() {
                break;
            }
        }
    }
}

/// Desk where `job-1` sleeps in the background; if `is_deaf`, it ends only at the second signal.
async fn desk_with_job(seconds: &str, is_deaf: bool) -> Desk {
    let desk = desk();
    let trap = if is_deaf { "trap '' TERM; " } else { "" };
    let command = format!("{trap}echo begun; sleep {seconds} & wait; wait");
    desk.ok("shell", json!({ "command": command, "background": true })).await;
    for _ in 0..1_000 {
        if is_sleeping(seconds) {
            return desk;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    desk
}

/// Calls about a job: one for each action, and one that starts another job.
fn job_calls(seconds: &str) -> [(&'static str, &'static str, Value); 4] {
    let start = json!({ "command": format!("sleep {seconds}"), "background": true });
    [
        ("jobs", "tail", json!({ "action": "tail", "id": "job-1" })),
        ("jobs", "wait", json!({ "action": "wait", "id": "job-1", "timeout_ms": 60_000 })),
        ("jobs", "kill", json!({ "action": "kill", "id": "job-1" })),
        ("shell", "start", start),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_done_with_jobs_ends_at_any_await_and_the_jobs_with_the_conversation() {
    for is_dropped in [false, true] {
        let seconds = seconds(if is_dropped { 4 } else { 3 });
        for (name, action, args) in job_calls(&seconds) {
            for n in 0..MOST {
                let mut desk = desk_with_job(&seconds, action == "kill" && n == 1).await;
                let (stop, what) = (desk.stop.clone(), format!("{action} at {n}, dropped: {is_dropped}"));
                let mut reached = false;
                let result = at_await(n, desk.output(name, args.clone()), || {
                    reached = true;
                    stop.cancel();
                    !is_dropped
                })
                .await;
                match &result {
                    Some(Err(error)) => assert_eq!(error.kind, ToolErrorKind::Aborted, "{what}"),
                    // A wait for a running job has no answer of its own.
                    Some(Ok(_)) => assert!(!reached || action != "wait", "{what}"),
                    None => assert!(is_dropped, "{what}"),
                }
                // The list is not locked, and contains the started job.
                desk.stop = CancellationToken::new();
                let list = desk.ok("jobs", json!({ "action": "list" })).await;
                assert!(list.starts_with("job-1  "), "{what}: {list}");
                if action == "start" && matches!(result, Some(Ok(_))) {
                    assert!(list.contains("\njob-2  "), "{what}: {list}");
                }
                let args = json!({ "path": "a.txt", "content": "two\n" });
                desk.ok("read_file", json!({ "path": "a.txt" })).await;
                desk.ok("write_file", args).await;
                desk.bus.close().await;
                check(&desk, &seconds, &what).await;
                if !reached {
                    break;
                }
            }
        }
    }
}

#[tokio::test]
async fn a_question_that_nobody_answers_ends_at_any_await_and_is_no_longer_asked() {
    for (name, args) in [
        ("ask_user", json!({ "question": "?" })),
        ("ask_user", json!({ "question": "?", "options": ["a", "b"] })),
        ("present_plan", json!({ "plan": "1." })),
    ] {
        for (is_dropped, n) in (0..MOST).flat_map(|n| [(false, n), (true, n)]) {
            let desk = desk();
            let questions = Questions::new();
            let front_end = questions.attach();
            desk.bus.scope("terminal").provide_service(Arc::new(questions));
            let (stop, what) = (desk.stop.clone(), format!("{name} at {n}, dropped: {is_dropped}"));
            let mut asked = 0;
            let result = at_await(n, desk.output(name, args.clone()), || {
                asked = front_end.pending().len();
                stop.cancel();
                !is_dropped
            })
            .await;
            match result {
                Some(Err(error)) => assert_eq!(error.kind, ToolErrorKind::Aborted, "{what}"),
                Some(Ok(output)) => panic!("{what}: {output:?}"),
                None => assert!(is_dropped, "{what}"),
            }
            assert!(n == 0 || asked == 1, "{what}: it waited for the person");
            assert!(front_end.pending().is_empty(), "{what}: it is still asked");
        }
    }
}
