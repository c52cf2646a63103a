use std::ops::ControlFlow;
use std::sync::Arc;

use serde::Serialize;
use zk_kernel::{Answer, BoxError, Bus, Cx, Event, Gathered, Handler, Mode, Source};

use crate::support::{Before, Log, May, Pick, Ping, Say, Where, Words, no, yes};

#[tokio::test]
async fn a_notify_event_runs_every_handler_and_yields_nothing() {
    let (bus, log) = (Bus::new(), Log::default());
    let scope = bus.scope("test");
    for name in ["a", "b"] {
        let log = log.clone();
        scope.on_sync(move |ev: &Ping, _: &Cx| log.note(format_args!("{name}{}", ev.0)));
    }
    let () = bus.cx().emit(Ping(7)).await.unwrap();
    assert_eq!(log.take(), ["a7", "b7"]);
}

#[tokio::test]
async fn a_fold_handler_sees_what_the_ones_before_it_made() {
    let bus = Bus::new();
    let scope = bus.scope("test");
    let seen = Log::default();
    scope.on_sync(|_: &Words, _: &Cx| Some("one"));
    let log = seen.clone();
    scope.on_sync(move |ev: &Words, _: &Cx| {
        log.note(ev.0.join(" "));
        Some("two")
    });
    assert_eq!(bus.cx().emit(Words(vec!["zero"])).await.unwrap(), Words(vec!["zero", "one", "two"]));
    assert_eq!(seen.take(), ["zero one"]);
}

