use std::fs;
use std::sync::{Arc, Mutex};

use serde_json::json;
use zk_core::events::ToolPrepare;
use zk_core::kernel::Cx;
use zk_core::service::{
    Command, CommandOutcome, ContextProducer, Questions, RenderInput, Renderer, SpanRole, Ui, UiAnswer,
};
use zk_extensions::{ExtensionConfig, Scaffold, ScaffoldLanguage};

use crate::support::{Stage, call, has, of_crate, until};

#[derive(Default)]
struct Shown(Mutex<Vec<String>>);

impl Ui for Shown {
    fn notify(&self, text: &str) {
        self.0.lock().unwrap().push(text.to_owned());
    }
}

/// Program, SDK and example of each language, and the versions of the program that can run it.
const LANGUAGES: [(&str, &str, &str); 2] = [
    ("python3", "python/zk_extension.py", "abilities.py"),
    ("node", "typescript/zk-extension.mjs", "abilities.mjs"),
];

#[tokio::test]
async fn the_eight_abilities_work_in_each_language() {
    for (program, sdk, example) in LANGUAGES {
        if !has(program, example) {
            continue;
        }
        let text = fs::read_to_string(of_crate("sdk/examples").join(example)).unwrap();
        assert!(text.lines().count() <= 60, "{example} has more than 60 lines");
        let stage = Stage::new();
        let sdk = of_crate("sdk").join(sdk);
        fs::copy(&sdk, stage.path().join(sdk.file_name().unwrap())).unwrap();
        fs::write(stage.path().join(example), text).unwrap();
        all_abilities(&stage, program, example).await;
        stage.close().await;
    }
}

async fn all_abilities(stage: &Stage, program: &str, example: &str) {
    let (ui, questions) = (Arc::new(Shown::default()), Arc::new(Questions::new()));
    let scope = stage.bus.scope("terminal");
    scope.provide_service::<dyn Ui>(ui.clone());
    scope.provide_service(questions.clone());
    let mut config = ExtensionConfig::new("abilities", [program, example]);
    config.limits.start = std::time::Duration::from_secs(60);
    config.limits.answer = std::time::Duration::from_secs(60);
    config.settings.insert("frozen".into(), json!(true));
    stage.install(config).ready().await.unwrap();
    assert_eq!(stage.notices(), "", "{example}");

    let refused = call(&stage.bus, "push", json!({"command": "git push --force"})).await;
    assert_eq!(refused.blocked.as_deref(), Some("no force push here"), "{example}");

    let seen = Arc::new(Mutex::new(None));
    let kept = seen.clone();
    stage.bus.scope("after").on_sync(move |call: &ToolPrepare, _: &Cx| {
        *kept.lock().unwrap() = Some(call.args.clone());
    });
    let pushed = call(&stage.bus, "push", json!({"path": "file:///a"})).await;
    assert_eq!(
        (pushed.executions, seen.lock().unwrap().clone()),
        (1, Some(json!({"path": "/a"}))),
        "{example}"
    );

    let rolled = call(&stage.bus, "roll", json!({"dice": 3})).await;
    assert_eq!(rolled.result, "three ones", "{example}");
    assert!(rolled.requests.contains("Write tests first."), "{example}");

    let context = stage.bus.item::<dyn ContextProducer>("freeze").unwrap();
    let cx = stage.bus.cx();
    assert_eq!(context.text(&cx).await.unwrap().as_deref(), Some("the release is frozen"), "{example}");

    let goal = stage.bus.item::<dyn Command>("goal").unwrap();
    assert_eq!(goal.complete("", &cx).await.len(), 2, "{example}");
    let front_end = questions.attach();
    let (kept, ()) = tokio::join!(goal.run("ship it", &cx), async {
        let asked = front_end.next().await;
        front_end.answer(asked.id, asked.digest, UiAnswer::No { message: None }).unwrap();
    });
    assert_eq!(kept.unwrap(), CommandOutcome::Show("not kept".into()), "{example}");

    until("the person is told", || ui.0.lock().unwrap().iter().any(|text| text.contains("is done"))).await;
    let renderer = stage.bus.item::<dyn Renderer>("fence:log").unwrap();
    let rows = renderer.render(&RenderInput { text: "x ERROR y", width: 40 }).unwrap();
    let roles: Vec<SpanRole> = rows.iter().flat_map(|row| &row.spans).map(|span| span.role).collect();
    assert_eq!(roles, [SpanRole::Plain, SpanRole::Bad], "{example}");
}

/// Whether node runs TypeScript as it is.
#[expect(clippy::disallowed_methods, reason = "the test looks for a program of this machine")]
fn node_runs_typescript(stage: &Stage) -> bool {
    fs::write(stage.path().join("probe.ts"), "const x: number = 1; process.exit(x - 1);\n").unwrap();
    let probe = std::process::Command::new("node").arg(stage.path().join("probe.ts")).output();
    probe.is_ok_and(|output| output.status.success())
}

#[tokio::test]
async fn a_first_extension_has_a_tool_a_gate_and_a_command() {
    for (language, program) in [(ScaffoldLanguage::Python, "python3"), (ScaffoldLanguage::TypeScript, "node")]
    {
        let stage = Stage::new();
        if !has(program, "a first extension") {
            continue;
        }
        if language == ScaffoldLanguage::TypeScript && !node_runs_typescript(&stage) {
            println!("skipped: this node does not run TypeScript");
            continue;
        }
        let scaffold = Scaffold::new("first", language);
        for (file, text) in &scaffold.files {
            fs::write(stage.path().join(file), text).unwrap();
        }
        let mut config = ExtensionConfig::new("first", scaffold.command);
        config.limits.start = std::time::Duration::from_secs(60);
        stage.install(config).ready().await.unwrap();
        assert_eq!(call(&stage.bus, "word_count", json!({"text": "one two"})).await.result, "2 words");
        let refused = call(&stage.bus, "push", json!({"command": "git push --force"})).await;
        assert_eq!(refused.blocked.as_deref(), Some("no force push here"));
        let shout = stage.bus.item::<dyn Command>("shout").unwrap();
        assert_eq!(shout.run("hey", &stage.bus.cx()).await.unwrap(), CommandOutcome::Show("HEY!".into()));
        stage.close().await;
    }
}
