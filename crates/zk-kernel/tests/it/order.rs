use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use zk_kernel::{Bus, Cx, HookOptions, Reach, Stage};

use crate::support::{Log, Ping, Words};

fn add(bus: &Bus, log: &Log, name: &'static str, at: Stage) {
    let log = log.clone();
    bus.scope(name).on_sync_at(at, move |_: &Ping, _: &Cx| log.note(name));
}

#[tokio::test]
async fn handlers_run_by_stage_and_then_in_the_order_of_registration() {
    let (bus, log) = (Bus::new(), Log::default());
    add(&bus, &log, "late", Stage::Late);
    add(&bus, &log, "review", Stage::Review);
    add(&bus, &log, "consumer 1", Stage::Consumer);
    add(&bus, &log, "framework", Stage::Framework);
    add(&bus, &log, "early", Stage::Early);
    add(&bus, &log, "consumer 2", Stage::Consumer);
    bus.cx().emit(Ping(0)).await.unwrap();
    assert_eq!(log.take(), ["early", "consumer 1", "consumer 2", "framework", "review", "late"]);
}

// An observer never sees an intermediate state, and cannot answer.
#[tokio::test]
async fn observers_see_the_original_event_once_before_any_handler() {
    let (bus, log) = (Bus::new(), Log::default());
    let scope = bus.scope("test");
    let handler = log.clone();
    scope.on_sync_at(Stage::Early, move |_: &Words, _: &Cx| {
        handler.note("handler");
        Some("changed")
    });
    for name in ["first", "second"] {
        let log = log.clone();
        scope.observe(move |ev, _| log.note(format_args!("{name} {}", ev.to_json().unwrap())));
    }
    bus.cx().emit(Words(vec!["as it was"])).await.unwrap();
    assert_eq!(log.take(), [r#"first ["as it was"]"#, r#"second ["as it was"]"#, "handler"]);
}

#[tokio::test]
async fn an_observer_sees_every_kind_of_event_and_can_tell_them_apart() {
    let (bus, log) = (Bus::new(), Log::default());
    let seen = log.clone();
    bus.scope("test").observe(move |ev, cx| {
        let what =
            ev.downcast::<Ping>().map_or_else(|| ev.name().to_owned(), |ping| format!("ping {}", ping.0));
        seen.note(format_args!("{what} of {}", cx.origin().agent));
    });
    bus.cx().emit(Ping(4)).await.unwrap();
    bus.cx().emit(Words(vec![])).await.unwrap();
    assert_eq!(log.take(), ["ping 4 of main", "test:words of main"]);
}

#[tokio::test]
async fn an_observer_can_have_the_number_and_the_time_of_each_event_of_a_tree() {
    let (bus, log) = (Bus::new(), Log::default());
    let began = SystemTime::now();
    let numbers = Arc::new(Mutex::new(Vec::new()));
    // A slow observer does not delay others.
    bus.scope("test").observe_at(Reach::Descendants, |_, _| {});
    for _ in 0..2 {
        let (numbers, log) = (numbers.clone(), log.clone());
        bus.scope("test").observe_stamped(Reach::Descendants, move |ev, stamp, cx| {
            assert!(stamp.at >= began && stamp.at <= SystemTime::now());
            numbers.lock().unwrap().push(stamp.number);
            log.note(format_args!("{} of {}", ev.name(), cx.origin().agent));
        });
    }
    let child = bus.child("child");
    bus.cx().emit(Ping(1)).await.unwrap();
    child.cx().emit(Ping(2)).await.unwrap();
    bus.cx().emit(Ping(3)).await.unwrap();
    let numbers = numbers.lock().unwrap().clone();
    // Numbers agree for both observers and have no gap across the tree.
    let first = numbers[0];
    assert_eq!(numbers, [0, 0, 1, 1, 2, 2].map(|more| first + more));
    assert_eq!(log.take()[2], "test:ping of child");
}

// One after the other, also when they wait.
#[tokio::test]
async fn a_handler_that_waits_holds_up_the_next_one() {
    let (bus, log) = (Bus::new(), Log::default());
    let scope = bus.scope("test");
    scope.on_async_with(log.clone(), async |log: &Log, _: &Ping, _: &Cx| {
        log.note("slow begins");
        tokio::task::yield_now().await;
        log.note("slow ends");
    });
    let quick = log.clone();
    scope.on_sync(move |_: &Ping, _: &Cx| quick.note("quick"));
    bus.cx().emit(Ping(0)).await.unwrap();
    assert_eq!(log.take(), ["slow begins", "slow ends", "quick"]);
}

fn shared(_: &Ping, cx: &Cx) {
    if let Some(log) = cx.service::<Log>() {
        log.note("called");
    }
}

#[tokio::test]
async fn the_same_function_registered_twice_is_one_registration() {
    let (bus, log) = (Bus::new(), Log::default());
    let scope = bus.scope("test");
    scope.provide_service(Arc::new(log.clone()));
    scope.on_sync(shared);
    let second = scope.on_sync(shared);
    bus.cx().emit(Ping(0)).await.unwrap();
    assert_eq!(log.take(), ["called"]);

    second.cancel().await;
    bus.cx().emit(Ping(0)).await.unwrap();
    assert!(log.take().is_empty(), "either hook removes the one registration");
}

// Source and stage are part of a registration's identity.
#[tokio::test]
async fn the_same_function_of_two_plugins_or_stages_is_two_registrations() {
    let (bus, log) = (Bus::new(), Log::default());
    let scope = bus.scope("a");
    scope.provide_service(Arc::new(log.clone()));
    scope.on_sync(shared);
    scope.on_sync_at(HookOptions { stage: Stage::Late, ..HookOptions::default() }, shared);
    bus.scope("b").on_sync(shared);
    bus.cx().emit(Ping(0)).await.unwrap();
    assert_eq!(log.take().len(), 3);
}

#[tokio::test]
async fn closures_with_state_are_each_a_registration_of_their_own() {
    let (bus, log) = (Bus::new(), Log::default());
    let scope = bus.scope("test");
    for n in 0..3 {
        let log = log.clone();
        scope.on_sync(move |_: &Ping, _: &Cx| log.note(n));
    }
    bus.cx().emit(Ping(0)).await.unwrap();
    assert_eq!(log.take(), ["0", "1", "2"]);
}

#[tokio::test]
async fn an_observer_registered_for_descendants_too_is_not_swallowed_by_the_one_that_is_not() {
    fn watch(_: &dyn zk_kernel::AnyEvent, cx: &Cx) {
        if let Some(log) = cx.service::<Log>() {
            log.note("seen");
        }
    }
    let (bus, log) = (Bus::new(), Log::default());
    let scope = bus.scope("test");
    scope.provide_service(Arc::new(log.clone()));
    scope.observe(watch);
    scope.observe(watch);
    scope.observe_at(Reach::Descendants, watch);
    bus.child("helper").cx().emit(Ping(0)).await.unwrap();
    assert_eq!(log.take(), ["seen"]);
}
