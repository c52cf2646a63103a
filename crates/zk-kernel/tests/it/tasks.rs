use std::future::pending;
use std::sync::{Arc, Mutex};

use tokio::task::yield_now;
use zk_kernel::{Bus, OnError};

use crate::support::{Log, Ping, reporting_bus};

/// Value that records its drop in the log.
struct Noted(Log, &'static str);

impl Drop for Noted {
    fn drop(&mut self) {
        self.0.note(self.1);
    }
}

/// A task that never ends by itself, and notes its end.
fn endless(log: &Log) -> impl Future<Output = ()> + Send + 'static {
    let noted = Noted(log.clone(), "task gone");
    async move {
        noted.0.note("task began");
        pending::<()>().await;
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().build().unwrap()
}

#[tokio::test]
async fn closing_a_scope_ends_its_tasks_and_waits_until_they_are_gone() {
    let (bus, log) = (Bus::new(), Log::default());
    let scope = bus.scope("test");
    scope.spawn(endless(&log));
    yield_now().await;
    assert_eq!(log.take(), ["task began"]);
    scope.close().await;
    assert_eq!(log.take(), ["task gone"]);
}

#[tokio::test]
async fn tasks_and_clean_ups_leave_newest_first() {
    let (bus, log) = (Bus::new(), Log::default());
    let scope = bus.scope("test");
    let (before, after) = (log.clone(), log.clone());
    scope.on_close(async move || before.note("older clean-up"));
    scope.spawn(endless(&log));
    scope.on_close(async move || after.note("newer clean-up"));
    bus.close().await;
    assert_eq!(log.take(), ["newer clean-up", "task gone", "older clean-up"]);
}

#[tokio::test]
async fn a_task_that_came_to_its_end_is_forgotten() {
    let (bus, log) = (Bus::new(), Log::default());
    let scope = bus.scope("test");
    let (task, held) = (log.clone(), Arc::new(()));
    let owned = held.clone();
    scope.spawn(async move {
        let _owned = owned;
        task.note("done");
    });
    yield_now().await;
    assert_eq!(log.take(), ["done"]);
    assert_eq!(Arc::strong_count(&held), 1);
    assert!(format!("{scope:?}").contains("tasks: 0"), "{scope:?}");
}

#[tokio::test]
async fn a_task_can_be_ended_by_itself() {
    let (bus, log) = (Bus::new(), Log::default());
    let scope = bus.scope("test");
    let hook = scope.spawn(endless(&log));
    yield_now().await;
    hook.cancel().await;
    assert_eq!(log.take(), ["task began", "task gone"]);
}

#[tokio::test]
async fn a_task_that_panics_is_reported_and_the_scope_lives() {
    let (bus, errors) = reporting_bus(OnError::Continue);
    let scope = bus.scope("clumsy");
    scope.spawn(async { panic!("no disk") });
    yield_now().await;
    let reported = errors.take();
    assert!(reported[0].starts_with("clumsy ") && reported[0].ends_with("panicked: no disk"), "{reported:?}");
    scope.on_sync(|_: &Ping, _: &zk_kernel::Cx| ());
    assert!(bus.has_listeners::<Ping>());
}

#[tokio::test]
async fn a_task_that_closes_its_own_scope_comes_to_its_end() {
    let (bus, log) = (Bus::new(), Log::default());
    let scope = bus.scope("test");
    let (own, cleaned, noted) = (scope.clone(), log.clone(), log.clone());
    scope.on_close(async move || {
        yield_now().await;
        cleaned.note("cleaned");
    });
    scope.spawn(async move {
        own.close().await;
        noted.note("ended");
    });
    for _ in 0..4 {
        yield_now().await;
    }
    assert_eq!(log.take(), ["cleaned", "ended"]);
}

#[test]
fn a_task_spawned_without_a_runtime_waits_for_the_warm_up() {
    let (bus, log) = (Bus::new(), Log::default());
    let child = bus.child("child");
    bus.scope("test").spawn(endless(&log));
    bus.warm_up();
    runtime().block_on(async {
        yield_now().await;
        assert!(log.take().is_empty());
        child.warm_up();
        child.warm_up();
        yield_now().await;
        assert_eq!(log.take(), ["task began"], "once, also when a child asks");
        bus.close().await;
        assert_eq!(log.take(), ["task gone"]);
    });
}

#[test]
fn a_task_that_waits_for_the_warm_up_leaves_with_its_scope() {
    let (bus, log) = (Bus::new(), Log::default());
    let guard = bus.scope("test").close_on_drop();
    guard.scope().spawn(endless(&log));
    drop(guard);
    assert_eq!(log.take(), ["task gone"]);
    runtime().block_on(async {
        bus.warm_up();
        yield_now().await;
    });
    assert!(log.take().is_empty());
}

#[test]
fn a_runtime_that_shuts_down_ends_the_tasks() {
    let (bus, log) = (Bus::new(), Log::default());
    runtime().block_on(async {
        bus.scope("test").spawn(endless(&log));
        yield_now().await;
    });
    assert_eq!(log.take(), ["task began", "task gone"]);
}

#[tokio::test]
async fn a_closed_scope_takes_no_task_and_says_so() {
    let (bus, errors) = reporting_bus(OnError::Continue);
    let (scope, log) = (bus.scope("test"), Log::default());
    scope.close().await;
    scope.spawn(endless(&log));
    assert_eq!(log.take(), ["task gone"], "dropped, never begun");
    assert!(errors.take()[0].contains("the scope is closed"));
}

#[tokio::test]
async fn dropping_the_last_handle_of_a_bus_runs_its_clean_ups_and_ends_its_tasks() {
    let (bus, log) = (Bus::new(), Log::default());
    for name in ["old", "new"] {
        let (scope, log) = (bus.scope(name), log.clone());
        scope.on_close(async move || {
            yield_now().await;
            log.note(name);
        });
    }
    bus.scope("task").spawn(endless(&log));
    let other = bus.clone();
    yield_now().await;
    drop(bus);
    yield_now().await;
    assert_eq!(log.take(), ["task began"], "a handle is left");
    drop(other);
    for _ in 0..4 {
        yield_now().await;
    }
    assert_eq!(log.take(), ["task gone", "new", "old"]);
}

#[test]
fn a_bus_dropped_without_a_runtime_does_what_needs_no_waiting_and_reports_the_rest() {
    let (bus, errors) = reporting_bus(OnError::Continue);
    let log = Log::default();
    let (scope, done) = (bus.scope("test"), log.clone());
    scope.on_close(async move || done.note("cleaned"));
    scope.on_close(async || panic!("clumsy"));
    scope.on_close(pending::<()>);
    scope.spawn(endless(&log));
    drop(bus);
    assert_eq!(log.take(), ["task gone", "cleaned"]);
    let reported = errors.take();
    assert!(reported[0].contains("close the bus before dropping it"), "{reported:?}");
    assert!(reported[1].ends_with("panicked: clumsy"), "{reported:?}");
}

#[test]
fn clean_ups_run_also_if_the_runtime_ends_right_after_the_bus_was_dropped() {
    let log = Log::default();
    runtime().block_on(async {
        let bus = Bus::new();
        let cleaned = log.clone();
        bus.scope("test").on_close(async move || cleaned.note("cleaned"));
    });
    assert_eq!(log.take(), ["cleaned"]);
}

#[tokio::test]
async fn a_task_that_drops_the_last_handle_of_its_own_bus_is_ended() {
    let (bus, log) = (Bus::new(), Log::default());
    let slot = Arc::new(Mutex::new(None));
    let (last, noted) = (slot.clone(), Noted(log.clone(), "task gone"));
    bus.scope("test").spawn(async move {
        let _noted = noted;
        let bus: Option<Bus> = last.lock().unwrap().take();
        drop(bus);
        pending::<()>().await;
    });
    *slot.lock().unwrap() = Some(bus);
    for _ in 0..4 {
        yield_now().await;
    }
    assert_eq!(log.take(), ["task gone"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn tasks_that_are_spawned_and_closed_at_once_are_all_gone_after_the_close() {
    for round in 0..200_u32 {
        let (bus, held) = (Bus::new(), Arc::new(()));
        let scope = bus.scope("test");
        for n in 0..8_u32 {
            let owned = held.clone();
            scope.spawn(async move {
                let _owned = owned;
                for _ in 0..(round + n) % 5 {
                    yield_now().await;
                }
                if n % 2 == 0 {
                    pending::<()>().await;
                }
            });
        }
        let (a, b) = (scope.clone(), bus.clone());
        tokio::join!(tokio::spawn(async move { a.close().await }), async move { b.close().await }).0.unwrap();
        scope.close().await;
        let gone = async {
            while Arc::strong_count(&held) > 1 {
                yield_now().await;
            }
        };
        tokio::time::timeout(std::time::Duration::from_secs(60), gone).await.unwrap();
    }
}
