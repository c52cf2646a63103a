/// State machine that decides the next step of a run from its past steps. It does no I/O and uses no clock,
/// so tests can drive it by hand.
///
/// ```
/// use zk_agent::{Machine, Next, Seen, Stop};
///
/// let mut machine = Machine::new(None);
/// let calm = Seen::default();
/// assert_eq!(machine.next(calm), Next::Turn(1));
/// machine.turn_done(true);
/// // A steering message outranks the end of the answer.
/// assert_eq!(machine.next(Seen { steering: true, ..calm }), Next::Steer);
/// assert_eq!(machine.next(calm), Next::Turn(2));
/// machine.turn_done(true);
/// assert_eq!(machine.next(calm), Next::Stop(Stop::Done));
/// ```
#[derive(Clone, Debug)]
pub struct Machine {
    max_turns: Option<u32>,
    turns: u32,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// A turn that an earlier leg began is settled before anything else.
    Open,
    /// A turn is due, unless steering messages are queued.
    Ready,
    /// Messages were delivered: a turn is due before further ones are delivered.
    Told,
    /// A turn has ended; `ended` says whether the model was done.
    After {
        ended: bool,
    },
    Stopped(Stop),
}

/// Conditions that the driver observes before each step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Whether the run was stopped.
    pub aborted: bool,
    /// Whether a steering message is queued.
    pub steering: bool,
    /// Whether a follow-up is queued.
    pub follow_up: bool,
    /// Whether this worker leaves the run to another one.
    pub hand_over: bool,
}

/// Next step for the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Finish the turn with this number, which an earlier leg began, and report its end with [`Machine::turn_done`].
    Settle(u32),
    /// Run the turn with this number, from 1, and report its end with [`Machine::turn_done`].
    Turn(u32),
    /// Deliver queued steering messages and ask again.
    Steer,
    /// Deliver queued follow-ups and ask again.
    FollowUp,
    /// The run is over.
    Stop(Stop),
}

/// Reason for the end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The model is done and no message is queued.
    Done,
    /// The run was stopped.
    Aborted,
    /// Another turn is due, but the limit of turns is reached.
    TurnLimit(u32),
    /// The open turn waits for an answer, and a later leg settles it.
    Parked,
    /// Another worker continues the run.
    Handover,
}

impl Machine {
    /// Creates the machine of a run with at most `max_turns` turns.
    #[must_use]
    pub fn new(max_turns: Option<u32>) -> Self {
        Self { max_turns, turns: 0, state: State::Ready }
    }

    /// Creates the machine of a leg, for a run that has begun `turns` turns in earlier legs. If the last of
    /// them is open, it is settled first.
    ///
    /// ```
    /// use zk_agent::{Machine, Next, Seen, Stop};
    ///
    /// let mut machine = Machine::resume(None, 3, true);
    /// let calm = Seen::default();
    /// assert_eq!(machine.next(calm), Next::Settle(3));
    /// machine.turn_done(false);
    /// assert_eq!(machine.next(calm), Next::Turn(4));
    /// machine.turn_done(false);
    /// assert_eq!(machine.next(Seen { hand_over: true, ..calm }), Next::Stop(Stop::Handover));
    /// ```
    #[must_use]
    pub fn resume(max_turns: Option<u32>, turns: u32, has_open_turn: bool) -> Self {
        let state = if has_open_turn { State::Open } else { State::Ready };
        Self { max_turns, turns, state }
    }

    /// Returns the number of turns begun so far.
    #[must_use]
    pub fn turns(&self) -> u32 {
        self.turns
    }

