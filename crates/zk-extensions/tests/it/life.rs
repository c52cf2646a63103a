use std::time::Duration;

use serde_json::json;
use zk_extensions::ExtensionState;

use crate::support::{Stage, call, until};

#[tokio::test]
async fn a_program_that_ended_is_started_again_and_its_guard_refuses_until_then() {
    let stage = Stage::new();
    let handle = stage
        .ready(
            r#"
            hello '{"asks":[{"event":"tool:gate"}]}'
            while next; do case $line in *die*) exit 3 ;; esac; reply null; done"#,
        )
        .await;
    let refused = call(&stage.bus, "push", json!({"how": "die"})).await;
    assert_eq!(refused.executions, 0);
    let reason = refused.blocked.unwrap();
    assert!(reason.contains("extension `x` does not run (ended with exit code 3"), "{reason}");
    until("it is started again", || {
        stage.pids().len() == 2 && matches!(handle.state(), ExtensionState::Ready(_))
    })
    .await;
    assert_eq!(call(&stage.bus, "push", json!({})).await.executions, 1);
    assert!(stage.notices().contains("calls are refused until it runs"), "{}", stage.notices());
    stage.close().await;
}

#[tokio::test]
async fn a_guard_that_is_gone_after_a_new_start_still_refuses() {
    let stage = Stage::new();
    let handle = stage
        .ready(
            r#"
            if [ $(wc -l < pids) = 1 ]; then hello '{"asks":[{"event":"tool:gate"}]}'; next; exit 3; fi
            hello '{}'; while next; do reply null; done"#,
        )
        .await;
    call(&stage.bus, "push", json!({})).await;
    until("it is started again", || {
        stage.pids().len() == 2 && matches!(handle.state(), ExtensionState::Ready(_))
    })
    .await;
    let refused = call(&stage.bus, "push", json!({})).await;
    assert_eq!(refused.executions, 0);
    assert!(refused.blocked.unwrap().contains("no longer says that it guards `tool:gate`"));
    stage.close().await;
}

#[tokio::test]
async fn calls_are_refused_for_as_long_as_nobody_knows_what_an_extension_guards() {
    let stage = Stage::new();
    let mut config = stage.config("exit 7");
    stage.install(config.clone());
    let refused = call(&stage.bus, "push", json!({})).await;
    assert_eq!(refused.executions, 0);
    let reason = refused.blocked.unwrap();
    assert!(reason.contains("extension `x` does not run") && reason.contains("guards = false"), "{reason}");
    stage.close().await;

    let stage = Stage::new();
    config.guards = false;
    stage.install(config);
    assert_eq!(call(&stage.bus, "push", json!({})).await.executions, 1);
    stage.close().await;
}

#[tokio::test]
async fn a_program_that_cannot_be_started_is_named() {
    let stage = Stage::new();
    let mut config = stage.config("");
    config.command = vec!["no-such-program-at-all".into()];
    let handle = stage.install(config);
    let error = handle.ready().await.unwrap_err().to_string();
    assert!(error.contains("extension `x`") && error.contains("no-such-program-at-all"), "{error}");
    stage.close().await;
}

#[tokio::test]
async fn a_check_before_the_start_keeps_a_program_from_running() {
    let stage = Stage::new();
    let config = stage.config("echo ran > ran; hello '{}'; next");
    let extension = zk_extensions::Extension::new(config, stage.path())
        .check_starts(|_| Err("main.py changed since it was approved".into()));
    stage.bus.install(&extension).unwrap();
    let error = extension.handle().ready().await.unwrap_err().to_string();
    assert!(error.contains("main.py changed since it was approved") && error.contains("/reload"), "{error}");
    assert!(!stage.path().join("ran").exists());
    stage.close().await;
}

#[tokio::test]
async fn a_program_that_does_not_end_by_itself_is_killed_with_its_children() {
    let stage = Stage::new();
    stage.ready("trap '' TERM; sleep 1000 & echo $! >> pids; hello '{}'; while :; do sleep 1000; done").await;
    until("it wrote both ids", || stage.pids().len() == 2).await;
    stage.close().await;
}

#[tokio::test]
async fn standard_error_goes_to_the_log_and_into_the_message_about_the_end() {
    let stage = Stage::new();
    let log = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let kept = log.clone();
    let extension =
        zk_extensions::Extension::new(stage.config("echo 'no such module' >&2; exit 1"), stage.path())
            .on_log(move |bytes| kept.lock().unwrap().extend_from_slice(bytes));
    stage.bus.install(&extension).unwrap();
    let error = extension.handle().ready().await.unwrap_err().to_string();
    assert!(error.contains("it said: no such module"), "{error}");
    assert_eq!(String::from_utf8_lossy(&log.lock().unwrap()).lines().next(), Some("no such module"));
    stage.close().await;
}

#[tokio::test]
async fn a_call_that_is_stopped_is_cancelled_in_the_extension() {
    let stage = Stage::new();
    let handle = stage
        .ready(
            r#"
            hello '{"commands":[{"name":"wait"}]}'
            while next; do case $method in cancel) echo cancelled > cancelled ;; esac; done"#,
        )
        .await;
    let params = json!({"name": "wait", "args": "", "run": ""});
    let waiting = tokio::time::timeout(Duration::from_millis(50), handle.request("command/run", &params));
    assert!(waiting.await.is_err());
    until("it was told", || stage.path().join("cancelled").exists()).await;
    stage.close().await;
}

#[tokio::test]
async fn an_extension_that_guards_something_there_is_not_refuses_calls() {
    let stage = Stage::new();
    stage.install(
        stage.config(r#"hello '{"asks":[{"event":"tool:gaet"}]}'; while next; do reply null; done"#),
    );
    until("it is told", || stage.notices().contains("`tool:gaet`")).await;
    let refused = call(&stage.bus, "push", json!({})).await;
    assert_eq!(refused.executions, 0);
    assert!(refused.blocked.unwrap().contains("no event that it may answer"));
    stage.close().await;
}
