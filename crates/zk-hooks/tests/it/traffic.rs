//! Lines that go over the pipes, how many, and for how long.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use zk_core::events::{InputReply, PartKind, PartLeftOut, StreamText, ToolGate, ToolTransform};
use zk_core::kernel::{Bus, Cx, Event, First};
use zk_core::model::TurnId;
use zk_hooks::{BRIDGE_VERSION, Bridge};

use crate::support::{answering, bus, call, program};

/// Polls `done` until it holds; fails the test after 20 s.
async fn until(what: &str, mut done: impl FnMut() -> bool) {
    for _ in 0..2_000 {
        if done() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{what} did not happen");
}

/// A program that copies what it reads to `path`.
fn copying(path: &Path) -> zk_core::service::ExecRequest {
    program(&format!("cat > {}", path.display()))
}

fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

async fn say(bus: &Bus, text: &str) {
    bus.cx().emit(StreamText { turn_id: TurnId::fresh(), delta: text.to_owned() }).await.unwrap();
}

/// Asked for a number.
#[derive(Debug, serde::Serialize)]
struct Pick {
    of: u32,
}

impl Event for Pick {
    const NAME: &'static str = "test:pick";
    type Reply = Value;
    type Mode = First;
}

#[tokio::test]
async fn the_program_is_greeted_and_told_of_the_events_it_wants() {
    let (bus, dir) = (bus(), tempfile::tempdir().unwrap());
    let path = dir.path().join("lines");
    bus.install(&Bridge::new("watcher", copying(&path)).tell(["tool:after", "test:pick"])).unwrap();
    call(&bus, 10).await;
    bus.cx().emit(Pick { of: 3 }).await.unwrap();
    until("the lines", || lines(&path).len() == 3).await;
    let lines = lines(&path);
    let names: Vec<_> = lines.iter().map(|line| line["event"].as_str().unwrap()).collect();
    assert_eq!(names, ["bridge:hello", "tool:after", "test:pick"]);
    assert_eq!(lines[0]["data"], serde_json::json!({"version": BRIDGE_VERSION, "plugin": "watcher"}));
    assert!(lines.iter().all(|line| line["reply"] == false));
    assert!(lines[1]["run"].as_str().is_some_and(|run| !run.is_empty()) && lines[2]["run"] == "");
    assert_eq!(lines[2]["data"], serde_json::json!({"of": 3}));
    let number = |line: &Value| line["number"].as_u64().unwrap();
    assert!(number(&lines[1]) < number(&lines[2]) && lines[2]["at_ms"].as_u64() > Some(1_700_000_000_000));
    bus.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replies_find_their_questions_in_any_order() {
    let bus = bus();
    // Answers pairs of questions, the second first, with their own number of marbles.
    let script = r#"
        of() { of=${line##*\"of\":}; of=${of%%\}*}; }
        while ask; do
            of; first="{\"id\":$id,\"reply\":$of}"
            ask; of; printf '{"id":%s,"reply":%s}\n%s\n' "$id" "$of" "$first"
        done"#;
    bus.install(&Bridge::new("picker", program(script)).ask::<Pick>()).unwrap();
    let asked: Vec<_> = (0..40)
        .map(|of| {
            let cx = bus.cx();
            tokio::spawn(async move { (of, cx.emit(Pick { of }).await.unwrap()) })
        })
        .collect();
    for one in asked {
        let (of, picked) = one.await.unwrap();
        assert_eq!(picked, Some(of.into()));
    }
    bus.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_that_reads_nothing_holds_nobody_up_and_is_told_what_it_missed() {
    let (bus, dir) = (bus(), tempfile::tempdir().unwrap());
    let (path, go) = (dir.path().join("lines"), dir.path().join("go"));
    let waiting = format!("until [ -e {} ]; do sleep 0.01; done; cat > {}", go.display(), path.display());
    let bridge = Bridge::new("watcher", program(&waiting)).tell(["stream:text"]);
    bus.install(&bridge.reply_within(Duration::from_secs(60))).unwrap();
    let text = "x".repeat(100 << 10);
    for _ in 0..200 {
        say(&bus, &text).await;
    }
    std::fs::write(&go, "").unwrap();
    until("room", || lines(&path).len() >= 10).await;
    say(&bus, "the end").await;
    let all = || {
        let lines = lines(&path);
        let is = |line: &Value, name: &str| line["event"] == name;
        let told = lines.iter().filter(|line| is(line, "stream:text")).count() as u64;
        let lost = lines.iter().filter(|line| is(line, "bridge:lost"));
        let lost: u64 = lost.filter_map(|line| line["data"]["count"].as_u64()).sum();
        (told, lost)
    };
    until("the last line", || all().0 + all().1 == 201).await;
    assert!(all().1 > 0 && all().0 < 100, "{:?}: what waits is bounded", all());
    bus.close().await;
}

#[tokio::test]
async fn a_watcher_that_fails_is_named_once_and_stops_nothing() {
    let (bus, seen) = (bus(), Arc::new(Mutex::new(Vec::new())));
    let kept = seen.clone();
    bus.scope("test").on_sync(move |event: &PartLeftOut, _: &Cx| kept.lock().unwrap().push(event.clone()));
    bus.install(&Bridge::new("watcher", program("exit 4")).tell(["stream:text"])).unwrap();
    for _ in 0..2_000 {
        say(&bus, "x").await;
        if !seen.lock().unwrap().is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    say(&bus, "x").await;
    assert_eq!(call(&bus, 1).await.executions, 1);
    let seen = seen.lock().unwrap();
    assert_eq!((seen.len(), seen[0].kind, seen[0].source.as_str()), (1, PartKind::HookProcess, "watcher"));
    assert!(seen[0].error.contains("ended with exit code 4"), "{}", seen[0].error);
}

#[tokio::test]
async fn the_program_ends_with_its_scope() {
    let (bus, dir) = (bus(), tempfile::tempdir().unwrap());
    let path = dir.path().join("pid");
    let script = format!(
        "echo $$ > {}; while ask; do printf '{{\"id\":%s,\"reply\":null}}\\n' \"$id\"; done",
        path.display()
    );
    let scope = bus.install(&Bridge::new("guard", program(&script)).ask::<ToolGate>()).unwrap();
    assert!(!path.exists(), "it starts with its first event");
    assert_eq!(call(&bus, 1).await.executions, 1);
    let pid = std::fs::read_to_string(&path).unwrap();
    let running = || Path::new("/proc").join(pid.trim()).exists();
    assert!(running());
    scope.close().await;
    until("its end", || !running()).await;
}

#[tokio::test]
async fn what_is_not_a_gate_can_be_answered_too() {
    let bus = bus();
    let patch = r#""reply":{"content":"masked"}"#;
    let scope = bus.install(&Bridge::new("mask", answering(patch)).ask::<ToolTransform>()).unwrap();
    assert_eq!(call(&bus, 1).await.result, "masked");
    scope.close().await;
    use zk_core::kernel::WireReply;
    let reply =
        InputReply::from_json(serde_json::json!({"transform": {"text": "hi", "images": null}})).unwrap();
    assert!(matches!(reply, InputReply::Transform { text, images: None } if text == "hi"));
    assert!(InputReply::from_json(serde_json::json!({"transfrom": {"text": "hi"}})).is_err());
}
