use std::sync::Arc;
use std::time::Duration;

use zk_kernel::{Bus, Cx, OnError, ProvideError, Reach, RegistrationKind, Stage};

use crate::support::{Log, May, Ping, Say, reporting_bus};

// Registrations of a plugin leave together, of every kind.
#[tokio::test]
async fn closing_a_scope_removes_everything_registered_through_it_and_nothing_else() {
    let bus = Bus::new();
    let (mine, yours) = (bus.scope("mine"), bus.scope("yours"));
    for scope in [&mine, &yours] {
        scope.on_sync(|_: &Ping, _: &Cx| ());
        scope.observe(|_, _| ());
        scope.provide(scope.source().as_str(), Arc::new(1_u32)).unwrap();
        scope.decorate::<u32>("any", |item| item);
        scope.decorate_all::<u32>(|item| item);
        scope.provide_service(Arc::new("service".to_owned()));
    }
    assert_eq!(bus.describe().len(), 12);
    mine.close().await;
    let left = bus.describe();
    assert_eq!(left.len(), 6);
    assert!(left.iter().all(|one| one.source.as_str() == "yours"), "{left:?}");
}

#[tokio::test]
async fn clean_ups_run_newest_first() {
    let (bus, log) = (Bus::new(), Log::default());
    let scope = bus.scope("test");
    for n in 1..=3 {
        let log = log.clone();
        scope.on_close(async move || {
            tokio::task::yield_now().await;
            log.note(n);
        });
    }
    scope.close().await;
    assert_eq!(log.take(), ["3", "2", "1"]);
    scope.close().await;
    assert!(log.take().is_empty(), "each runs once");
}

// Each registration can be taken back alone.
#[tokio::test]
async fn every_hook_can_be_taken_back_by_itself() {
    let (bus, log) = (Bus::new(), Log::default());
    let scope = bus.scope("test");
    let handler = scope.on_sync(|_: &Ping, _: &Cx| ());
    let observer = scope.observe(|_, _| ());
    let cleanup = log.clone();
    let cleanup = scope.on_close(async move || cleanup.note("cleaned"));
    handler.remove();
    observer.cancel().await;
    cleanup.cancel().await;
    assert!(bus.describe().is_empty());
    scope.close().await;
    assert!(log.take().is_empty());
}

// A clean-up can belong to one registration.
#[tokio::test]
async fn cancelling_a_hook_runs_the_clean_ups_attached_to_it() {
    let (bus, log) = (Bus::new(), Log::default());
    let scope = bus.scope("test");
    let (attached, other) = (log.clone(), log.clone());
    let hook = scope.on_sync(|_: &Ping, _: &Cx| ()).on_close(async move || attached.note("attached"));
    scope.on_close(async move || other.note("other"));
    hook.clone().cancel().await;
    assert_eq!(log.take(), ["attached"]);
    scope.close().await;
    assert_eq!(log.take(), ["other"]);
}

#[tokio::test]
async fn a_clean_up_attached_to_a_removed_hook_stays_owed_until_the_scope_closes() {
    let (bus, log) = (Bus::new(), Log::default());
    let scope = bus.scope("test");
    let attached = log.clone();
    scope.on_sync(|_: &Ping, _: &Cx| ()).on_close(async move || attached.note("attached")).remove();
    assert!(log.take().is_empty());
    scope.close().await;
    assert_eq!(log.take(), ["attached"]);
}

#[tokio::test]
async fn a_clean_up_that_panics_is_reported_and_the_others_still_run() {
    let (bus, errors) = reporting_bus(OnError::Continue);
    let log = Log::default();
    let scope = bus.scope("test");
    let first = log.clone();
    scope.on_close(async move || first.note("first"));
    scope.on_close(async || panic!("second"));
    scope.close().await;
    assert_eq!(log.take(), ["first"]);
    assert!(errors.take()[0].ends_with("panicked: second"));
}

#[tokio::test]
async fn a_clean_up_may_add_another() {
    let (bus, log) = (Bus::new(), Log::default());
    let scope = bus.scope("test");
    let (inner, notes) = (scope.clone(), log.clone());
    scope.on_close(async move || {
        let more = notes.clone();
        inner.on_close(async move || more.note("inner"));
        notes.note("outer");
    });
    scope.close().await;
    assert_eq!(log.take(), ["outer", "inner"]);
}

