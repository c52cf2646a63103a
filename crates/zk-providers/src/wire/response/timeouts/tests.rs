use std::time::Duration;

use tokio::time::{Instant, advance};
use zk_core::model::{ErrorKind, Phase};

use super::{Clock, Clocks, Watchdog};

const CLOCKS: Clocks = Clocks {
    first_event: Duration::from_secs(100),
    liveness: Duration::from_secs(30),
    progress: Duration::from_secs(60),
    ending: Duration::from_secs(5),
};

/// Seconds to the next deadline, and its clock.
fn next(watch: &mut Watchdog) -> (u64, Clock) {
    let (at, clock) = watch.deadline(false);
    (at.duration_since(Instant::now()).as_secs(), clock)
}

#[tokio::test(start_paused = true)]
async fn before_the_first_byte_only_the_longest_clock_runs() {
    let mut watch = Watchdog::new(CLOCKS, Instant::now());
    advance(Duration::from_secs(70)).await;
    assert_eq!(next(&mut watch), (30, Clock::FirstEvent));
    assert_eq!(watch.phase(), Phase::FirstEvent);
}

#[tokio::test(start_paused = true)]
async fn any_byte_is_a_sign_of_life_but_no_progress() {
    let mut watch = Watchdog::new(CLOCKS, Instant::now());
    for _ in 0..5 {
        advance(Duration::from_secs(18)).await;
        watch.record_data();
    }
    assert_eq!(next(&mut watch), (10, Clock::FirstEvent), "keep-alives do not put off the first event");
    watch.record_content();
    assert_eq!((next(&mut watch), watch.phase()), ((30, Clock::Liveness), Phase::Stream));
    for _ in 0..3 {
        advance(Duration::from_secs(18)).await;
        watch.record_data();
    }
    assert_eq!(next(&mut watch), (6, Clock::Progress), "nor an event after it");
}

#[tokio::test(start_paused = true)]
async fn every_event_resets_both_clocks() {
    let mut watch = Watchdog::new(CLOCKS, Instant::now());
    for _ in 0..100 {
        advance(Duration::from_secs(29)).await;
        watch.record_data();
        watch.record_content();
        assert_eq!(next(&mut watch), (30, Clock::Liveness));
    }
}

#[tokio::test(start_paused = true)]
async fn a_complete_answer_waits_only_for_its_end_mark() {
    let mut watch = Watchdog::new(CLOCKS, Instant::now());
    watch.record_data();
    watch.record_content();
    assert_eq!(watch.deadline(true), (Instant::now() + CLOCKS.ending, Clock::Ending));
}

#[tokio::test(start_paused = true)]
async fn keep_alives_after_a_complete_answer_do_not_delay_its_end() {
    let mut watch = Watchdog::new(CLOCKS, Instant::now());
    watch.record_data();
    watch.record_content();
    let end = watch.deadline(true);
    for _ in 0..4 {
        advance(Duration::from_secs(1)).await;
        watch.record_data();
        watch.start_wait();
        assert_eq!(watch.deadline(true), end);
    }
    watch.record_content();
    assert_eq!(watch.deadline(true).0, Instant::now() + CLOCKS.ending, "what says something does");
}

#[tokio::test(start_paused = true)]
async fn the_clocks_are_paused_while_the_reader_is_busy() {
    let mut watch = Watchdog::new(CLOCKS, Instant::now());
    watch.record_data();
    watch.record_content();
    watch.start_wait();
    advance(Duration::from_secs(20)).await;
    let before = next(&mut watch).0;
    watch.record_data();
    watch.record_content();
    advance(Duration::from_secs(3600)).await;
    watch.start_wait();
    let after = next(&mut watch).0;
    assert_eq!((before, after), (CLOCKS.liveness.as_secs() - 20, CLOCKS.liveness.as_secs()));
    advance(Duration::from_secs(5)).await;
    watch.start_wait();
    assert_eq!(next(&mut watch).0, CLOCKS.liveness.as_secs() - 5, "waiting on is no pause");
}

#[test]
fn a_stall_names_its_clock_and_its_limit() {
    let watch = Watchdog::new(CLOCKS, Instant::now());
    let error = watch.stalled(Clock::Liveness);
    assert_eq!(error.kind, ErrorKind::Stalled);
    assert_eq!(error.message, "no data for 30 s (the liveness clock)");
    assert!(error.hint.is_some());
}

#[test]
fn this_machine_is_given_more_time_than_the_network() {
    let (local, remote) = (Clocks::local(), Clocks::remote());
    assert!(
        local.first_event > remote.first_event
            && local.liveness > remote.liveness
            && local.progress > remote.progress
    );
    for clocks in [local, remote] {
        assert!(clocks.first_event > clocks.progress && clocks.progress > clocks.liveness);
    }
}

#[tokio::test(start_paused = true)]
async fn an_idle_stream_is_announced_after_three_seconds_and_then_every_second() {
    let mut watch = Watchdog::new(CLOCKS, Instant::now());
    let due = |watch: &Watchdog| watch.next_notice().saturating_duration_since(Instant::now()).as_secs();
    assert_eq!(due(&watch), 3);
    advance(Duration::from_secs(10)).await;
    assert_eq!(due(&watch), 0);
    let silence = watch.report_idle();
    let seconds = Duration::from_secs;
    assert_eq!(silence.silent, (seconds(10), CLOCKS.first_event));
    assert_eq!(silence.no_data, (seconds(10), None));
    assert_eq!(due(&watch), 1);
    watch.record_data();
    advance(Duration::from_millis(300)).await;
    let rest = watch.next_notice() - Instant::now();
    assert_eq!(rest.as_millis(), 700, "in step with the silence");
    advance(Duration::from_millis(3700)).await;
    let silence = watch.report_idle();
    assert_eq!(silence.silent, (seconds(14), CLOCKS.first_event));
    assert_eq!(silence.no_data, (seconds(4), Some(CLOCKS.liveness)));
    watch.record_data();
    watch.record_content();
    assert_eq!(due(&watch), 3, "an event begins it anew");
}
