use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use zk_kernel::{Answer, BoxError, Bus, Cause, Cx, EmitError, Handler, HookOptions, OnError};

use crate::support::{Log, May, Ping, Say, Words, reporting_bus};

fn failing(_: &Words, _: &Cx) -> Result<Option<&'static str>, BoxError> {
    Err("boom".into())
}

#[tokio::test]
async fn a_failing_handler_is_reported_with_its_source_and_skipped() {
    let (bus, errors) = reporting_bus(OnError::Continue);
    bus.scope("clumsy").on_sync(failing);
    bus.scope("fine").on_sync(|_: &Words, _: &Cx| Some("still here"));
    assert_eq!(bus.cx().emit(Words(vec![])).await.unwrap(), Words(vec!["still here"]));
    let reported = errors.take();
    assert_eq!(reported.len(), 1);
    assert_eq!(reported[0], "clumsy (handler of `test:words`): boom", "no line of code in a message");
}

#[tokio::test]
async fn the_host_can_choose_that_failures_end_an_emit() {
    let (bus, errors) = reporting_bus(OnError::Throw);
    let line = line!() + 1;
    bus.scope("clumsy").on_sync(failing);
    let error = bus.cx().emit(Words(vec![])).await.unwrap_err();
    let EmitError::Hook(hook) = error else { panic!("{error}") };
    assert_eq!(hook.location.line(), line, "where it was registered is kept for developers");
    assert!(errors.take().is_empty(), "the caller has it already");
}

// Guards fail closed, whatever the host's policy.
#[tokio::test]
async fn a_gate_that_fails_ends_the_emit_although_the_host_continues() {
    let (bus, _) = reporting_bus(OnError::Continue);
    bus.scope("guard").on_sync(|_: &May, _: &Cx| Err::<Option<Say>, _>("no rules found"));
    match bus.cx().emit(May).await {
        Err(EmitError::Hook(error)) => {
            assert_eq!(error.source.as_str(), "guard");
            assert!(matches!(error.cause, Cause::Failed(_)));
        }
        other => panic!("the gate let it through: {other:?}"),
    }
}

struct Panics;

impl Handler<Ping> for Panics {
    async fn call(&self, ev: &Ping, _: &Cx) -> Answer<Ping> {
        tokio::task::yield_now().await;
        panic!("async {}", ev.0);
    }
}

#[tokio::test]
async fn a_panic_in_a_handler_or_observer_is_reported_and_the_rest_still_runs() {
    let (bus, errors) = reporting_bus(OnError::Continue);
    let log = Log::default();
    let scope = bus.scope("clumsy");
    scope.observe(|_, _| panic!("observer"));
    scope.on_sync(|_: &Ping, _: &Cx| {
        if true {
            panic!("sync");
        }
    });
    scope.handle(Arc::new(Panics));
    let after = log.clone();
    scope.on_sync(move |_: &Ping, _: &Cx| after.note("after"));
    bus.cx().emit(Ping(1)).await.unwrap();
    assert_eq!(log.take(), ["after"]);
    let reported = errors.take();
    for (error, message) in reported.iter().zip(["observer", "sync", "async 1"]) {
        assert!(error.ends_with(&format!("panicked: {message}")), "{error}");
    }
    assert_eq!(reported.len(), 3);
}