// The emitter needs only the outcome. Without a change it gets the event back without a copy.
#[tokio::test]
async fn a_fold_without_replies_gives_the_event_back() {
    let bus = Bus::new();
    bus.scope("test").on_sync(|_: &Words, _: &Cx| None::<&'static str>);
    let event = Words(vec!["zero"]);
    let address = event.0.as_ptr();
    let after = bus.cx().emit(event).await.unwrap();
    assert_eq!(after, Words(vec!["zero"]));
    assert_eq!(after.0.as_ptr(), address);
}

#[tokio::test]
async fn a_fold_ends_where_absorb_breaks() {
    let bus = Bus::new();
    let scope = bus.scope("test");
    scope.on_sync(|_: &Words, _: &Cx| Some("stop"));
    scope.on_sync(|_: &Words, _: &Cx| Some("late"));
    assert_eq!(bus.cx().emit(Words(vec![])).await.unwrap(), Words(vec!["stop"]));
}

#[tokio::test]
async fn a_first_event_takes_the_first_answer_and_asks_nobody_after_it() {
    let (bus, log) = (Bus::new(), Log::default());
    let scope = bus.scope("test");
    scope.on_sync(|_: &Pick, _: &Cx| None::<u32>);
    scope.on_sync(|_: &Pick, _: &Cx| Some(2));
    let late = log.clone();
    scope.on_sync(move |_: &Pick, _: &Cx| {
        late.note("asked");
        Some(3)
    });
    assert_eq!(bus.cx().emit(Pick).await.unwrap(), Some(2));
    assert!(log.take().is_empty());
}

// Answers that do not block are dropped, so they are not the outcome either.
#[tokio::test]
async fn a_veto_takes_the_first_stopping_answer_and_drops_the_others() {
    let (bus, log) = (Bus::new(), Log::default());
    let scope = bus.scope("test");
    scope.on_sync(|_: &May, _: &Cx| yes("fine by me"));
    assert_eq!(bus.cx().emit(May).await.unwrap(), None);
    scope.on_sync(|_: &May, _: &Cx| no("first"));
    let late = log.clone();
    scope.on_sync(move |_: &May, _: &Cx| {
        late.note("asked");
        no("second")
    });
    assert_eq!(bus.cx().emit(May).await.unwrap().map(|say| say.why), Some("first"));
    assert!(log.take().is_empty());
}

#[tokio::test]
async fn a_before_event_takes_the_last_answer() {
    let bus = Bus::new();
    let scope = bus.scope("test");
    scope.on_sync(|_: &Before, _: &Cx| yes("first"));
    scope.on_sync(|_: &Before, _: &Cx| yes("last"));
    scope.on_sync(|_: &Before, _: &Cx| None::<Say>);
    assert_eq!(bus.cx().emit(Before).await.unwrap(), yes("last"));
}

#[tokio::test]
async fn a_cancelling_answer_to_a_before_event_wins_at_once() {
    let bus = Bus::new();
    let scope = bus.scope("test");
    scope.on_sync(|_: &Before, _: &Cx| yes("first"));
    scope.on_sync(|_: &Before, _: &Cx| no("cancel"));
    scope.on_sync(|_: &Before, _: &Cx| yes("last"));
    assert_eq!(bus.cx().emit(Before).await.unwrap(), no("cancel"));
}

#[tokio::test]
async fn a_gather_event_keeps_every_answer_with_its_source() {
    let bus = Bus::new();
    bus.scope("left").on_sync(|_: &Where, _: &Cx| Some("here"));
    bus.scope("right").on_sync(|_: &Where, _: &Cx| Some("there"));
    let all = bus.cx().emit(Where).await.unwrap();
    let from = |name: &str, reply| Gathered { from: Source::new(name), reply };
    assert_eq!(all, [from("left", "here"), from("right", "there")]);
}

/// A mode of a plugin's own: the replies are added up.
enum Sum {}

impl<E: Event<Reply = u32>> Mode<E> for Sum {
    type Acc = u32;
    type Output = u32;

    fn absorb(_: &mut E, sum: &mut u32, reply: u32, _: &Source) -> ControlFlow<()> {
        *sum += reply;
        ControlFlow::Continue(())
    }

    fn finish(_: E, sum: u32) -> u32 {
        sum
    }
}

#[derive(Serialize)]
struct Votes;

impl Event for Votes {
    const NAME: &'static str = "test:votes";
    type Reply = u32;
    type Mode = Sum;
}

// The way answers combine belongs to the event, so a new one needs no change of the kernel.
#[tokio::test]
async fn a_crate_can_bring_a_mode_of_its_own() {
    let bus = Bus::new();
    let scope = bus.scope("test");
    scope.on_sync(|_: &Votes, _: &Cx| Some(2));
    scope.on_sync(|_: &Votes, _: &Cx| Some(3));
    assert_eq!(bus.cx().emit(Votes).await.unwrap(), 5);
}

struct Struct(u32);

impl Handler<Pick> for Struct {
    async fn call(&self, _: &Pick, _: &Cx) -> Answer<Pick> {
        tokio::task::yield_now().await;
        Ok(Some(self.0))
    }
}

async fn function(_: &Pick, _: &Cx) -> Option<u32> {
    tokio::task::yield_now().await;
    Some(2)
}

// Sync or async, with a reply, none, or a failure.
#[tokio::test]
async fn every_shape_of_handler_can_answer() {
    let bus = Bus::new();
    let answer = async || bus.cx().emit(Pick).await.unwrap();

    let hook = bus.scope("test").handle(Arc::new(Struct(1)));
    assert_eq!(answer().await, Some(1));
    hook.cancel().await;
    let hook = bus.scope("test").on_async(function);
    assert_eq!(answer().await, Some(2));
    hook.cancel().await;
    let hook = bus.scope("test").on_async(async |_: &Pick, _: &Cx| Some(3));
    assert_eq!(answer().await, Some(3));
    hook.cancel().await;
    let hook = bus.scope("test").on_async_with(4, async |n: &u32, _: &Pick, _: &Cx| Some(*n));
    assert_eq!(answer().await, Some(4));
    hook.cancel().await;
    let hook = bus.scope("test").on_sync(|_: &Pick, _: &Cx| Ok::<_, BoxError>(Some(5)));
    assert_eq!(answer().await, Some(5));
    hook.cancel().await;
    let hook = bus.scope("test").on_sync(|_: &Pick, _: &Cx| ());
    assert_eq!(answer().await, None);
    hook.cancel().await;
}

#[tokio::test]
async fn an_event_nobody_hears_is_not_even_built() {
    let bus = Bus::new();
    bus.cx().emit_with::<Ping>(|| panic!("nobody listens")).await.unwrap();
    assert!(!bus.has_listeners::<Ping>());

    let log = Log::default();
    let heard = log.clone();
    bus.scope("test").on_sync(move |ev: &Ping, _: &Cx| heard.note(ev.0));
    assert!(bus.has_listeners::<Ping>());
    bus.cx().emit_with(|| Ping(3)).await.unwrap();
    assert_eq!(log.take(), ["3"]);
}

#[tokio::test]
async fn an_observer_is_enough_for_an_event_to_be_built() {
    let (bus, log) = (Bus::new(), Log::default());
    let seen = log.clone();
    bus.scope("test").observe(move |ev, _| seen.note(ev.name()));
    bus.cx().emit_with(|| Ping(1)).await.unwrap();
    assert_eq!(log.take(), ["test:ping"]);
}
