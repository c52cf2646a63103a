use std::sync::Arc;
use std::sync::Mutex;

use serde_json::{Value, json};
use zk_core::events::ViewBlock;
use zk_core::kernel::Cx;
use zk_core::service::{Command, CommandOutcome, Question, Questions, Ui, UiAnswer};

use crate::support::{Stage, call, until};

/// Runs the command `go` of an extension, and returns the text that it shows.
async fn go(stage: &Stage) -> String {
    let command = stage.bus.item::<dyn Command>("go").unwrap();
    match command.run("", &stage.bus.cx()).await.unwrap() {
        CommandOutcome::Show(text) => text,
        other => panic!("{other:?}"),
    }
}

/// A script whose command shows the answer to a request.
fn asking(method: &str, params: &Value) -> String {
    format!(
        r#"
        hello '{{"commands":[{{"name":"go"}}]}}'
        while next; do
            asked=$id; ask q '{method}' '{params}'
            while next; do case $line in *'"id":"q"'*) break ;; esac; done
            answer=$(printf %s "$line" | sed 's/[\\"]/./g'); id=$asked; reply "{{\"show\":\"$answer\"}}"
        done"#
    )
}

#[tokio::test]
async fn a_question_reaches_the_person_and_names_the_extension() {
    let stage = Stage::new();
    let questions = Arc::new(Questions::new());
    stage.bus.scope("person").provide_service(questions.clone());
    let params = json!({"form": "select", "text": "Which?", "options": ["red", "blue"]});
    stage.ready(&asking("ask", &params)).await;
    let front_end = questions.attach();
    let (shown, ()) = tokio::join!(go(&stage), async {
        let asked = front_end.next().await;
        let Question::Select(select) = &asked.question else { panic!("{asked:?}") };
        assert_eq!(select.text, "extension `x` asks: Which?");
        front_end.answer(asked.id, asked.digest, UiAnswer::Choice { index: 1 }).unwrap();
    });
    assert!(shown.contains(".answer.:.choice.,.index.:1"), "{shown}");
    stage.close().await;
}

#[tokio::test]
async fn a_question_that_nobody_can_answer_is_absent() {
    let stage = Stage::new();
    stage.ready(&asking("ask", &json!({"text": "Really?"}))).await;
    assert!(go(&stage).await.contains(".answer.:.absent."));
    stage.close().await;
}

#[tokio::test]
async fn an_unknown_method_wrong_parameters_and_a_missing_run_are_answered_in_words() {
    for (method, params, words) in [
        ("no/such", json!({}), "zk knows no method"),
        ("ask", json!({"txet": "?"}), "the parameters are wrong"),
        ("side_call", json!({"purpose": "p", "prompt": "p"}), "no such run"),
        ("run/abort", json!({"run": "r9", "reason": "r"}), "no such run"),
        ("deliver", json!({"text": "t"}), "no conversation"),
        ("session/append", json!({"kind": "k", "data": 1}), "not stored"),
    ] {
        let stage = Stage::new();
        stage.ready(&asking(method, &params)).await;
        let shown = go(&stage).await;
        assert!(shown.contains(words), "{method}: {shown}");
        stage.close().await;
    }
}

#[derive(Default)]
struct Shown(Mutex<Vec<String>>);

impl Ui for Shown {
    fn notify(&self, text: &str) {
        self.0.lock().unwrap().push(text.to_owned());
    }
}

#[tokio::test]
async fn notices_and_blocks_reach_the_person_without_control_characters_and_not_in_a_flood() {
    let stage = Stage::new();
    let (ui, blocks) = (Arc::new(Shown::default()), Arc::new(Mutex::new(Vec::new())));
    let scope = stage.bus.scope("terminal");
    scope.provide_service::<dyn Ui>(ui.clone());
    let kept = blocks.clone();
    scope.on_sync(move |block: &ViewBlock, _: &Cx| kept.lock().unwrap().push(block.clone()));
    stage
        .ready(
            r#"
            hello '{"commands":[{"name":"go"}]}'
            tell show '{"key":"k","title":"Plan","body":{"kind":"line","text":"one"}}'
            for i in $(seq 2000); do tell notify '{"text":"look \u001b[2J"}'; done
            while next; do reply '{"show":"done"}'; done"#,
        )
        .await;
    assert_eq!(go(&stage).await, "done");
    let notices = ui.0.lock().unwrap().clone();
    assert!(notices[0].starts_with("x: look") && !notices[0].contains('\u{1b}'), "{:?}", notices[0]);
    assert!(notices.len() < 100, "{}", notices.len());
    until("the block is shown", || !blocks.lock().unwrap().is_empty()).await;
    assert_eq!(blocks.lock().unwrap()[0].source, "extension:x");
    stage.close().await;
}

#[tokio::test]
async fn tools_come_and_go_while_an_extension_runs() {
    let stage = Stage::new();
    let handle = stage
        .ready(
            r#"
            hello '{"commands":[{"name":"go"}]}'
            next; asked=$id; ask 1 register '{"tools":[{"name":"late","description":"Late.","effects":{}}]}'; next; id=$asked; reply '{"show":"in"}'
            next; reply '{"content":"late result"}'
            next; asked=$id; ask 2 unregister '{"tools":["late"]}'; next; id=$asked; reply '{"show":"out"}'
            next"#,
        )
        .await;
    assert_eq!(go(&stage).await, "in");
    assert!(handle.registered().iter().any(|one| one.kind == "tool" && one.name == "late"));
    assert_eq!(call(&stage.bus, "late", json!({})).await.result, "late result");
    assert_eq!(go(&stage).await, "out");
    assert!(!handle.registered().iter().any(|one| one.kind == "tool"));
    stage.close().await;
}

#[tokio::test]
async fn a_side_call_is_made_in_the_run_that_waits_for_the_extension() {
    let stage = Stage::new();
    stage
        .ready(
            r#"
            hello '{"asks":[{"event":"tool:gate"}]}'
            while next; do
                asked=$id; ask s side_call '{"purpose":"judge","prompt":"Is that wise?"}'
                while next; do case $line in *'"id":"s"'*) break ;; esac; done
                case $line in *'"result":{"text":"Done."}'*) id=$asked; reply '{"decision":"refuse","reason":"the model said: Done."}' ;; *) printf '%s\n' "$line" > line; id=$asked; reply null ;; esac
            done"#,
        )
        .await;
    let called = call(&stage.bus, "push", json!({})).await;
    assert_eq!(called.blocked.as_deref(), Some("the model said: Done."), "{called:?}");
    stage.close().await;
}