#[tokio::test]
async fn a_handler_that_panics_between_others_costs_them_nothing() {
    let (bus, errors) = reporting_bus(OnError::Continue);
    let scope = bus.scope("test");
    scope.on_sync(|_: &Words, _: &Cx| Some("first"));
    bus.scope("clumsy").on_sync(|_: &Words, _: &Cx| -> Option<&'static str> { panic!("boom") });
    scope.on_async(async |_: &Words, _: &Cx| Some("second"));
    bus.scope("clumsy").on_sync(|_: &Words, _: &Cx| -> Option<&'static str> { panic!("bang") });
    scope.on_sync(|_: &Words, _: &Cx| None::<&'static str>);
    scope.on_sync(|_: &Words, _: &Cx| Some("third"));
    let after = bus.cx().emit(Words(vec![])).await.unwrap();
    assert_eq!(after, Words(vec!["first", "second", "third"]));
    let reported = errors.take();
    assert_eq!(reported.len(), 2);
    assert!(reported.iter().all(|error| error.starts_with("clumsy ")), "{reported:?}");
}

#[tokio::test]
async fn a_panic_in_a_gate_refuses() {
    let (bus, _) = reporting_bus(OnError::Continue);
    bus.scope("guard").on_sync(|_: &May, _: &Cx| -> Option<Say> { panic!("out of rules") });
    let error = bus.cx().emit(May).await.unwrap_err();
    assert!(error.to_string().ends_with("panicked: out of rules"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_gate_that_does_not_answer_in_time_refuses() {
    let (bus, _) = reporting_bus(OnError::Continue);
    bus.scope("guard").on_async(async |_: &May, _: &Cx| std::future::pending::<Option<Say>>().await);
    match bus.cx().emit(May).await {
        Err(EmitError::Hook(error)) => {
            assert!(matches!(error.cause, Cause::TimedOut(limit) if limit == Duration::from_secs(5)));
            assert!(error.to_string().ends_with("no answer within 5s"), "{error}");
        }
        other => panic!("the gate let it through: {other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_registration_can_ask_for_more_or_less_time_than_the_event_gives() {
    let (bus, errors) = reporting_bus(OnError::Continue);
    let limit = |secs| HookOptions { time_limit: Some(Duration::from_secs(secs)), ..HookOptions::default() };
    let scope = bus.scope("test");
    scope.on_async_at(limit(60), async |_: &May, _: &Cx| {
        tokio::time::sleep(Duration::from_secs(30)).await;
    });
    assert_eq!(bus.cx().emit(May).await.unwrap(), None);
    scope.on_async_at(limit(1), async |_: &Ping, _: &Cx| {
        tokio::time::sleep(Duration::from_secs(2)).await;
    });
    bus.cx().emit(Ping(0)).await.unwrap();
    assert!(errors.take()[0].ends_with("no answer within 1s"));
}

#[test]
fn a_runtime_without_timers_makes_a_waiting_gate_refuse_and_not_crash() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (bus, _) = reporting_bus(OnError::Continue);
    bus.scope("guard").on_async(async |_: &May, _: &Cx| tokio::task::yield_now().await);
    let error = runtime.block_on(bus.cx().emit(May)).unwrap_err();
    assert!(error.to_string().contains("timers"), "{error}");
}

#[tokio::test]
async fn a_reporter_that_panics_does_not_end_the_emit() {
    let bus = Bus::builder().on_error(|_| panic!("reporter")).build();
    bus.scope("clumsy").on_sync(failing);
    assert_eq!(bus.cx().emit(Words(vec![])).await.unwrap(), Words(vec![]));
}

#[derive(Debug, thiserror::Error)]
#[error("rules not loaded")]
struct NotLoaded(#[source] std::io::Error);

#[tokio::test]
async fn an_error_chain_names_each_failure_once() {
    let (bus, _) = reporting_bus(OnError::Continue);
    bus.scope("guard")
        .on_sync(|_: &May, _: &Cx| Err::<Option<Say>, _>(NotLoaded(std::io::Error::other("disk gone"))));
    let error = bus.cx().emit(May).await.unwrap_err();
    let mut chain = Vec::new();
    let mut next: Option<&dyn Error> = Some(&error);
    while let Some(error) = next {
        chain.push(error.to_string());
        next = error.source();
    }
    assert_eq!(chain.len(), 2, "{chain:?}");
    assert!(chain[0].ends_with(": rules not loaded"), "{chain:?}");
    assert_eq!(chain[1], "disk gone");
    let EmitError::Hook(error) = error else { panic!("not a hook error") };
    let Cause::Failed(cause) = error.cause else { panic!("not a failure") };
    assert!(cause.downcast_ref::<NotLoaded>().is_some(), "the handler's own type is still there");
}
