use serde_json::json;
use zk_core::kernel::RegistrationKind;
use zk_core::service::{Command, CommandOutcome, ContextProducer};

use crate::support::{Stage, call};

#[tokio::test]
async fn a_gate_refuses_one_call_and_lets_another_through() {
    let stage = Stage::new();
    stage
        .ready(
            r#"
            hello '{"asks":[{"event":"tool:gate"}]}'
            while next; do
                case $line in
                *force*) reply '{"decision":"refuse","reason":"no force push here"}' ;;
                *) reply null ;;
                esac
            done"#,
        )
        .await;
    let refused = call(&stage.bus, "push", json!({"how": "force"})).await;
    assert_eq!((refused.executions, refused.blocked.as_deref()), (0, Some("no force push here")));
    assert_eq!(call(&stage.bus, "push", json!({})).await.executions, 1);
    stage.close().await;
}

#[tokio::test]
async fn a_tool_a_section_and_context_of_an_extension_reach_the_model() {
    let stage = Stage::new();
    stage
        .ready(
            r#"
            hello '{"tools":[{"name":"roll","description":"Rolls.","effects":{}}],"sections":[{"id":"house","text":"House rule 7."},{"id":"live"}],"contexts":[{"name":"branch"}]}'
            while next; do
                case $method in
                tool/call) tell tool/progress '{"call":"none","text":"rolling"}'; reply '{"content":"a six"}' ;;
                section/text) reply '"Asked rule 8."' ;;
                context/text) reply '"on branch main"' ;;
                esac
            done"#,
        )
        .await;
    let called = call(&stage.bus, "roll", json!({})).await;
    assert_eq!(called.result, "a six");
    for part in ["House rule 7.", "Asked rule 8.", "Rolls."] {
        assert!(called.requests.contains(part), "{part}: {}", called.requests);
    }
    let context = stage.bus.item::<dyn ContextProducer>("branch").unwrap();
    assert_eq!(context.text(&stage.bus.cx()).await.unwrap().as_deref(), Some("on branch main"));
    stage.close().await;
}

#[tokio::test]
async fn a_tool_is_offered_to_no_model_that_an_extension_keeps_it_from() {
    for (answer, is_offered) in [("never", false), ("always", true)] {
        let stage = Stage::new();
        let script = format!(
            r#"
            hello '{{"asks":[{{"event":"tools:offer"}}],"tools":[{{"name":"roll","description":"Rolls.","effects":{{}}}}]}}'
            while next; do
                case $line in
                *tools:offer*) reply '{{"roll":"{answer}","no-such-tool":"lazy"}}' ;;
                *) reply '{{"content":"a six"}}' ;;
                esac
            done"#
        );
        stage.ready(&script).await;
        let called = call(&stage.bus, "roll", json!({})).await;
        assert_eq!(called.requests.contains("Rolls."), is_offered, "{}", called.requests);
        assert_eq!(called.result == "a six", is_offered, "{}", called.result);
        stage.close().await;
    }
}

#[tokio::test]
async fn arguments_are_prepared_and_results_changed() {
    let stage = Stage::new();
    stage
        .ready(
            r#"
            hello '{"asks":[{"event":"tool:prepare"},{"event":"tool:transform"}],"tells":["tool:after"]}'
            while next; do
                case $line in
                *'"event/tell"'*) echo told >> told ;;
                *tool:prepare*) reply '{"how":"gently"}' ;;
                *tool:transform*) reply '{"content":"pushed gently"}' ;;
                esac
            done"#,
        )
        .await;
    let called = call(&stage.bus, "push", json!({"how": "hard"})).await;
    assert_eq!(called.result, "pushed gently");
    assert!(called.requests.contains("gently"));
    crate::support::until("it was told", || stage.path().join("told").exists()).await;
    stage.close().await;
}

