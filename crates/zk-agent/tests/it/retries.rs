//! Requests that fail before anything of an answer came.

use std::sync::Arc;

use serde_json::json;
use zk_agent::{RetryPolicy, Retrying};
use zk_core::kernel::Bus;
use zk_core::model::{ErrorKind, Usage};
use zk_core::service::Provider;
use zk_testkit::{Script, ScriptedProvider};

use crate::support::{Rig, rig, rig_with};

/// Provider that is overloaded this number of times before it answers.
fn overloaded(times: usize) -> Script {
    let failing = (0..times).fold(Script::new(), |script, _| {
        script.turn(|turn| turn.error(ErrorKind::Overloaded, "come back later"))
    });
    failing.turn(|turn| turn.text("Here."))
}

async fn outcome_and_requests(rig: &Rig) -> (Result<String, ErrorKind>, usize) {
    let outcome = rig.run("Hello?").await;
    let kind = |error: zk_core::model::AgentError| error.provider().map(|error| error.kind);
    let text = outcome.result.map(|()| outcome.text).map_err(|error| kind(error).unwrap());
    (text, rig.provider.asked().len())
}

#[tokio::test(start_paused = true)]
async fn by_default_an_overloaded_provider_does_not_end_the_run() {
    let rig = rig(overloaded(2));
    assert_eq!(outcome_and_requests(&rig).await, (Ok("Here.".into()), 3));
    assert_eq!(rig.names(&["provider:retry"]).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_part_of_an_answer_that_is_sent_again_is_in_no_history_and_its_call_never_runs() {
    let spent = |input| Usage { input, output: 1, ..Usage::default() };
    let script = Script::new()
        .turn(move |t| {
            t.text("The secret")
                .call("echo", json!({"text": "half"}))
                .usage(spent(10))
                .error(ErrorKind::Transport, "cut")
        })
        .turn(move |t| t.text("The answer.").usage(spent(10)));
    let rig = rig(script);
    let outcome = rig.run("Hello?").await;
    outcome.result.unwrap();
    assert_eq!(outcome.text, "The answer.");
    let requests = rig.provider.requests();
    assert_eq!(requests.len(), 2);
    assert_eq!(format!("{:?}", requests[0].history), format!("{:?}", requests[1].history));
    let (total, history) = (outcome.stats.usage, rig.agent.history());
    let said = history.iter().map(|message| message.text());
    assert_eq!((total.input, total.output), (20, 2), "both are billed");
    assert_eq!(said.collect::<Vec<_>>(), ["Hello?", "The answer."]);
    assert!(rig.names(&["tool:begin"]).is_empty());
    assert_eq!(rig.recorder.named("provider:retry")[0]["retry"]["discards"], true);
}

#[tokio::test(start_paused = true)]
async fn an_agent_without_retries_sends_one_request() {
    let rig = rig_with(overloaded(1), |builder| builder.retry(RetryPolicy::never()));
    assert_eq!(outcome_and_requests(&rig).await, (Err(ErrorKind::Overloaded), 1));
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_retries_by_itself_keeps_its_own_policy() {
    let inner = ScriptedProvider::new(overloaded(5));
    let policy = RetryPolicy { retries: 1, ..RetryPolicy::default() };
    let retrying = Retrying::new(Arc::new(inner.clone()), policy);
    let agent = zk_agent::Agent::builder(Arc::new(retrying)).build().unwrap();
    agent.run("Hello?").unwrap().wait().await.result.unwrap_err();
    assert_eq!(inner.asked().len(), 2, "its own retry, and no other");
}

#[tokio::test(start_paused = true)]
async fn the_registered_provider_of_a_chosen_model_is_retried_too() {
    let (bus, other) = (Bus::new(), ScriptedProvider::new(overloaded(1)).named("other"));
    let _ = bus.scope("providers").provide::<dyn Provider>("other", Arc::new(other.clone()));
    let agent = zk_agent::Agent::builder(Arc::new(ScriptedProvider::new(Script::new())))
        .bus(bus)
        .model(other.model("other-1"))
        .build()
        .unwrap();
    let outcome = agent.run("Hello?").unwrap().wait().await;
    outcome.result.unwrap();
    assert_eq!((outcome.text.as_str(), other.asked().len()), ("Here.", 2));
}
