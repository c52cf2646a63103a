//! Outputs that a model makes shorter.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde_json::json;
use zk_agent::Agent;
use zk_core::events::{DecidedBy, PermissionDecided, ToolGate};
use zk_core::kernel::{BoxError, Bus, Cx};
use zk_core::model::{Approved, Effects, ErrorKind, ToolError, ToolOutput, ToolSpec};
use zk_core::service::{Tool, ToolCx};
use zk_testkit::{Script, ScriptedProvider, Turn};
use zk_tools::{Compress, OutputDir};

/// Fake `shell` whose every command prints the same.
struct Shell {
    spec: Arc<ToolSpec>,
    prints: String,
}

#[async_trait]
impl Tool for Shell {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    async fn call(&self, _: &Approved, _: &ToolCx) -> Result<ToolOutput, ToolError> {
        Ok(ToolOutput::text(self.prints.clone()))
    }
}

/// Outcome of an output: the model's result, the side requests, and the stored files.
struct Ended {
    result: String,
    asked: Vec<String>,
    kept: Vec<String>,
}

/// Runs a command that prints `prints`, with a model that answers side requests by `side`.
async fn run(prints: &str, by_person: bool, side: fn() -> Turn) -> Ended {
    let dir = tempfile::tempdir().unwrap();
    let bus = Bus::new();
    bus.install(&Compress::new().asking_model()).unwrap();
    let place = bus.scope("place");
    place.provide_service(Arc::new(OutputDir(dir.path().to_owned())));
    if by_person {
        place.on_async(async |gate: &ToolGate, cx: &Cx| {
            let decided = PermissionDecided {
                call: gate.call.clone(),
                args: gate.args.clone(),
                effects: Effects::Unknown,
                cwd: gate.place.cwd.clone(),
                allowed: true,
                by: DecidedBy::Person,
                reasons: Vec::new(),
                allowed_by: None,
            };
            cx.emit(decided).await?;
            Ok::<_, BoxError>(None)
        });
    }
    let asked = Arc::new(Mutex::new(Vec::new()));
    let (results, beside) = (Arc::new(Mutex::new(String::new())), asked.clone());
    let last = results.clone();
    let script = Script::answering(move |asked| {
        if asked.last_user_text().starts_with("$ ") {
            beside.lock().unwrap().push(asked.last_user_text());
            return side();
        }
        match asked.results().first() {
            None => Turn::new().call("shell", json!({ "command": "cat report.txt" })),
            Some(result) => {
                last.lock().unwrap().clone_from(&result.text);
                Turn::new().text("Done.")
            }
        }
    });
    let schema = json!({ "type": "object", "properties": { "command": { "type": "string" } } });
    let spec = ToolSpec::new("shell", "Run a command.", schema);
    let shell = Shell { spec, prints: prints.to_owned() };
    let agent = Agent::builder(Arc::new(ScriptedProvider::new(script)))
        .unguarded()
        .bus(bus)
        .tool(Arc::new(shell))
        .build()
        .unwrap();
    agent.run("go").unwrap().wait().await.result.unwrap();
    let files = std::fs::read_dir(dir.path()).unwrap().flatten();
    let kept = files.map(|file| std::fs::read_to_string(file.path()).unwrap()).collect();
    let (result, asked) = (results.lock().unwrap().clone(), asked.lock().unwrap().clone());
    Ended { result, asked, kept }
}

/// An output that no rule knows, of more than 8,000 bytes.
fn report() -> String {
    (0..400).map(|n| format!("measurement {n} of the report is {}\n", n * n % 97)).collect()
}

#[tokio::test]
async fn a_model_writes_down_what_matters_of_a_long_output_and_the_whole_is_kept() {
    let text = report();
    let ended = run(&text, false, || Turn::new().text("400 measurements, the largest is 96")).await;
    assert!(ended.result.starts_with("400 measurements, the largest is 96\n["), "{}", ended.result);
    assert!(
        ended.result.contains("a model wrote down what matters; the whole of it is in "),
        "{}",
        ended.result
    );
    assert_eq!(ended.kept, std::slice::from_ref(&text));
    assert_eq!(ended.asked.len(), 1);
    assert!(ended.asked[0].starts_with("$ cat report.txt\n\nmeasurement 0 "), "{}", ended.asked[0]);
}

#[tokio::test]
async fn the_output_stays_as_it_is_where_the_model_fails_says_nothing_or_says_more() {
    let text = report();
    let failing: [fn() -> Turn; 3] = [
        || Turn::new().error(ErrorKind::Rejected, "no"),
        || Turn::new().text("  \n"),
        || Turn::new().text("and so on ".repeat(5_000)),
    ];
    for side in failing {
        let ended = run(&text, false, side).await;
        assert_eq!(ended.result, text);
        assert_eq!((ended.asked.len(), ended.kept.len()), (1, 0));
    }
}

#[tokio::test]
async fn what_is_short_or_what_a_person_let_run_by_hand_is_given_to_no_model() {
    let text = report();
    let short: String = text.lines().take(100).map(|line| format!("{line}\n")).collect();
    for (text, by_person) in [(&short, false), (&text, true)] {
        let ended = run(text, by_person, || Turn::new().text("short")).await;
        assert_eq!((&ended.result, ended.asked.len()), (text, 0));
    }
}
