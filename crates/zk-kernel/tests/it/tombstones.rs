use zk_kernel::{BoxError, Bus, Cause, Cx, EmitError, Reach, RegistrationKind, Scope, plugin_fn};

use crate::support::{May, Ping, Say};

fn guard(scope: &Scope) -> Result<(), BoxError> {
    scope.on_sync(|_: &May, _: &Cx| None::<Say>);
    scope.on_sync(|_: &Ping, _: &Cx| ());
    Ok(())
}

async fn denied(bus: &Bus) -> bool {
    match bus.cx().emit(May).await {
        Ok(_) => false,
        Err(EmitError::Hook(error)) => {
            assert!(matches!(error.cause, Cause::Removed), "{error}");
            assert_eq!(error.source.as_str(), "guard");
            true
        }
        Err(EmitError::Cancelled { event }) => panic!("cancelled at {event}"),
    }
}

#[tokio::test]
async fn a_suspended_gate_denies_until_its_replacement_is_in() {
    let bus = Bus::new();
    let scope = bus.install(&plugin_fn("guard", guard)).unwrap();
    assert!(!denied(&bus).await);
    let tombstones = scope.suspend().await;
    assert_eq!(tombstones.remaining(), 1);
    assert!(denied(&bus).await);
    assert!(!bus.has_listeners::<Ping>(), "only a gate denies; a watcher is just gone");
    assert_eq!(bus.describe()[0].kind, RegistrationKind::Tombstone);

    bus.install(&plugin_fn("stranger", guard)).unwrap();
    assert!(denied(&bus).await, "only its own source replaces it");
    bus.install(&plugin_fn("guard", guard)).unwrap();
    assert_eq!(tombstones.remaining(), 0);
    assert!(!denied(&bus).await);
}

#[tokio::test]
async fn a_suspended_gate_denies_until_the_user_lifts_it() {
    let bus = Bus::new();
    let tombstones = bus.install(&plugin_fn("guard", guard)).unwrap().suspend().await;
    assert!(denied(&bus).await);
    tombstones.discard();
    assert!(!denied(&bus).await);
    assert!(bus.describe().is_empty());
}

#[tokio::test]
async fn a_replacement_without_that_gate_leaves_it_denying() {
    let bus = Bus::new();
    let tombstones = bus.install(&plugin_fn("guard", guard)).unwrap().suspend().await;
    let watcher = plugin_fn("guard", |scope: &Scope| {
        scope.on_sync(|_: &Ping, _: &Cx| ());
        Ok(())
    });
    bus.install(&watcher).unwrap();
    assert_eq!(tombstones.remaining(), 1);
    assert!(denied(&bus).await);
}

#[tokio::test]
async fn a_replacement_that_does_not_register_leaves_the_gate_denying() {
    let bus = Bus::new();
    let tombstones = bus.install(&plugin_fn("guard", guard)).unwrap().suspend().await;
    let broken = plugin_fn("guard", |scope: &Scope| {
        guard(scope)?;
        Err("no rules".into())
    });
    assert!(bus.install(&broken).is_err());
    assert_eq!(tombstones.remaining(), 1);
    assert!(denied(&bus).await);
}

#[tokio::test]
async fn a_plain_scope_replaces_a_gate_as_it_registers() {
    let bus = Bus::new();
    let scope = bus.scope("guard");
    guard(&scope).unwrap();
    let tombstones = scope.suspend().await;
    assert!(denied(&bus).await);
    guard(&bus.scope("guard")).unwrap();
    assert_eq!(tombstones.remaining(), 0);
    assert!(!denied(&bus).await);
}

#[tokio::test]
async fn a_gate_cannot_be_removed_once_it_is_a_tombstone() {
    let bus = Bus::new();
    let scope = bus.scope("guard");
    let hook = scope.on_sync(|_: &May, _: &Cx| None::<Say>);
    let own = hook.clone();
    scope.on_close(async move || own.remove());
    let _tombstones = scope.suspend().await;
    hook.cancel().await;
    bus.clear().await;
    assert!(denied(&bus).await);
}

#[tokio::test]
async fn a_parents_suspended_gate_denies_its_childrens_calls_too() {
    let bus = Bus::new();
    let scope = bus.scope("guard");
    scope.on_sync_at(Reach::Descendants, |_: &May, _: &Cx| None::<Say>);
    let child = bus.child("child");
    assert!(!denied(&child).await);
    let tombstones = scope.suspend().await;
    assert!(denied(&child).await);
    tombstones.discard();
    assert!(!denied(&child).await);
}

#[tokio::test]
async fn lifting_the_gates_of_one_reload_leaves_those_of_another() {
    let bus = Bus::new();
    let (a, b) = (bus.scope("guard"), bus.scope("guard"));
    guard(&a).unwrap();
    guard(&b).unwrap();
    let (a, b) = (a.suspend().await, b.suspend().await);
    a.discard();
    assert_eq!(b.remaining(), 1);
    assert!(denied(&bus).await);
}
