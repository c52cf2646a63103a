use std::sync::{Arc, OnceLock};

use zk_kernel::{Answer, Bus, Cx, Handler, Hook, Scope};

use crate::support::{Log, Ping, Words};

#[tokio::test]
async fn a_handler_registered_during_an_emit_joins_the_next_one() {
    let (bus, log) = (Bus::new(), Log::default());
    let scope = bus.scope("test");
    let (inner, notes) = (scope.clone(), log.clone());
    scope.on_sync(move |_: &Ping, _: &Cx| {
        let notes = notes.clone();
        inner.on_sync(move |_: &Ping, _: &Cx| notes.note("added"));
    });
    bus.cx().emit(Ping(0)).await.unwrap();
    assert!(log.take().is_empty());
    bus.cx().emit(Ping(0)).await.unwrap();
    assert_eq!(log.take(), ["added"]);
}

#[tokio::test]
async fn a_handler_removed_during_an_emit_still_takes_part_in_it() {
    let (bus, log) = (Bus::new(), Log::default());
    let scope = bus.scope("test");
    let second: Arc<OnceLock<Hook>> = Arc::default();
    let target = second.clone();
    scope.on_sync(move |_: &Ping, _: &Cx| target.get().map_or((), Hook::remove));
    let notes = log.clone();
    let hook = scope.on_sync(move |_: &Ping, _: &Cx| notes.note("second"));
    assert!(second.set(hook).is_ok());
    bus.cx().emit(Ping(0)).await.unwrap();
    bus.cx().emit(Ping(0)).await.unwrap();
    assert_eq!(log.take(), ["second"]);
}

struct ClosesItself(Scope);

impl Handler<Ping> for ClosesItself {
    async fn call(&self, _: &Ping, _: &Cx) -> Answer<Ping> {
        self.0.close().await;
        Ok(None)
    }
}

#[tokio::test]
async fn a_handler_may_close_its_own_scope() {
    let (bus, log) = (Bus::new(), Log::default());
    let scope = bus.scope("test");
    scope.handle(Arc::new(ClosesItself(scope.clone())));
    let cleaned = log.clone();
    scope.on_close(async move || cleaned.note("cleaned"));
    bus.cx().emit(Ping(0)).await.unwrap();
    assert_eq!(log.take(), ["cleaned"]);
    assert!(bus.describe().is_empty());
}

#[tokio::test]
async fn a_handler_may_emit_other_events() {
    let bus = Bus::new();
    let log = Log::default();
    bus.scope("outer").on_async_with(log.clone(), async |log: &Log, ev: &Ping, cx: &Cx| {
        if ev.0 > 0 {
            Box::pin(cx.emit(Ping(ev.0 - 1))).await?;
        }
        let words = cx.emit(Words(vec![])).await?;
        log.note(format_args!("{} {:?}", ev.0, words.0));
        Ok::<_, zk_kernel::EmitError>(())
    });
    bus.scope("inner").on_sync(|_: &Words, _: &Cx| Some("word"));
    bus.cx().emit(Ping(1)).await.unwrap();
    assert_eq!(log.take(), [r#"0 ["word"]"#, r#"1 ["word"]"#]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn emitting_registering_and_closing_at_once_leaves_nothing_behind() {
    let bus = Bus::new();
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..8_u32 {
        let bus = bus.clone();
        tasks.spawn(async move {
            for round in 0..50 {
                let scope = bus.scope(format!("s{n}"));
                let racing = scope.clone();
                let other = tokio::spawn(async move {
                    racing.on_sync(|_: &Ping, _: &Cx| ());
                    racing.observe(|_, _| ());
                    racing.provide_replacing("name", Arc::new(n));
                    racing.decorate::<u32>("name", |item| item);
                });
                bus.cx().emit(Ping(round)).await.unwrap();
                scope.close().await;
                other.await.unwrap();
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    assert_eq!(bus.describe(), []);
}