    /// Decides the next step: settle an open turn; stop if aborted, or if another worker goes on; deliver
    /// steering messages, even if the model was done; deliver follow-ups if it was; otherwise begin another
    /// turn, unless the limit is reached. Delivered messages are answered before more are delivered.
    pub fn next(&mut self, seen: Seen) -> Next {
        if let State::Stopped(stop) = self.state {
            return Next::Stop(stop);
        }
        if self.state == State::Open {
            // Also settled in a stopped run, where calls that have not begun are skipped.
            return Next::Settle(self.turns);
        }
        if seen.aborted {
            return self.stop(Stop::Aborted);
        }
        if seen.hand_over {
            return self.stop(Stop::Handover);
        }
        match self.state {
            State::Open => Next::Settle(self.turns),
            State::Stopped(stop) => Next::Stop(stop),
            State::Ready | State::After { .. } if seen.steering => self.deliver_first(Next::Steer),
            State::After { ended: true } if seen.follow_up => self.deliver_first(Next::FollowUp),
            State::After { ended: true } => self.stop(Stop::Done),
            State::Ready | State::Told | State::After { ended: false } => match self.max_turns {
                Some(max) if self.turns >= max => self.stop(Stop::TurnLimit(max)),
                _ => {
                    self.turns += 1;
                    Next::Turn(self.turns)
                }
            },
        }
    }

    /// Reports the end of a turn; `ended` tells whether the model was done: no tool calls, no structured
    /// output due.
    pub fn turn_done(&mut self, ended: bool) {
        if !matches!(self.state, State::Stopped(_)) {
            self.state = State::After { ended };
        }
    }

    /// Reports that the open turn waits for an answer, or for another worker.
    pub fn turn_left_open(&mut self, stop: Stop) {
        self.state = State::Stopped(stop);
    }

    fn deliver_first(&mut self, next: Next) -> Next {
        self.state = State::Told;
        next
    }

    fn stop(&mut self, stop: Stop) -> Next {
        self.state = State::Stopped(stop);
        Next::Stop(stop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALM: Seen = Seen { aborted: false, steering: false, follow_up: false, hand_over: false };

    #[test]
    fn an_abort_precedes_all_other_steps() {
        let mut machine = Machine::new(None);
        let all = Seen { aborted: true, steering: true, follow_up: true, hand_over: true };
        assert_eq!(machine.next(all), Next::Stop(Stop::Aborted));
        assert_eq!(machine.next(CALM), Next::Stop(Stop::Aborted), "a stopped run stays stopped");
    }

    #[test]
    fn steering_precedes_the_end_of_the_answer() {
        let mut machine = Machine::new(None);
        assert_eq!(machine.next(CALM), Next::Turn(1));
        machine.turn_done(true);
        assert_eq!(machine.next(Seen { steering: true, follow_up: true, ..CALM }), Next::Steer);
        assert_eq!(machine.next(CALM), Next::Turn(2));
    }

    #[test]
    fn an_open_turn_is_settled_first() {
        let all = Seen { aborted: true, steering: true, follow_up: true, hand_over: true };
        let mut machine = Machine::resume(Some(2), 2, true);
        assert_eq!(machine.next(all), Next::Settle(2));
        machine.turn_done(false);
        assert_eq!(machine.next(CALM), Next::Stop(Stop::TurnLimit(2)), "turns of earlier legs count");
        let mut parked = Machine::resume(None, 1, true);
        parked.next(CALM);
        parked.turn_left_open(Stop::Parked);
        assert_eq!(parked.next(all), Next::Stop(Stop::Parked));
    }

    #[test]
    fn one_delivery_is_answered_before_the_next() {
        let mut machine = Machine::new(None);
        let queued = Seen { steering: true, ..CALM };
        assert_eq!(machine.next(queued), Next::Steer);
        assert_eq!(machine.next(queued), Next::Turn(1));
        machine.turn_done(true);
        assert_eq!(machine.next(queued), Next::Steer);
    }

    #[test]
    fn a_follow_up_waits_for_the_end_of_the_answer() {
        let mut machine = Machine::new(None);
        let queued = Seen { follow_up: true, ..CALM };
        assert_eq!(machine.next(queued), Next::Turn(1));
        machine.turn_done(false);
        assert_eq!(machine.next(queued), Next::Turn(2));
        machine.turn_done(true);
        assert_eq!(machine.next(queued), Next::FollowUp);
    }

    #[test]
    fn the_turn_limit_stops_only_a_run_that_wants_another_turn() {
        let mut done = Machine::new(Some(1));
        done.next(CALM);
        done.turn_done(true);
        assert_eq!(done.next(CALM), Next::Stop(Stop::Done));
        let mut calling = Machine::new(Some(1));
        calling.next(CALM);
        calling.turn_done(false);
        assert_eq!(calling.next(CALM), Next::Stop(Stop::TurnLimit(1)));
    }
}
