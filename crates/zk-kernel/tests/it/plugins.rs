use std::sync::Arc;
use std::time::Duration;

use zk_kernel::{BoxError, Bus, Cx, InstallError, OnError, Plugin, Scope, plugin_fn};

use crate::support::{Log, Ping, reporting_bus};

struct Tools {
    fail: bool,
    log: Log,
}

impl Plugin for Tools {
    fn name(&self) -> &str {
        "tools"
    }

    fn register(&self, scope: &Scope) -> Result<(), BoxError> {
        scope.on_sync(|_: &Ping, _: &Cx| ());
        scope.provide("read", Arc::new(1_u32))?;
        let log = self.log.clone();
        scope.on_close(async move || log.note("cleaned"));
        if self.fail { Err("no home directory".into()) } else { Ok(()) }
    }
}

fn tools(fail: bool) -> Tools {
    Tools { fail, log: Log::default() }
}

#[tokio::test]
async fn a_plugins_name_travels_with_what_it_registers() {
    let bus = Bus::new();
    bus.install(&tools(false)).unwrap();
    bus.install(&plugin_fn("counter", |scope| {
        scope.observe(|_, _| ());
        Ok(())
    }))
    .unwrap();
    let sources: Vec<_> = bus.describe().iter().map(|one| one.source.to_string()).collect();
    assert_eq!(sources, ["counter", "tools", "tools"]);
}

#[tokio::test]
async fn a_plugin_is_installed_once_and_the_error_says_where_the_first_one_was() {
    let bus = Bus::new();
    let line = line!() + 1;
    let scope = bus.install(&tools(false)).unwrap();
    let error = bus.install(&tools(false)).unwrap_err();
    let InstallError::Duplicate { name, first } = &error else { panic!("{error}") };
    assert_eq!((name.as_str(), first.line()), ("tools", line));
    assert!(error.to_string().contains("close its scope first"), "{error}");
    assert_eq!(bus.describe().len(), 2);

    scope.close().await;
    bus.install(&tools(false)).unwrap();
}

#[tokio::test]
async fn a_plugin_can_come_back_while_its_clean_ups_still_hang() {
    let bus = Bus::new();
    let scope = bus.install(&tools(false)).unwrap();
    scope.on_close(std::future::pending::<()>);
    assert!(tokio::time::timeout(Duration::from_millis(1), scope.close()).await.is_err());
    bus.install(&tools(false)).unwrap();
}

#[tokio::test]
async fn a_plugin_that_does_not_register_leaves_nothing_and_is_cleaned_up_after() {
    let bus = Bus::new();
    let plugin = tools(true);
    let error = bus.install(&plugin).unwrap_err();
    assert_eq!(error.to_string(), "plugin `tools` did not register: no home directory");
    assert!(bus.describe().is_empty());
    tokio::task::yield_now().await;
    assert_eq!(plugin.log.take(), ["cleaned"]);
    bus.install(&tools(false)).unwrap();
}

#[tokio::test]
async fn a_plugin_that_panics_while_it_registers_leaves_nothing() {
    let bus = Bus::new();
    let plugin = plugin_fn("clumsy", |scope: &Scope| {
        scope.on_sync(|_: &Ping, _: &Cx| ());
        panic!("boom")
    });
    let error = bus.install(&plugin).unwrap_err();
    assert_eq!(error.to_string(), "plugin `clumsy` did not register: it panicked: boom");
    assert!(bus.describe().is_empty());
}

#[tokio::test]
async fn a_plugin_that_wants_a_taken_name_is_not_installed() {
    let bus = Bus::new();
    bus.scope("host").provide("read", Arc::new(7_u32)).unwrap();
    let error = bus.install(&tools(false)).unwrap_err();
    assert!(error.to_string().contains("`host` has that name"), "{error}");
    assert!(!bus.has_listeners::<Ping>());
}

#[tokio::test]
async fn nothing_is_installed_on_a_closed_bus() {
    let (bus, _) = reporting_bus(OnError::Continue);
    bus.close().await;
    let error = bus.install(&tools(false)).unwrap_err();
    assert!(error.to_string().contains("the bus is closed"), "{error}");
}

#[tokio::test]
async fn two_threads_cannot_both_install_one_plugin() {
    let bus = Bus::new();
    let install = || bus.install(&tools(false)).is_ok();
    let both = std::thread::scope(|threads| {
        let other = threads.spawn(install);
        [install(), other.join().unwrap()]
    });
    assert_eq!(both.iter().filter(|installed| **installed).count(), 1);
}

// Clear, load again, continue.
#[tokio::test]
async fn plugins_can_be_reloaded_on_a_bus_that_stays() {
    let bus = Bus::new();
    for _ in 0..3 {
        bus.install(&tools(false)).unwrap();
        assert_eq!(bus.describe().len(), 2);
        bus.clear().await;
    }
    assert!(bus.describe().is_empty());
}
