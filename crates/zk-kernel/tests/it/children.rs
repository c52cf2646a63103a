use zk_kernel::{Bus, Cx, HookOptions, OnError, Reach, Stage};

use crate::support::{Log, May, Ping, no, reporting_bus};

fn tree() -> [Bus; 4] {
    let root = Bus::builder().agent("root").build();
    let child = root.child("child");
    let grandchild = child.child("grandchild");
    let deepest = grandchild.child("deepest");
    [root, child, grandchild, deepest]
}

#[tokio::test]
async fn a_parents_gate_can_refuse_what_a_grandchild_wants_to_do() {
    let [root, _, _, deepest] = tree();
    root.scope("guard").on_sync_at(Reach::Descendants, |_: &May, cx: &Cx| {
        let origin = cx.origin();
        if origin.depth == 3 && &*origin.agent == "deepest" { no("not so deep") } else { None }
    });
    assert_eq!(deepest.cx().emit(May).await.unwrap(), no("not so deep"));
    assert_eq!(root.cx().emit(May).await.unwrap(), None);
}

#[tokio::test]
async fn handlers_of_the_parent_alone_do_not_see_the_childs_events() {
    let [root, child, ..] = tree();
    let log = Log::default();
    let seen = log.clone();
    root.scope("test").on_sync(move |_: &Ping, _: &Cx| seen.note("parent"));
    child.cx().emit(Ping(0)).await.unwrap();
    assert!(log.take().is_empty());
    assert!(!child.has_listeners::<Ping>());
}

#[test]
fn an_observer_does_not_count_as_a_handler() {
    let [root, child, ..] = tree();
    child.scope("watches").observe(|_, _| ());
    root.scope("own").on_sync(|_: &Ping, _: &Cx| ());
    assert!(child.has_listeners::<Ping>() && !child.has_handlers::<Ping>());
    assert!(root.has_handlers::<Ping>() && !root.has_handlers::<May>());
    let scope = root.scope("reaching");
    scope.on_sync_at(Reach::Descendants, |_: &Ping, _: &Cx| ());
    assert!(child.has_handlers::<Ping>());
}

#[tokio::test]
async fn a_childs_handlers_do_not_see_the_parents_events() {
    let [root, child, ..] = tree();
    let log = Log::default();
    let seen = log.clone();
    child.scope("test").on_sync_at(Reach::Descendants, move |_: &Ping, _: &Cx| seen.note("child"));
    root.cx().emit(Ping(0)).await.unwrap();
    assert!(log.take().is_empty());
}

// One fold over the whole tree: stage first, then registration, wherever it was registered.
#[tokio::test]
async fn handlers_of_a_tree_run_in_one_order() {
    let [root, child, grandchild, deepest] = tree();
    let log = Log::default();
    let add = |bus: &Bus, stage, name: &'static str| {
        let log = log.clone();
        let at = HookOptions { stage, reach: Some(Reach::Descendants), ..HookOptions::default() };
        bus.scope(name).on_sync_at(at, move |_: &Ping, _: &Cx| log.note(name));
    };
    add(&deepest, Stage::Consumer, "own, first");
    add(&root, Stage::Late, "root, late");
    add(&grandchild, Stage::Consumer, "grandchild");
    add(&child, Stage::Early, "child, early");
    add(&root, Stage::Consumer, "root, last");
    deepest.cx().emit(Ping(0)).await.unwrap();
    assert_eq!(log.take(), ["child, early", "own, first", "grandchild", "root, last", "root, late"]);
}

#[tokio::test]
async fn an_observer_of_descendants_sees_each_event_of_the_tree_once() {
    let [root, child, grandchild, _] = tree();
    let log = Log::default();
    let seen = log.clone();
    root.scope("watch").observe_at(Reach::Descendants, move |ev, cx| {
        seen.note(format_args!("{} of {} at {}", ev.name(), cx.origin().agent, cx.origin().depth));
    });
    assert!(grandchild.has_listeners::<Ping>());
    for bus in [&root, &child, &grandchild] {
        bus.cx().emit_with(|| Ping(0)).await.unwrap();
    }
    assert_eq!(
        log.take(),
        ["test:ping of root at 0", "test:ping of child at 1", "test:ping of grandchild at 2"]
    );
}

#[tokio::test]
async fn what_a_parent_registers_later_reaches_children_that_exist() {
    let [root, child, ..] = tree();
    let scope = root.scope("guard");
    scope.on_sync_at(Reach::Descendants, |_: &May, _: &Cx| no("never"));
    assert_eq!(child.cx().emit(May).await.unwrap(), no("never"));
    scope.close().await;
    assert_eq!(child.cx().emit(May).await.unwrap(), None);
}

#[tokio::test]
async fn closing_a_child_leaves_its_parent_alone() {
    let [root, child, ..] = tree();
    for bus in [&root, &child] {
        bus.scope("test").on_sync(|_: &Ping, _: &Cx| ());
    }
    child.close().await;
    assert!(child.describe().is_empty());
    assert_eq!(root.describe().len(), 1);
}

#[tokio::test]
async fn a_childs_failures_are_reported_where_the_parents_are() {
    let (root, errors) = reporting_bus(OnError::Continue);
    root.child("child").scope("clumsy").on_sync(|_: &Ping, _: &Cx| Err::<(), _>("boom"));
    root.child("other").cx().emit(Ping(0)).await.unwrap();
    assert!(errors.take().is_empty());
    let child = root.child("child");
    child.scope("clumsy").on_sync(|_: &Ping, _: &Cx| Err::<(), _>("boom"));
    child.cx().emit(Ping(0)).await.unwrap();
    assert!(errors.take()[0].starts_with("clumsy "));
}
