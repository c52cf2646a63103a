use std::time::Duration;

use zk_core::service::Backend;

use crate::support::{PATIENCE, is_alive, rig};

async fn fails_with(env: &[(&str, &str)], prompt: &str, parts: &[&str]) {
    let rig = rig(env).await;
    let outcome = rig.run(prompt).await;
    let error = outcome.result.unwrap_err().to_string();
    for part in parts {
        assert!(error.contains(part), "{prompt}: {error}");
    }
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_dies_is_told_with_its_last_words_and_starts_again() {
    let rig = rig(&[]).await;
    let outcome = rig.run("die now").await;
    let error = outcome.result.unwrap_err().to_string();
    for part in ["exit code 3", "out of luck", "/backend"] {
        assert!(error.contains(part), "{error}");
    }
    assert_eq!(rig.run("hello").await.text, "You said: hello");
    assert!(rig.log().iter().any(|line| line == "session/load"));
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_is_an_error_in_words() {
    fails_with(&[], "send garbage", &["200 lines that are no messages"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_without_an_end_is_an_error_in_words() {
    fails_with(&[], "send a huge line", &["more than 16 MB"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_version_is_an_error_in_words() {
    fails_with(&[("AGENT_VERSION", "2")], "hello", &["version 2", "zk speaks 1"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_sign_in_names_the_ways_of_the_agent() {
    fails_with(&[("AGENT_SIGN_IN", "1")], "hello", &["sign in", "In the browser"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_floods_is_ended() {
    let rig = rig(&[]).await;
    let outcome = rig.run("flood me").await;
    let error = format!("{:?} {}", outcome.result, rig.drawn().await.join("\n"));
    assert!(error.contains("nobody could read in time"), "{error}");
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_hangs_is_ended_after_a_stop() {
    let rig = rig(&[]).await;
    let run = rig.start("hang please");
    rig.shows("I hang.").await;
    run.abort();
    let outcome = tokio::time::timeout(PATIENCE, run.wait()).await.unwrap();
    assert!(outcome.result.is_err());
    assert_eq!(rig.run("hello").await.text, "You said: hello");
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_after_a_stop_is_answered_as_cancelled() {
    let rig = rig(&[]).await;
    let run = rig.start("be late");
    rig.shows("I go on.").await;
    run.abort();
    run.wait().await.result.unwrap_err();
    let logged = async {
        while !rig.log().iter().any(|line| line.starts_with("permission")) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, logged).await.unwrap();
    assert!(rig.log().iter().any(|line| line == r#"permission {"outcome": "cancelled"}"#), "{:?}", rig.log());
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_an_agent_is_left_once_it_is_stopped() {
    let rig = rig(&[]).await;
    let text = rig.run("start children").await.text;
    let child: u32 = text.trim_start_matches("child ").parse().unwrap();
    assert!(is_alive(child));
    rig.backend.stop().await;
    assert!(!is_alive(child));
    rig.close().await;
}
