use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use zk_agent::Agent;
use zk_core::events::PartLeftOut;
use zk_core::kernel::Cx;
use zk_core::service::{Backend, Command, ContextProducer, Questions};

use crate::support::{Called, Stage, call};

/// Registrations, with the method or event by which zk asks about each.
const REGISTRATIONS: [(&str, &str, &str); 10] = [
    ("gate", r#""asks":[{"event":"tool:gate"}]"#, "tool:gate"),
    ("prepare", r#""asks":[{"event":"tool:prepare"}]"#, "tool:prepare"),
    ("transform", r#""asks":[{"event":"tool:transform"}]"#, "tool:transform"),
    ("tool", r#""tools":[{"name":"mine","description":"Mine.","effects":{}}]"#, "tool/call"),
    ("command", r#""commands":[{"name":"go"}]"#, "command/run"),
    ("completion", r#""commands":[{"name":"go","completes":true}]"#, "command/complete"),
    ("section", r#""sections":[{"id":"mine"}]"#, "section/text"),
    ("context", r#""contexts":[{"name":"mine"}]"#, "context/text"),
    ("backend", r#""backends":[{"name":"mine"}]"#, "backend/turn"),
    ("tell", r#""tells":["tool:after"]"#, "event/tell"),
];

/// Cases that are played at a time.
const CASES_AT_A_TIME: usize = 12;

/// Faults, as the bash that is run when zk asks.
const FAULTS: [(&str, &str); 7] = [
    ("hang", "sleep 1000"),
    ("crash", "exit 3"),
    ("garbage", "echo 'Traceback (most recent call last):'; sleep 1000"),
    ("flood", r#"yes '{"jsonrpc":"2.0","method":"notify","params":{"text":"flood"}}'"#),
    ("slow reader", "exec 0<&-; sleep 1000"),
    ("wrong version", "hello"),
    ("death in mid-question", r#"ask q ask '{"text":"Go on?"}'; exit 4"#),
];

fn script(registration: &str, asked: &str, fault: (&str, &str)) -> String {
    match fault.0 {
        "wrong version" => format!("hello '{{{registration}}}' 2.0; sleep 1000"),
        _ => format!(
            "hello '{{{registration}}}'; while next; do case $line in *'{asked}'*) {};; esac; \
             [ -n \"$id\" ] && reply null; done",
            fault.1
        ),
    }
}

/// Plays one fault; returns the outcome of a call of `push`, and the answer of what the extension has itself.
async fn play(what: &str, registration: &str, asked: &str, fault: (&str, &str)) -> (Called, String) {
    let stage = Stage::new();
    let questions = Arc::new(Questions::new());
    stage.bus.scope("person").provide_service(questions.clone());
    // Somebody is there, and says nothing.
    let person = questions.attach();
    let left_out = Arc::new(AtomicUsize::new(0));
    let counted = left_out.clone();
    stage.bus.scope("watch").on_sync(move |_: &PartLeftOut, _: &Cx| {
        counted.fetch_add(1, Ordering::SeqCst);
    });
    let mut config = stage.config(&script(registration, asked, fault));
    config.guards = matches!(what, "gate" | "prepare");
    config.limits.answer = Duration::from_millis(400);
    config.limits.call = Duration::from_millis(400);
    let handle = stage.install(config);
    let ready = handle.ready().await;
    assert_eq!(ready.is_err(), fault.0 == "wrong version", "{ready:?}");
    let cx = stage.bus.cx();
    let own = match what {
        "tool" if ready.is_ok() => call(&stage.bus, "mine", json!({})).await.result,
        "command" | "completion" => match stage.bus.item::<dyn Command>("go") {
            Some(command) if what == "command" => command.run("", &cx).await.unwrap_err().to_string(),
            Some(command) => format!("{} choices of extension `x`", command.complete("", &cx).await.len()),
            None => "extension `x` has no such command".to_owned(),
        },
        "context" if ready.is_ok() => {
            let context = stage.bus.item::<dyn ContextProducer>("mine").unwrap();
            context.text(&cx).await.unwrap_err().to_string()
        }
        "backend" if ready.is_ok() => {
            let provider = stage.bus.item::<dyn Backend>("mine").unwrap().provider().unwrap();
            let agent = Agent::builder(provider).unguarded().bus(stage.bus.clone()).build().unwrap();
            let ended = agent.run("Hello.").unwrap().wait().await;
            agent.close().await;
            ended.result.unwrap_err().to_string()
        }
        _ => "extension `x`".to_owned(),
    };
    // More than a pipe takes, so that a program that does not read is met.
    let called = call(&stage.bus, "push", json!({"command": "x".repeat(300_000)})).await;
    drop(person);
    let is_part = what == "section" && fault.0 != "wrong version";
    assert!(!is_part || left_out.load(Ordering::SeqCst) > 0, "it was left out in words: {}", stage.notices());
    stage.close().await;
    (called, own)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_an_extension_does_guards_refuse_others_are_left_out_and_nothing_hangs_or_stays() {
    let mut playing = JoinSet::new();
    let turns = Arc::new(Semaphore::new(CASES_AT_A_TIME));
    for (what, registration, asked) in REGISTRATIONS {
        for fault in FAULTS {
            let turns = turns.clone();
            playing.spawn(async move {
                let _turn = turns.acquire_owned().await.unwrap();
                judge(what, registration, asked, fault).await;
            });
        }
    }
    while let Some(played) = playing.join_next().await {
        played.unwrap();
    }
}

async fn judge(what: &str, registration: &str, asked: &str, fault: (&str, &str)) {
    let case = format!("{what} × {}", fault.0);
    let playing = tokio::time::timeout(Duration::from_secs(300), play(what, registration, asked, fault));
    let (called, own) = playing.await.unwrap_or_else(|_| panic!("{case}: it hangs"));
    let is_guard = matches!(what, "gate" | "prepare");
    assert_eq!(called.executions, usize::from(!is_guard), "{case}: {:?}", called.blocked);
    if is_guard {
        let told = called.blocked.unwrap_or(called.result);
        assert!(told.contains("extension `x`"), "{case}: {told}");
    }
    assert!(own.contains("extension `x`") || own.contains("mine"), "{case}: {own}");
}