#[tokio::test]
async fn a_close_that_is_dropped_half_way_leaves_the_rest_to_the_next_one() {
    let (bus, log) = (Bus::new(), Log::default());
    let scope = bus.scope("test");
    let first = log.clone();
    scope.on_close(async move || first.note("first"));
    scope.on_close(std::future::pending::<()>);
    let close = tokio::time::timeout(Duration::from_millis(1), scope.close()).await;
    assert!(close.is_err());
    assert!(log.take().is_empty());
    bus.close().await;
    assert_eq!(log.take(), ["first"]);
}

#[tokio::test]
async fn a_clean_up_that_comes_after_the_close_runs_at_once() {
    let (bus, log) = (Bus::new(), Log::default());
    let scope = bus.scope("test");
    scope.close().await;
    let (late, attached) = (log.clone(), log.clone());
    scope.on_close(async move || late.note("late"));
    scope.on_sync(|_: &Ping, _: &Cx| ()).on_close(async move || attached.note("attached"));
    tokio::task::yield_now().await;
    assert_eq!(log.take(), ["late", "attached"]);
}

#[test]
fn a_late_clean_up_without_a_runtime_is_reported() {
    let (bus, errors) = reporting_bus(OnError::Continue);
    let scope = bus.scope("test");
    drop(scope.clone().close_on_drop());
    scope.on_close(async || ());
    assert!(errors.take()[0].contains("it did not run"));
}

#[tokio::test]
async fn a_closed_scope_registers_nothing_and_says_so() {
    let (bus, errors) = reporting_bus(OnError::Continue);
    let scope = bus.scope("test");
    scope.close().await;
    scope.on_sync(|_: &Ping, _: &Cx| ());
    scope.observe(|_, _| ());
    scope.provide_service(Arc::new(1_u32));
    assert!(bus.describe().is_empty());
    let reported = errors.take();
    assert_eq!(reported.len(), 3);
    assert!(reported.iter().all(|error| error.contains("the scope is closed")), "{reported:?}");
}

#[tokio::test]
async fn an_item_for_a_closed_scope_or_bus_is_an_error() {
    let (bus, errors) = reporting_bus(OnError::Continue);
    let (closed, open) = (bus.scope("closed"), bus.scope("open"));
    closed.close().await;
    let error = closed.provide("name", Arc::new(1_u32)).unwrap_err();
    assert!(matches!(error, ProvideError::Closed { .. }), "{error}");
    open.provide("name", Arc::new(1_u32)).unwrap();
    bus.close().await;
    let text = bus.scope("late").provide("name", Arc::new(1_u32)).unwrap_err().to_string();
    assert!(text.starts_with("`late` cannot register u32 `name`: its scope or its bus is closed"), "{text}");
    drop(bus);
    assert!(open.provide("name", Arc::new(1_u32)).is_err());
    assert!(errors.take().is_empty(), "an error that is returned is not reported too");
    open.on_sync(|_: &Ping, _: &Cx| ());
    assert!(errors.take()[0].contains("use a scope of an open bus"));
}

// A task that was running while its program ended could not know that the bus was closing.
#[tokio::test]
async fn registrations_while_the_bus_closes_are_ignored_without_a_report() {
    let (bus, errors) = reporting_bus(OnError::Continue);
    let scope = bus.scope("test");
    let (late, bus_of_late) = (scope.clone(), bus.clone());
    scope.on_close(async move || {
        late.on_sync(|_: &Ping, _: &Cx| ());
        bus_of_late.scope("new").on_sync(|_: &Ping, _: &Cx| ());
    });
    bus.close().await;
    assert_eq!(errors.take(), Vec::<String>::new());
    assert!(bus.describe().is_empty());
    scope.on_sync(|_: &Ping, _: &Cx| ());
    assert!(errors.take()[0].contains("use a scope of an open bus"));
}

