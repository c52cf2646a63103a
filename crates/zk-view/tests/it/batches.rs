//! Answers with thousands of calls.

use std::time::Duration;

use serde_json::json;
use zk_testkit::Script;
use zk_view::rebuild;

use crate::support::{Rig, rig};

/// Processor time of this thread, independent of other load.
fn processor_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(stat.split_whitespace().next().unwrap().parse().unwrap())
}

async fn rig_of_calls(count: usize) -> Rig {
    let script = Script::new()
        .turn(move |turn| {
            (0..count).fold(turn, |turn, number| turn.call("echo", json!({"text": number.to_string()})))
        })
        .turn(|turn| turn.text("done"));
    rig(script).await
}

/// Minimum processor time of three runs with `count` calls in one answer, live and restored.
async fn least_time(count: usize) -> (Duration, Duration) {
    let mut least = (Duration::MAX, Duration::MAX);
    for _ in 0..3 {
        let rig = rig_of_calls(count).await;
        let began = processor_time();
        rig.agent.run("go").unwrap().wait().await;
        least.0 = least.0.min(processor_time() - began);
        let entries = rig.session.entries().await.unwrap();
        let began = processor_time();
        assert!(rebuild(&entries).len() > count);
        least.1 = least.1.min(processor_time() - began);
    }
    least
}

/// Sixteen times the calls take about sixteen times the work, not 256 times.
#[tokio::test]
async fn the_work_of_a_call_does_not_depend_on_how_many_its_answer_has() {
    let (few, many) = (least_time(500).await, least_time(8000).await);
    assert!(many.0 < few.0 * 40, "a run: {:?} for 500 calls, {:?} for 8,000", few.0, many.0);
    assert!(many.1 < few.1 * 40, "its session: {:?} for 500 calls, {:?} for 8,000", few.1, many.1);
}
