use zk_core::events::CompactionTrigger;
use zk_core::service::WindowLevel;

use crate::WindowOptions;

/// Failures in a row after which compaction stops.
const MAX_FAILURES: u32 = 2;

/// Decides when one conversation is compacted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trigger {
    /// Number of turns left in the cooldown after a compaction, in which thresholds are ignored.
    rest: u32,
    failures: u32,
    /// Whether thresholds are ignored until a person acts: compactions failed, or a person undid one.
    held: bool,
    /// Whether thresholds are ignored because a person undid a compaction; lasts until the window is full.
    is_taken_back: bool,
    /// Whether a person or plugin asked for a compaction.
    asked: bool,
    /// Whether the model asked for a compaction; never set while thresholds are ignored by a hold or the cooldown.
    requested: bool,
}

/// Reason for which a compaction that the model asked for is not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotNow {
    /// Cooldown after the last compaction: thresholds are ignored for this many more turns.
    Rests(u32),
    /// Compactions did not help, or a person undid one: only a person's request starts another.
    Held,
}

/// Result of a compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CompactionResult {
    Enough,
    TooLittle,
    /// Too little was freed several times in a row, so compaction stops.
    Stopped,
}

impl Trigger {
    /// Requests a compaction before the next request.
    pub(crate) fn ask(&mut self) {
        *self = Self { asked: true, rest: self.rest, ..Self::default() };
    }

    /// Records the model's request for a compaction before the next request. A hold and the cooldown take precedence.
    pub(crate) fn request(&mut self) -> Result<(), NotNow> {
        if self.held {
            return Err(NotNow::Held);
        }
        if self.rest > 0 {
            return Err(NotNow::Rests(self.rest));
        }
        self.requested = true;
        Ok(())
    }

    /// Ignores thresholds, as a person wants, until the conversation does not fit or a compaction is
    /// requested.
    pub(crate) fn ignore_thresholds(&mut self) {
        (self.held, self.is_taken_back) = (true, true);
    }

    /// Stops compaction until a person acts, because no attempt would help.
    pub(crate) fn stop(&mut self) {
        (self.failures, self.held, self.is_taken_back) = (0, true, false);
    }

    /// Ignores thresholds for as many turns as after a compaction.
    pub(crate) fn pause(&mut self, options: &WindowOptions) {
        self.rest = options.cooldown;
    }

    /// Resets the state of the trigger after a change of the model.
    pub(crate) fn reset(&mut self) {
        *self = Self { asked: self.asked, ..Self::default() };
    }

    /// Whether and why a request at `level` is compacted. One that `exceeds` the window is compacted without
    /// delay.
    pub(crate) fn decide(
        &mut self,
        level: WindowLevel,
        exceeds: bool,
        overflows: bool,
    ) -> Option<CompactionTrigger> {
        let (asked, requested) = (std::mem::take(&mut self.asked), std::mem::take(&mut self.requested));
        let rests = self.rest > 0 && !exceeds;
        self.rest = self.rest.saturating_sub(1);
        if overflows {
            return Some(CompactionTrigger::Overflow);
        }
        if asked {
            return Some(CompactionTrigger::Manual);
        }
        if self.held && !(self.is_taken_back && exceeds) {
            // With free space again, the hold is over.
            self.held = level == WindowLevel::Hard;
            return None;
        }
        (self.held, self.is_taken_back) = (false, false);
        if requested && !rests {
            return Some(CompactionTrigger::Hard);
        }
        match level {
            WindowLevel::Hard if !rests => Some(CompactionTrigger::Hard),
            WindowLevel::Hard | WindowLevel::Soft => Some(CompactionTrigger::Soft),
            WindowLevel::Low => None,
        }
    }