// Clear keeps the bus usable, close is final.
#[tokio::test]
async fn clearing_a_bus_closes_its_scopes_newest_first_and_keeps_it_usable() {
    let (bus, log) = (Bus::new(), Log::default());
    for name in ["old", "new"] {
        let log = log.clone();
        let scope = bus.scope(name);
        scope.on_sync(|_: &Ping, _: &Cx| ());
        scope.on_close(async move || log.note(name));
    }
    bus.clear().await;
    assert_eq!(log.take(), ["new", "old"]);
    assert!(!bus.has_listeners::<Ping>());
    bus.scope("again").on_sync(|_: &Ping, _: &Cx| ());
    assert!(bus.has_listeners::<Ping>());
}

#[tokio::test]
async fn closing_a_bus_is_final() {
    let (bus, errors) = reporting_bus(OnError::Continue);
    let before = bus.scope("before");
    bus.close().await;
    for scope in [before, bus.scope("after")] {
        scope.on_sync(|_: &Ping, _: &Cx| ());
    }
    assert!(bus.describe().is_empty());
    assert_eq!(errors.take().len(), 2);
}

#[tokio::test]
async fn a_dropped_guard_removes_at_once_and_cleans_up_on_the_runtime() {
    let (bus, log) = (Bus::new(), Log::default());
    let guard = bus.scope("run").close_on_drop();
    let cleaned = log.clone();
    guard.scope().on_sync(|_: &Ping, _: &Cx| ());
    guard.scope().on_close(async move || cleaned.note("cleaned"));
    drop(guard);
    assert!(bus.describe().is_empty());
    tokio::task::yield_now().await;
    assert_eq!(log.take(), ["cleaned"]);
}

#[tokio::test]
async fn a_guard_can_be_closed_and_waited_for() {
    let (bus, log) = (Bus::new(), Log::default());
    let guard = bus.scope("run").close_on_drop();
    let cleaned = log.clone();
    guard.scope().on_close(async move || {
        tokio::task::yield_now().await;
        cleaned.note("cleaned");
    });
    guard.close().await;
    assert_eq!(log.take(), ["cleaned"]);
}

#[test]
fn a_guard_dropped_without_a_runtime_leaves_its_clean_ups_to_the_bus() {
    let (bus, log) = (Bus::new(), Log::default());
    let guard = bus.scope("run").close_on_drop();
    let cleaned = log.clone();
    guard.scope().on_close(async move || cleaned.note("cleaned"));
    drop(guard);
    assert!(log.take().is_empty());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(bus.close());
    assert_eq!(log.take(), ["cleaned"]);
}

#[test]
fn dropping_a_scope_handle_removes_nothing() {
    let bus = Bus::new();
    bus.scope("test").on_sync(|_: &Ping, _: &Cx| ());
    assert_eq!(bus.describe().len(), 1);
}

#[test]
fn describe_lists_who_registered_what_when_and_where() {
    let bus = Bus::new();
    let scope = bus.scope("guard");
    let line = line!() + 1;
    scope.on_sync_at(Stage::Early, |_: &May, _: &Cx| None::<Say>);
    scope.observe_at(Reach::Descendants, |_, _| ());
    scope.provide("answer", Arc::new(42_u32)).unwrap();
    scope.decorate::<u32>("answer", |item| item);
    scope.decorate_all::<u32>(|item| item);
    scope.provide_service(Arc::new(String::new()));

    let all = bus.describe();
    let what: Vec<_> = all.iter().map(|one| (one.kind.clone(), one.name.as_str(), one.descendants)).collect();
    assert_eq!(
        what,
        [
            (RegistrationKind::Observer, "*", true),
            (RegistrationKind::Handler, "test:may", false),
            (RegistrationKind::Item("u32"), "answer", true),
            (RegistrationKind::Decorator("u32"), "*", true),
            (RegistrationKind::Decorator("u32"), "answer", true),
            (RegistrationKind::Service("alloc::string::String"), "", true),
        ]
    );
    assert!(all.iter().all(|one| one.source.as_str() == "guard"));
    assert!(all[1].location.contains(&format!("scopes.rs:{line}:")), "{}", all[1].location);
    assert_eq!(all[1].stage, Some(Stage::Early));
    let json = serde_json::to_value(&all[1]).unwrap();
    assert_eq!(json["stage"], "early");
    assert_eq!(json["source"], "guard");
    assert_eq!(bus.describe(), all, "the order is stable");
}
