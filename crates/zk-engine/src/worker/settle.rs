use std::time::Duration;

use zk_core::service::{
    HandoverCause, LegEnd, LegFailure, MAX_JOB_BYTES, MAX_WAITED_CHILDREN, RunPhase, RunStatus, Wait,
};

/// Number of worker deaths in a row after which a run fails, because the run itself may cause them.
pub const MAX_LEG_DEATHS: u32 = 50;

/// Pause before a run is taken again after a leg that its worker could not drive.
const HANDOVER_PAUSE: Duration = Duration::from_secs(10);

/// Effect of a leg's end on its run, the same in every engine. A run that is being cancelled ends cancelled unless it ends
/// otherwise.
///
/// ```
/// use zk_core::service::{HandoverCause, LegEnd};
/// use zk_engine::{Settlement, settle_leg};
///
/// assert_eq!(settle_leg(&LegEnd::Handover(HandoverCause::Draining)), Settlement::Queue);
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

/// Returns the effect of a leg's end on its run.
#[must_use]
pub fn settle_leg(end: &LegEnd) -> Settlement {
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
            settle_leg(&LegEnd::Parked(Wait::Children((0..count).map(child).collect())))
        };
        let failed = Settlement::End(RunPhase::Failed, Some(LegFailure::TooLarge));
        assert!(matches!(children(MAX_WAITED_CHILDREN, 8), Settlement::Park(Wait::Children(_))));
        assert_eq!(children(MAX_WAITED_CHILDREN + 1, 8), failed);
        assert_eq!(children(MAX_WAITED_CHILDREN, 96), failed);
    }
}
