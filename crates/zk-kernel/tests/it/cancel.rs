use std::time::Duration;

use tokio_util::sync::CancellationToken;
use zk_kernel::{Bus, Cx, EmitError};

use crate::support::{Closing, Log, May, Ping, no};

fn stopped(bus: &Bus) -> Cx {
    let stop = CancellationToken::new();
    stop.cancel();
    bus.cx().for_run("r_1", stop)
}

// Every handler gets the stop token of its run.
#[tokio::test]
async fn a_handler_is_given_the_run_the_turn_and_the_stop_token() {
    let (bus, log) = (Bus::new(), Log::default());
    let seen = log.clone();
    bus.scope("test").on_sync(move |_: &Closing, cx: &Cx| {
        seen.note(format_args!("{} {} {}", cx.run_id(), cx.turn_id(), cx.is_stopped()));
    });
    let stop = CancellationToken::new();
    let cx = bus.cx().for_run("r_1", stop.clone()).for_turn("t_1");
    cx.emit(Closing).await.unwrap();
    stop.cancel();
    cx.emit(Closing).await.unwrap();
    assert_eq!(log.take(), ["r_1 t_1 false", "r_1 t_1 true"]);
}

#[tokio::test]
async fn a_stopped_run_asks_no_handler_but_is_still_observed() {
    let (bus, log) = (Bus::new(), Log::default());
    let (handler, observer) = (log.clone(), log.clone());
    bus.scope("test").on_sync(move |_: &Ping, _: &Cx| handler.note("handler"));
    bus.scope("test").observe(move |_, _| observer.note("observer"));
    let error = stopped(&bus).emit(Ping(0)).await.unwrap_err();
    assert!(matches!(error, EmitError::Cancelled { event: "test:ping" }), "{error}");
    assert_eq!(log.take(), ["observer"]);
}

#[tokio::test]
async fn the_closing_events_of_a_stopped_run_are_still_announced() {
    let (bus, log) = (Bus::new(), Log::default());
    bus.scope("test").on_async_with(log.clone(), async |log: &Log, _: &Closing, _: &Cx| {
        tokio::time::sleep(Duration::from_millis(1)).await;
        log.note("closed");
    });
    stopped(&bus).emit(Closing).await.unwrap();
    assert_eq!(log.take(), ["closed"]);
}

#[tokio::test]
async fn stopping_a_run_ends_an_emit_whose_handler_hangs() {
    let (bus, log) = (Bus::new(), Log::default());
    bus.scope("hangs").on_async(async |_: &Ping, cx: &Cx| {
        cx.stop_token().clone().cancel();
        std::future::pending::<()>().await;
    });
    let late = log.clone();
    bus.scope("late").on_sync(move |_: &Ping, _: &Cx| late.note("late"));
    let cx = bus.cx().for_run("r_1", CancellationToken::new());
    let error = cx.emit(Ping(0)).await.unwrap_err();
    assert_eq!(error.to_string(), "the run was stopped during `test:ping`");
    assert!(log.take().is_empty());
}

#[tokio::test]
async fn stopping_a_run_does_not_cut_the_handlers_of_a_closing_event_short() {
    let (bus, log) = (Bus::new(), Log::default());
    bus.scope("test").on_async_with(log.clone(), async |log: &Log, _: &Closing, cx: &Cx| {
        cx.stop_token().cancel();
        tokio::time::sleep(Duration::from_millis(1)).await;
        log.note("done");
    });
    let cx = bus.cx().for_run("r_1", CancellationToken::new());
    cx.emit(Closing).await.unwrap();
    assert_eq!(log.take(), ["done"]);
}

// An existing decision takes precedence over a later stop.
#[tokio::test]
async fn an_answer_that_ends_the_emit_counts_although_the_run_was_stopped_meanwhile() {
    let bus = Bus::new();
    bus.scope("guard").on_async(async |_: &May, cx: &Cx| {
        cx.stop_token().cancel();
        no("too late anyway")
    });
    let cx = bus.cx().for_run("r_1", CancellationToken::new());
    assert_eq!(cx.emit(May).await.unwrap(), no("too late anyway"));
}

#[tokio::test]
async fn a_stop_token_of_a_part_of_a_run_leaves_the_run_itself_going() {
    let bus = Bus::new();
    bus.scope("test").on_sync(|_: &Ping, _: &Cx| ());
    let run = bus.cx().for_run("r_1", CancellationToken::new());
    let part = run.with_stop(run.stop_token().child_token());
    part.stop_token().cancel();
    assert!(part.emit(Ping(0)).await.is_err());
    assert!(run.emit(Ping(0)).await.is_ok());
    assert_eq!(part.run_id(), "r_1");
}

#[tokio::test]
async fn dropping_an_emit_drops_the_handler_that_runs() {
    struct Noisy(Log);
    impl Drop for Noisy {
        fn drop(&mut self) {
            self.0.note("dropped");
        }
    }
    let (bus, log) = (Bus::new(), Log::default());
    bus.scope("hangs").on_async_with(log.clone(), async |log: &Log, _: &Closing, _: &Cx| {
        let _noisy = Noisy(log.clone());
        std::future::pending::<()>().await;
    });
    let emit = tokio::time::timeout(Duration::from_millis(1), bus.cx().emit(Closing)).await;
    assert!(emit.is_err());
    assert_eq!(log.take(), ["dropped"]);
}
