use std::time::{Duration, SystemTime};

use zk_core::service::Clock;
use zk_testkit::SimClock;

#[test]
fn a_clock_of_its_own_moves_only_when_it_is_moved() {
    let clock = SimClock::new();
    let begin = clock.now();
    std::thread::sleep(Duration::from_millis(2));
    assert_eq!(clock.now(), begin);
    let same = clock.clone();
    same.advance(Duration::from_secs(5));
    assert_eq!(clock.now(), begin + Duration::from_secs(5));
    assert_eq!(same.now(), clock.now());
}

#[tokio::test(start_paused = true)]
async fn with_timers_the_date_moves_as_they_do() {
    let clock = SimClock::new().with_timers();
    let begin = clock.now();
    tokio::time::advance(Duration::from_secs(60)).await;
    assert_eq!(clock.now(), begin + Duration::from_secs(60));
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(clock.now(), begin + Duration::from_secs(90));
    clock.advance(Duration::from_secs(10));
    assert_eq!(clock.now(), begin + Duration::from_secs(100));
}

#[tokio::test(start_paused = true)]
async fn a_clock_can_be_set_back() {
    let clock = SimClock::new().with_timers();
    tokio::time::advance(Duration::from_secs(60)).await;
    let earlier = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
    clock.set(earlier);
    assert_eq!(clock.now(), earlier);
}
