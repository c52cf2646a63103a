//! A hundredth of the long session of `benches/replay`, with a window in proportion.

#[path = "../../benches/replay/session.rs"]
mod session;

use session::{SERVER, STRATEGIES, replay};

#[tokio::test]
async fn a_session_many_times_its_window_stays_inside_it_and_every_fact_is_there_or_recalled() {
    for strategy in STRATEGIES {
        let figures = replay(strategy, 160, 12_000).await;
        assert_eq!(figures.requests, 160, "{strategy}: {figures:?}");
        // Facts that a provider omits from its input are not looked up here.
        let found = figures.present + figures.recalled;
        assert!(found == figures.facts || strategy == SERVER, "{strategy}: {figures:?}");
        // Bytes by the rate that the model counts with.
        assert!(figures.peak * 10 / 35 < 12_000, "{strategy}: {figures:?}");
        assert!(
            figures.breaks * 4 < figures.requests,
            "{strategy}: most requests begin as the one before: {figures:?}"
        );
        let asks = !matches!(strategy, "shorten" | "tail" | "rolling" | "focus" | SERVER);
        assert_eq!(figures.side_calls > 0, asks, "{strategy}: {figures:?}");
        assert!(figures.sent > figures.peak, "{strategy}: {figures:?}");
        let said = figures.part_said();
        assert!(said > 0.2 && said < 1.0, "{strategy}: requests say {said:.2} of the facts: {figures:?}");
        assert!(figures.present >= 1, "{strategy}: what a person wanted remembered is there: {figures:?}");
    }
}