#[tokio::test]
async fn a_command_runs_and_completes_its_arguments() {
    let stage = Stage::new();
    stage
        .ready(
            r#"
            hello '{"commands":[{"name":"shout","help":"says it louder","arguments":"TEXT","completes":true}]}'
            while next; do
                case $method in
                command/run) case $line in *quiet*) reply null ;; *ask*) reply '{"prompt":"Go on."}' ;; *bad*) fail "no such word" ;; *) reply '{"show":"HEY"}' ;; esac ;;
                command/complete) reply '[{"value":"hey","note":"a word"}]' ;;
                esac
            done"#,
        )
        .await;
    let command = stage.bus.item::<dyn Command>("shout").unwrap();
    let cx = stage.bus.cx();
    assert_eq!((command.help(), command.argument_hint()), ("says it louder", Some("TEXT")));
    assert_eq!(command.complete("h", &cx).await[0].value, "hey");
    assert_eq!(command.run("hey", &cx).await.unwrap(), CommandOutcome::Show("HEY".into()));
    assert_eq!(command.run("quiet", &cx).await.unwrap(), CommandOutcome::Done);
    assert_eq!(command.run("ask", &cx).await.unwrap(), CommandOutcome::Prompt("Go on.".into()));
    let error = command.run("bad", &cx).await.unwrap_err().to_string();
    assert!(error.contains("extension `x` failed: no such word"), "{error}");
    stage.close().await;
}

#[tokio::test]
async fn a_name_that_exists_is_refused_in_words_and_the_rest_is_there() {
    let stage = Stage::new();
    let tool = r#"{"name":"roll","description":"Rolls.","effects":{}}"#;
    let script =
        format!(r#"hello '{{"tools":[{tool}]}}'; while next; do reply '{{"content":"of x"}}'; done"#);
    stage.ready(&script).await;
    let second = format!(
        r#"hello '{{"tools":[{tool},{{"name":"flip","description":"Flips.","effects":{{}}}}],"asks":[{{"event":"no:such"}}]}}'; while next; do reply '{{"content":"of y"}}'; done"#
    );
    let mut config = stage.config(&second);
    config.name = "y".into();
    // One that guards would refuse calls for an event that there is not.
    config.guards = false;
    stage.install(config).ready().await.unwrap();
    let notices = stage.notices();
    assert!(notices.contains("extension `y`: tool `roll` is left out"), "{notices}");
    assert!(notices.contains("extension:x"), "{notices}");
    assert!(notices.contains("ask `no:such` is left out: no extension can answer this event"), "{notices}");
    assert_eq!(call(&stage.bus, "roll", json!({})).await.result, "of x");
    assert_eq!(call(&stage.bus, "flip", json!({})).await.result, "of y");
    stage.close().await;
}

#[tokio::test]
async fn an_extension_that_asks_for_no_event_puts_no_handler_on_the_path_of_a_call() {
    let stage = Stage::new();
    stage.ready(r#"hello '{"commands":[{"name":"shout"}]}'; while next; do reply null; done"#).await;
    let of_it: Vec<_> =
        stage.bus.describe().into_iter().filter(|one| one.source.as_str() == "extension:x").collect();
    let handlers: Vec<&str> = of_it
        .iter()
        .filter(|one| matches!(one.kind, RegistrationKind::Handler | RegistrationKind::Observer))
        .map(|one| one.name.as_ref())
        .collect();
    assert_eq!(handlers, ["session:start"]);
    stage.close().await;
}

#[tokio::test]
async fn an_extension_of_a_project_can_neither_declare_effects_nor_answer_for_the_person() {
    let stage = Stage::new();
    let mut config = stage.config(
        r#"hello '{"tools":[{"name":"roll","description":"Rolls.","effects":{}}],"asks":[{"event":"permission:request"}]}'; while next; do reply null; done"#,
    );
    config.origin = zk_extensions::ExtensionOrigin::project(".zk/settings.toml");
    stage.install(config).ready().await.unwrap();
    let tool = stage.bus.item::<dyn zk_core::service::Tool>("roll").unwrap();
    let place = zk_core::service::CallPlace { cx: stage.bus.cx(), cwd: "/".into() };
    assert_eq!(tool.effects(&json!({}), &place), zk_core::model::Effects::Unknown);
    assert!(stage.notices().contains("cannot answer in the place of the person"), "{}", stage.notices());
    stage.close().await;
}
