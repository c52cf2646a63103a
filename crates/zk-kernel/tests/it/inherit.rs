use std::sync::Arc;

use zk_kernel::{Bus, OnError};

use crate::support::reporting_bus;

fn text(bus: &Bus, name: &str) -> Option<String> {
    bus.item::<String>(name).map(|text| text.to_string())
}

fn mark(with: &'static str) -> impl Fn(Arc<String>) -> Arc<String> + Send + Sync + 'static {
    move |inner| Arc::new(format!("{with}({inner})"))
}

fn family() -> (Bus, Bus, Bus) {
    let parent = Bus::new();
    let child = parent.child("child");
    let grandchild = child.child("grandchild");
    for name in ["read", "shell"] {
        parent.scope("tools").provide(name, Arc::new(name.to_owned())).unwrap();
    }
    (parent, child, grandchild)
}

#[tokio::test]
async fn a_child_has_its_parents_items_and_may_hide_one() {
    let (parent, child, grandchild) = family();
    let own = child.scope("own");
    own.provide("shell", Arc::new("own shell".to_owned())).unwrap();
    let all: Vec<String> = grandchild.items::<String>().iter().map(|item| item.value.to_string()).collect();
    assert_eq!(all, ["read", "own shell"]);
    assert_eq!(text(&parent, "shell").as_deref(), Some("shell"));
    own.close().await;
    assert_eq!(text(&grandchild, "shell").as_deref(), Some("shell"));
}

// A sub-agent in a sandbox: its parent's tools, wrapped for it alone.
#[tokio::test]
async fn a_childs_decorators_wrap_what_it_inherits_for_itself_and_below() {
    let (parent, child, grandchild) = family();
    parent.scope("timing").decorate("shell", mark("timed"));
    let sandbox = child.scope("sandbox");
    sandbox.decorate_all(mark("boxed"));
    grandchild.scope("log").decorate("shell", mark("logged"));

    assert_eq!(text(&parent, "shell").as_deref(), Some("timed(shell)"));
    assert_eq!(text(&child, "shell").as_deref(), Some("boxed(timed(shell))"));
    assert_eq!(text(&grandchild, "shell").as_deref(), Some("logged(boxed(timed(shell)))"));
    let all: Vec<String> = grandchild.items::<String>().iter().map(|item| item.value.to_string()).collect();
    assert_eq!(all, ["boxed(read)", "logged(boxed(timed(shell)))"]);

    sandbox.close().await;
    assert_eq!(text(&child, "shell").as_deref(), Some("timed(shell)"));
    assert_eq!(text(&grandchild, "shell").as_deref(), Some("logged(timed(shell))"));
}

#[tokio::test]
async fn an_inherited_item_is_decorated_once_until_the_parent_changes_it() {
    let (parent, child, _) = family();
    child.scope("sandbox").decorate("shell", mark("boxed"));
    let first = child.item::<String>("shell").unwrap();
    assert!(Arc::ptr_eq(&first, &child.item::<String>("shell").unwrap()));
    parent.scope("other").provide_replacing("shell", Arc::new("new shell".to_owned()));
    assert_eq!(text(&child, "shell").as_deref(), Some("boxed(new shell)"));
    child.scope("more").decorate("shell", mark("more"));
    assert_eq!(text(&child, "shell").as_deref(), Some("more(boxed(new shell))"));
}

#[tokio::test]
async fn a_child_whose_decorator_panics_does_not_fall_back_to_its_parents_item() {
    let (parent, errors) = reporting_bus(OnError::Continue);
    parent.scope("tools").provide("shell", Arc::new("shell".to_owned())).unwrap();
    let child = parent.child("child");
    child.scope("sandbox").decorate::<String>("shell", |_| panic!("no sandbox"));
    assert_eq!(text(&child, "shell"), None);
    assert!(child.items::<String>().is_empty());
    assert_eq!(text(&parent, "shell").as_deref(), Some("shell"));

    let other = parent.child("other");
    let own = other.scope("own");
    own.provide("shell", Arc::new("own".to_owned())).unwrap();
    own.decorate::<String>("shell", |_| panic!("no sandbox"));
    assert_eq!(text(&other, "shell"), None);
    assert!(other.items::<String>().is_empty());
    assert_eq!(errors.take().len(), 2);
}

#[tokio::test]
async fn a_child_has_its_parents_services_and_may_have_its_own() {
    let parent = Bus::new();
    let child = parent.child("child");
    parent.scope("host").provide_service(Arc::new("parent".to_owned()));
    assert_eq!(*child.service::<String>().unwrap(), "parent");
    child.scope("host").provide_service(Arc::new("child".to_owned()));
    assert_eq!(*child.cx().service::<String>().unwrap(), "child");
    assert_eq!(*parent.service::<String>().unwrap(), "parent");
}
