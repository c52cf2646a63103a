use std::time::Duration;

use zk_core::service::{
    HandoverCause, LegEnd, LegFailure, MAX_JOB_BYTES, MAX_WAITED_CHILDREN, RunPhase, RunStatus, Wait,
};

/// Number of lost legs in a row after which a run fails: their workers died, which the run itself may cause, or their store
/// failed.
pub const MAX_LEG_DEATHS: u32 = 50;

/// Pause before a run is taken again after a leg that its worker could not drive.
const HANDOVER_PAUSE: Duration = Duration::from_secs(10);

/// Pause before the next leg of a run whose leg lost its store. Each further loss in a row doubles it.
const FIRST_STORE_PAUSE: Duration = Duration::from_secs(1);

/// Longest pause before the next leg of a run whose leg lost its store.
const MAX_STORE_PAUSE: Duration = Duration::from_secs(60);

/// Effect of a leg's end on its run, the same in every engine. A run that is being cancelled ends cancelled unless it ends
/// otherwise.
///
/// ```
/// use zk_core::service::{HandoverCause, LegEnd};
/// use zk_engine::{Settlement, settle_leg};
///
/// assert_eq!(settle_leg(&LegEnd::Handover(HandoverCause::Draining), 0), Settlement::Queue);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settlement {
    /// The run is over in this phase, with the reason of a failure.
    End(RunPhase, Option<LegFailure>),
    /// The run is ready for its next leg at once.
    Queue,
    /// The run is ready for its next leg after this time, or when it is woken from now on.
    Pause(Duration),
    /// The run is ready for its next leg when this happens, and at once if it was woken during the leg.
    Park(Wait),
}

/// Returns the number of lost legs in a row after this end of a leg, of which `before` came before it. A leg that could not
/// begin for now leaves the number.
///
/// ```
/// use zk_core::service::{HandoverCause, LegEnd};
/// use zk_engine::count_losses;
///
/// assert_eq!(count_losses(&LegEnd::Handover(HandoverCause::StoreFailed), 2), 3);
/// assert_eq!(count_losses(&LegEnd::Handover(HandoverCause::Draining), 2), 0);
/// ```
#[must_use]
pub fn count_losses(end: &LegEnd, before: u32) -> u32 {
    match end {
        LegEnd::Handover(HandoverCause::StoreFailed) => before.saturating_add(1),
        LegEnd::Parked(Wait::Until(_)) => before,
        LegEnd::Done(_) | LegEnd::Parked(_) | LegEnd::Handover(_) | LegEnd::Failed(_) => 0,
    }
}

/// Returns the effect of a leg's end on its run, after `losses` lost legs in a row ([`count_losses`]).
#[must_use]
pub fn settle_leg(end: &LegEnd, losses: u32) -> Settlement {
    match end {
        LegEnd::Done(RunStatus::Completed) => Settlement::End(RunPhase::Done, None),
        LegEnd::Done(RunStatus::Aborted) => Settlement::End(RunPhase::Cancelled, None),
        LegEnd::Done(RunStatus::Error) => Settlement::End(RunPhase::Failed, Some(LegFailure::Agent)),
        LegEnd::Failed(failure) => Settlement::End(RunPhase::Failed, Some(failure.clone())),
        LegEnd::Handover(HandoverCause::Draining) => Settlement::Queue,
        // These causes persist: without a pause, the same worker would take the run again at once.
        LegEnd::Handover(HandoverCause::Fenced | HandoverCause::TooNew | HandoverCause::OtherHost) => {
            Settlement::Pause(HANDOVER_PAUSE)
        }
        LegEnd::Handover(HandoverCause::StoreFailed) if losses >= MAX_LEG_DEATHS => {
            Settlement::End(RunPhase::Failed, Some(LegFailure::Store(losses)))
        }
        LegEnd::Handover(HandoverCause::StoreFailed) => {
            let doubled = 2_u32.saturating_pow(losses.saturating_sub(1));
            Settlement::Pause(FIRST_STORE_PAUSE.saturating_mul(doubled).min(MAX_STORE_PAUSE))
        }
        LegEnd::Parked(wait) if is_too_large(wait) => {
            Settlement::End(RunPhase::Failed, Some(LegFailure::TooLarge))
        }
        LegEnd::Parked(wait) => Settlement::Park(wait.clone()),
    }
}

fn is_too_large(wait: &Wait) -> bool {
    let is_long = serde_json::to_string(wait).map_or(true, |text| text.len() > MAX_JOB_BYTES / 2);
    match wait {
        Wait::Children(runs) => is_long || runs.len() > MAX_WAITED_CHILDREN,
        Wait::Answer(_) | Wait::Mail | Wait::Until(_) | Wait::Budget => is_long,
    }
}

#[cfg(test)]
mod tests {
    use zk_core::model::RunId;

    use super::*;

    #[test]
    fn a_wait_that_an_engine_cannot_store_fails_the_run() {
        let children = |count, bytes| {
            let child = |index: usize| RunId::from(format!("{index:0bytes$}"));
            settle_leg(&LegEnd::Parked(Wait::Children((0..count).map(child).collect())), 0)
        };
        let failed = Settlement::End(RunPhase::Failed, Some(LegFailure::TooLarge));
        assert!(matches!(children(MAX_WAITED_CHILDREN, 8), Settlement::Park(Wait::Children(_))));
        assert_eq!(children(MAX_WAITED_CHILDREN + 1, 8), failed);
        assert_eq!(children(MAX_WAITED_CHILDREN, 96), failed);
    }

    #[test]
    fn lost_stores_pause_a_run_longer_and_longer_and_fail_it_at_last() {
        let lost = |losses| settle_leg(&LegEnd::Handover(HandoverCause::StoreFailed), losses);
        let pause = |seconds| Settlement::Pause(Duration::from_secs(seconds));
        assert_eq!([lost(1), lost(2), lost(6), lost(7)], [pause(1), pause(2), pause(32), pause(60)]);
        assert_eq!(lost(MAX_LEG_DEATHS - 1), pause(60));
        let failure = Some(LegFailure::Store(MAX_LEG_DEATHS));
        assert_eq!(lost(MAX_LEG_DEATHS), Settlement::End(RunPhase::Failed, failure));
        // A store that cannot be opened in between does not begin the count anew.
        assert_eq!(count_losses(&LegEnd::Parked(Wait::Until(std::time::UNIX_EPOCH)), 7), 7);
    }
}
