use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use zk_kernel::{Bus, Cx, OnError, ProvideError, Source};

use crate::support::reporting_bus;

trait Greet: Send + Sync {
    fn greet(&self) -> String;
}

struct Plain(&'static str);

impl Greet for Plain {
    fn greet(&self) -> String {
        self.0.to_owned()
    }
}

struct Wrapped(&'static str, Arc<dyn Greet>);

impl Greet for Wrapped {
    fn greet(&self) -> String {
        format!("{}({})", self.0, self.1.greet())
    }
}

fn plain(text: &'static str) -> Arc<dyn Greet> {
    Arc::new(Plain(text))
}

fn wrap(name: &'static str) -> impl Fn(Arc<dyn Greet>) -> Arc<dyn Greet> + Send + Sync + 'static {
    move |inner| Arc::new(Wrapped(name, inner))
}

fn greet(bus: &Bus, name: &str) -> Option<String> {
    bus.item::<dyn Greet>(name).map(|item| item.greet())
}

// Registries are independent of events, one for each kind of item.
#[tokio::test]
async fn items_of_a_kind_are_listed_by_name_with_their_owners() {
    let bus = Bus::new();
    bus.scope("b").provide("two", plain("2")).unwrap();
    bus.scope("a").provide("one", plain("1")).unwrap();
    bus.scope("a").provide("one", Arc::new(1_u32)).unwrap();
    let all: Vec<_> =
        bus.items::<dyn Greet>().iter().map(|item| format!("{} of {}", item.name, item.source)).collect();
    assert_eq!(all, ["one of a", "two of b"]);
    assert_eq!(bus.items::<u32>().len(), 1);
    assert!(bus.items::<String>().is_empty());
    assert_eq!(greet(&bus, "three"), None);
}

#[tokio::test]
async fn a_taken_name_is_an_error_that_names_both_owners() {
    let bus = Bus::new();
    bus.scope("first").provide("tool", plain("1")).unwrap();
    let error = bus.scope("second").provide("tool", plain("2")).unwrap_err();
    let text = error.to_string();
    let ProvideError::NameTaken { owner, claimant, .. } = error else { panic!("{text}") };
    assert_eq!((owner, claimant), (Source::new("first"), Source::new("second")));
    assert!(text.starts_with("`second` cannot register "), "{text}");
    assert!(text.contains("`tool`: `first` has that name; decorate it, or replace it explicitly"), "{text}");
    assert_eq!(greet(&bus, "tool").as_deref(), Some("1"));
}

#[tokio::test]
async fn a_replaced_item_returns_when_its_replacement_leaves() {
    let bus = Bus::new();
    let (first, second) = (bus.scope("first"), bus.scope("second"));
    first.provide("tool", plain("1")).unwrap();
    second.provide_replacing("tool", plain("2"));
    second.provide_replacing("tool", plain("3"));
    assert_eq!(greet(&bus, "tool").as_deref(), Some("3"));
    assert_eq!(bus.describe().len(), 2, "the second's first item can never come back");
    second.close().await;
    assert_eq!(greet(&bus, "tool").as_deref(), Some("1"));
    first.close().await;
    assert_eq!(greet(&bus, "tool"), None);
}

#[tokio::test]
async fn a_replaced_item_whose_owner_left_does_not_return() {
    let bus = Bus::new();
    let (first, second) = (bus.scope("first"), bus.scope("second"));
    first.provide("tool", plain("1")).unwrap();
    second.provide_replacing("tool", plain("2"));
    first.close().await;
    assert_eq!(greet(&bus, "tool").as_deref(), Some("2"));
    second.close().await;
    assert_eq!(greet(&bus, "tool"), None);
}

#[tokio::test]
async fn a_decorator_may_be_registered_before_its_item() {
    let bus = Bus::new();
    bus.scope("timing").decorate("tool", wrap("timed"));
    assert_eq!(greet(&bus, "tool"), None);
    bus.scope("owner").provide("tool", plain("1")).unwrap();
    assert_eq!(greet(&bus, "tool").as_deref(), Some("timed(1)"));
}

#[tokio::test]
async fn the_last_decorator_is_the_outermost() {
    let bus = Bus::new();
    bus.scope("owner").provide("tool", plain("1")).unwrap();
    bus.scope("a").decorate("tool", wrap("a"));
    bus.scope("b").decorate_all(wrap("b"));
    bus.scope("c").decorate("tool", wrap("c"));
    assert_eq!(greet(&bus, "tool").as_deref(), Some("c(b(a(1)))"));
}

#[tokio::test]
async fn redefining_an_item_keeps_its_decorators() {
    let bus = Bus::new();
    let owner = bus.scope("owner");
    owner.provide("tool", plain("1")).unwrap();
    bus.scope("timing").decorate("tool", wrap("timed"));
    assert_eq!(greet(&bus, "tool").as_deref(), Some("timed(1)"));
    bus.scope("other").provide_replacing("tool", plain("2"));
    assert_eq!(greet(&bus, "tool").as_deref(), Some("timed(2)"));
    owner.close().await;
    assert_eq!(greet(&bus, "tool").as_deref(), Some("timed(2)"));
}

#[tokio::test]
async fn a_decorator_leaves_exactly_with_its_scope() {
    let bus = Bus::new();
    bus.scope("owner").provide("tool", plain("1")).unwrap();
    let middle = bus.scope("middle");
    bus.scope("inner").decorate("tool", wrap("inner"));
    middle.decorate("tool", wrap("middle"));
    middle.decorate_all(wrap("all"));
    bus.scope("outer").decorate("tool", wrap("outer"));
    assert_eq!(greet(&bus, "tool").as_deref(), Some("outer(all(middle(inner(1))))"));
    middle.close().await;
    assert_eq!(greet(&bus, "tool").as_deref(), Some("outer(inner(1))"));
}

// A cache in a decorator would be useless otherwise.
#[tokio::test]
async fn an_item_is_decorated_once_and_then_shared() {
    let bus = Bus::new();
    let wraps = Arc::new(AtomicU32::new(0));
    bus.scope("owner").provide("tool", plain("1")).unwrap();
    let count = wraps.clone();
    bus.scope("cache").decorate::<dyn Greet>("tool", move |item| {
        count.fetch_add(1, Ordering::Relaxed);
        wrap("cached")(item)
    });
    let (a, b) = (bus.item::<dyn Greet>("tool").unwrap(), bus.item::<dyn Greet>("tool").unwrap());
    assert!(Arc::ptr_eq(&a, &b));
    assert!(Arc::ptr_eq(&a, &bus.items::<dyn Greet>()[0].value));
    assert_eq!(wraps.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn an_item_whose_decorator_panics_is_not_there_rather_than_undecorated() {
    let (bus, errors) = reporting_bus(OnError::Continue);
    bus.scope("owner").provide("tool", plain("1")).unwrap();
    let sandbox = bus.scope("sandbox");
    sandbox.decorate::<dyn Greet>("tool", |_| panic!("no sandbox here"));
    assert_eq!(greet(&bus, "tool"), None);
    assert!(bus.items::<dyn Greet>().is_empty());
    let reported = errors.take();
    assert_eq!(reported.len(), 1);
    assert!(reported[0].starts_with("sandbox ") && reported[0].ends_with("no sandbox here"), "{reported:?}");
    sandbox.close().await;
    assert_eq!(greet(&bus, "tool").as_deref(), Some("1"));
}

#[tokio::test]
async fn a_decorator_may_look_up_other_items() {
    let bus = Bus::new();
    let scope = bus.scope("test");
    scope.provide("base", plain("base")).unwrap();
    scope.provide("tool", plain("tool")).unwrap();
    let other = bus.clone();
    scope.decorate::<dyn Greet>("tool", move |item| {
        let base = other.item::<dyn Greet>("base").map_or_else(String::new, |base| base.greet());
        assert_eq!(base, "base");
        item
    });
    assert_eq!(greet(&bus, "tool").as_deref(), Some("tool"));
}

// The context is built once; the service can be replaced later.
#[tokio::test]
async fn a_service_can_be_swapped_and_the_earlier_one_returns() {
    let bus = Bus::new();
    let cx = bus.cx();
    assert!(cx.service::<dyn Greet>().is_none());
    let (headless, terminal) = (bus.scope("headless"), bus.scope("terminal"));
    headless.provide_service(plain("headless"));
    assert_eq!(cx.service::<dyn Greet>().unwrap().greet(), "headless");
    terminal.provide_service(plain("terminal"));
    assert_eq!(cx.service::<dyn Greet>().unwrap().greet(), "terminal");
    terminal.close().await;
    assert_eq!(cx.service::<dyn Greet>().unwrap().greet(), "headless");
    assert!(bus.items::<dyn Greet>().is_empty(), "a service is no item");
}

#[tokio::test]
async fn a_watcher_of_a_kind_of_item_receives_the_present_owner_of_a_name() {
    let (bus, log) = reporting_bus(OnError::Continue);
    let watcher = bus.scope("watcher");
    let heard = log.clone();
    watcher.on_items::<dyn Greet>(move |change| {
        let owner = change.owner.as_ref().map_or_else(|| "nobody".to_owned(), ToString::to_string);
        heard.note(format!("{} {owner}", change.name));
    });
    let (first, second) = (bus.scope("first"), bus.scope("second"));
    first.provide("a", plain("1")).unwrap();
    first.provide("b", plain("1")).unwrap();
    second.provide("a", plain("2")).unwrap_err();
    second.provide_replacing("a", plain("2"));
    second.decorate("b", wrap("w"));
    second.provide("answer", Arc::new(42_u32)).unwrap();
    assert_eq!(log.take(), ["a first", "b first", "a second"]);
    first.close().await;
    assert_eq!(log.take(), ["b nobody"], "the other name has a new owner already");
    second.close().await;
    assert_eq!(log.take(), ["a nobody"]);
    watcher.close().await;
    bus.scope("late").provide("c", plain("3")).unwrap();
    assert_eq!(log.take(), [""; 0]);
}

#[tokio::test]
async fn a_name_that_falls_back_to_an_earlier_owner_is_told_and_a_watcher_may_look_and_may_panic() {
    let (bus, log) = reporting_bus(OnError::Continue);
    let (heard, looked) = (log.clone(), bus.clone());
    bus.scope("panics").on_items::<dyn Greet>(|_| panic!("no"));
    bus.scope("looks").on_items::<dyn Greet>(move |change| {
        heard.note(greet(&looked, &change.name).unwrap_or_default());
    });
    let (first, second) = (bus.scope("first"), bus.scope("second"));
    first.provide("a", plain("1")).unwrap();
    second.provide_replacing("a", plain("2"));
    second.close().await;
    let seen = log.take();
    let greeted: Vec<_> = seen.iter().filter(|line| line.len() == 1).collect();
    assert_eq!(greeted, ["1", "2", "1"]);
    assert_eq!(seen.len(), 6, "{seen:?}");
}

#[tokio::test]
async fn the_generation_moves_with_every_item_and_decorator_of_the_bus_and_its_ancestors() {
    let root = Bus::new();
    let child = root.child("child");
    let (own, above) = (child.scope("own"), root.scope("above"));
    let mut seen = child.generation();
    let mut has_moved = || std::mem::replace(&mut seen, child.generation()) != child.generation();
    own.provide("a", plain("1")).unwrap();
    assert!(has_moved());
    above.provide("b", plain("1")).unwrap();
    assert!(has_moved());
    above.decorate("b", wrap("w"));
    assert!(has_moved());
    own.provide_replacing("b", plain("2"));
    assert!(has_moved());
    own.close().await;
    assert!(has_moved());
    above.close().await;
    assert!(has_moved());
}

#[tokio::test]
async fn the_generation_stands_still_while_no_item_and_no_decorator_changes() {
    let root = Bus::new();
    let child = root.child("child");
    child.scope("owner").provide("a", plain("1")).unwrap();
    let before = (root.generation(), child.generation());
    let (scope, below) = (child.scope("other"), child.child("below"));
    scope.on_items::<dyn Greet>(|_| ());
    scope.provide_service(plain("service"));
    scope.observe(|_, _| ());
    scope.provide("a", plain("2")).unwrap_err();
    below.scope("below").provide("a", plain("3")).unwrap();
    assert_eq!(greet(&child, "a").as_deref(), Some("1"));
    scope.close().await;
    assert_eq!((root.generation(), child.generation()), before);
}

#[tokio::test]
async fn a_run_has_services_of_its_own_before_those_of_the_bus() {
    let bus = Bus::new();
    bus.scope("host").provide_service(plain("host"));
    let cx = bus.cx();
    let run = cx.with_service(plain("run")).with_service(Arc::new(1_u32));
    let later = run.with_service(plain("later"));
    let name = |cx: &Cx| cx.service::<dyn Greet>().unwrap().greet();
    assert_eq!((name(&cx), name(&run), name(&later)), ("host".into(), "run".into(), "later".into()));
    assert_eq!(later.for_turn("t").with_stop(Default::default()).service::<u32>().as_deref(), Some(&1));
    assert_eq!(name(&run.for_run("next", Default::default())), "host", "another run has its own");
    assert_eq!(bus.service::<dyn Greet>().unwrap().greet(), "host");
}