    /// Evaluates the sizes before and after a compaction, in the same unit.
    pub(crate) fn evaluate(&mut self, options: &WindowOptions, before: u64, after: u64) -> CompactionResult {
        self.rest = options.cooldown;
        let freed = before.saturating_sub(after) as f64;
        if before > 0 && freed / before as f64 >= options.least_freed {
            self.failures = 0;
            return CompactionResult::Enough;
        }
        self.failures += 1;
        if self.failures < MAX_FAILURES {
            return CompactionResult::TooLittle;
        }
        self.stop();
        CompactionResult::Stopped
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use CompactionTrigger as T;
    use WindowLevel as L;

    #[test]
    fn a_persons_request_and_an_overflow_ignore_the_cooldown() {
        let (mut trigger, options) = (Trigger::default(), WindowOptions::default());
        assert_eq!(trigger.decide(L::Hard, false, false), Some(T::Hard));
        assert_eq!(trigger.evaluate(&options, 100, 50), CompactionResult::Enough);
        assert_eq!(trigger.decide(L::Hard, false, false), Some(T::Soft), "it rests");
        assert_eq!(trigger.decide(L::Hard, false, true), Some(T::Overflow));
        assert_eq!(trigger.evaluate(&options, 100, 50), CompactionResult::Enough);
        assert_eq!(trigger.decide(L::Hard, true, false), Some(T::Hard), "it would not fit at all");
        trigger.ask();
        assert_eq!(trigger.decide(L::Low, false, false), Some(T::Manual));
        assert_eq!(trigger.decide(L::Low, false, false), None, "asked once");
        assert_eq!(trigger.decide(L::Hard, false, false), Some(T::Hard), "the rest is over");
    }

    #[test]
    fn an_undone_compaction_recurs_only_for_an_overflow_and_a_useless_one_not_even_then() {
        let mut trigger = Trigger::default();
        trigger.ignore_thresholds();
        assert_eq!(trigger.decide(L::Hard, false, false), None);
        assert_eq!(trigger.decide(L::Hard, true, false), Some(T::Hard));
        assert_eq!(trigger.decide(L::Hard, false, false), Some(T::Hard), "it is as any other by now");
        trigger.stop();
        assert_eq!(trigger.decide(L::Hard, true, false), None);
        assert_eq!(trigger.decide(L::Low, false, false), None);
        assert_eq!(trigger.decide(L::Hard, false, false), Some(T::Hard), "there was room meanwhile");
    }

    #[test]
    fn the_model_may_ask_once_between_cooldowns_and_never_during_a_hold() {
        let (mut trigger, options) = (Trigger::default(), WindowOptions::default());
        assert_eq!(trigger.request(), Ok(()));
        assert_eq!(trigger.decide(L::Low, false, false), Some(T::Hard));
        assert_eq!(trigger.decide(L::Low, false, false), None, "it asked once");
        assert_eq!(trigger.evaluate(&options, 100, 50), CompactionResult::Enough);
        assert_eq!(trigger.request(), Err(NotNow::Rests(options.cooldown)));
        for _ in 0..options.cooldown {
            assert_eq!(trigger.decide(L::Low, false, false), None);
        }
        assert_eq!(trigger.request(), Ok(()));
        trigger.stop();
        assert_eq!(trigger.request(), Err(NotNow::Held));
        assert_eq!(trigger.decide(L::Hard, true, false), None, "a hold outweighs an earlier request");
        trigger.ask();
        assert_eq!(trigger.request(), Ok(()), "a person's request ends the hold");
    }

    #[test]
    fn twice_too_little_in_a_row_stops_until_there_is_room_or_somebody_asks() {
        let (mut trigger, options) = (Trigger::default(), WindowOptions::default());
        assert_eq!(trigger.evaluate(&options, 100, 81), CompactionResult::TooLittle);
        assert_eq!(trigger.evaluate(&options, 100, 80), CompactionResult::Enough);
        assert_eq!(trigger.evaluate(&options, 100, 100), CompactionResult::TooLittle);
        assert_eq!(trigger.evaluate(&options, 100, 90), CompactionResult::Stopped);
        for _ in 0..10 {
            assert_eq!(trigger.decide(L::Hard, false, false), None);
        }
        trigger.ask();
        assert_eq!(trigger.decide(L::Hard, false, false), Some(T::Manual));
    }
}
