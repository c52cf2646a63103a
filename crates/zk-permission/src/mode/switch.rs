use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use super::{Mode, UnknownMode};

/// Permission mode of a conversation, which can change at any time. Clones share it.
///
/// The judge and the gate of a conversation share one switch. A host that lets other plugins show or change
/// the mode provides it as a service. A stricter mode takes effect with the next call; a wider mode with the
/// next turn, so that it does not apply to calls that the model has already made.
///
/// ```
/// use zk_permission::{Mode, ModeSwitch};
///
/// let modes = ModeSwitch::new(Mode::Ask);
/// modes.choose(Mode::AcceptEdits)?;
/// assert_eq!((modes.now(), modes.chosen()), (Mode::Ask, Mode::AcceptEdits));
/// modes.choose(Mode::ReadOnly)?;
/// assert_eq!(modes.now(), Mode::ReadOnly);
/// # Ok::<(), zk_permission::ModeError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ModeSwitch {
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    mode: RwLock<Switch>,
    /// Mode at the start of the conversation.
    first: Mode,
    /// Whether commands run in a sandbox whose self-test passed.
    is_contained: AtomicBool,
}

#[derive(Clone, Copy, Debug)]
struct Switch {
    now: Mode,
    /// Wider mode, from the next turn on.
    next: Option<Mode>,
    /// Widest mode that can be chosen.
    widest: Mode,
    /// Mode before planning; `None` while not planning.
    before_plan: Option<Mode>,
}

/// Name of the planning state, shown in place of the mode.
const PLAN: &str = "plan";

/// Error: a mode was not chosen by its name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// The name is not that of a mode.
    #[error("there is no permission mode `{}`; the modes are read-only, plan, ask, accept-edits, auto and all", .0.0)]
    Unknown(UnknownMode),
    /// Mode that cannot be chosen.
    #[error(transparent)]
    Refused(ModeError),
}

/// Refusal to change the mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModeError {
    /// The administrator's settings forbid a mode this wide.
    #[error("the settings of this machine allow no mode beyond {0}")]
    TooWide(Mode),
    /// The mode needs a sandbox, which is missing.
    #[error("the mode auto needs the sandbox: start zk with --permission-mode auto")]
    NotContained,
}

impl ModeSwitch {
    /// Switch in this mode, from which any other mode can be chosen.
    #[must_use]
    pub fn new(mode: Mode) -> Self {
        let switch = Switch { now: mode, next: None, widest: Mode::All, before_plan: None };
        let state = State { mode: RwLock::new(switch), first: mode, is_contained: AtomicBool::new(false) };
        Self { state: Arc::new(state) }
    }

    /// Forbids modes wider than `widest`. An existing limit can only become stricter.
    #[must_use]
    pub fn limited_to(self, widest: Mode) -> Self {
        self.change(|switch| switch.widest = switch.widest.min(widest));
        self
    }

    /// Mode of the next call.
    #[must_use]
    pub fn now(&self) -> Mode {
        self.switch().now
    }

    /// Mode that was chosen last, in effect from the next turn on.
    #[must_use]
    pub fn chosen(&self) -> Mode {
        let switch = self.switch();
        switch.next.unwrap_or(switch.now)
    }

    /// Chosen mode, if it differs from the mode at the start of the conversation.
    #[must_use]
    pub fn changed(&self) -> Option<Mode> {
        let chosen = self.before_plan().unwrap_or_else(|| self.chosen());
        Some(chosen).filter(|mode| *mode != self.state.first)
    }

    /// Widest mode that can be chosen.
    #[must_use]
    pub fn widest(&self) -> Mode {
        self.switch().widest
    }

    /// Starts planning: only reads run, until [`ModeSwitch::end_plan`] or the choice of a mode.
    pub fn plan(&self) {
        self.change(|switch| {
            let before = switch.before_plan.or(switch.next).unwrap_or(switch.now);
            (switch.now, switch.next, switch.before_plan) = (Mode::ReadOnly, None, Some(before));
        });
    }

    /// Mode to return to when the plan is approved; `None` while not planning.
    #[must_use]
    pub fn before_plan(&self) -> Option<Mode> {
        self.switch().before_plan
    }

    /// Goes back to the mode before the plan, which holds from the next turn on, and returns the mode chosen now.
    pub fn end_plan(&self) -> Mode {
        if let Some(before) = self.before_plan() {
            self.change(|switch| switch.before_plan = None);
            // A mode that was chosen before can be chosen again.
            let _ = self.choose(before);
        }
        self.chosen()
    }

    /// Name of the present choice: the mode, or `plan`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        if self.before_plan().is_some() { PLAN } else { self.chosen().name() }
    }

    /// Describes the calls that run without a question in the present mode.
    #[must_use]
    pub fn describe(&self) -> &'static str {
        match self.before_plan() {
            Some(_) => "only what reads runs, and the agent presents a plan before it changes anything",
            None => self.chosen().describe(),
        }
    }

    /// Chooses a mode by its name, or planning.
    ///
    /// # Errors
    /// [`NameError`], and the mode is as it was.
    pub fn choose_by_name(&self, name: &str) -> Result<(), NameError> {
        if name == PLAN {
            self.plan();
            return Ok(());
        }
        let mode = name.parse().map_err(NameError::Unknown)?;
        self.choose(mode).map_err(NameError::Refused)
    }

    /// Chooses a mode.
    ///
    /// # Errors
    /// [`ModeError`]; the mode stays unchanged.
    pub fn choose(&self, mode: Mode) -> Result<(), ModeError> {
        let widest = self.widest();
        if mode > widest {
            return Err(ModeError::TooWide(widest));
        }
        if mode == Mode::Auto && !self.is_contained() {
            return Err(ModeError::NotContained);
        }
        self.change(|switch| {
            switch.before_plan = None;
            if mode <= switch.now {
                (switch.now, switch.next) = (mode, None);
            } else {
                switch.next = Some(mode);
            }
        });
        Ok(())
    }

    /// Chooses the next wider mode, a plan after the widest, or the strictest after the plan, and returns the mode. Skips a mode
    /// that never asks.
    pub fn cycle(&self) -> Mode {
        let widest = self.widest();
        let can_follow = |mode: &Mode| match mode {
            Mode::ReadOnly | Mode::Ask | Mode::AcceptEdits => *mode <= widest,
            Mode::Auto => *mode <= widest && self.is_contained(),
            Mode::All => false,
        };
        let chosen = self.chosen();
        let all = || Mode::ALL.into_iter().filter(can_follow);
        let wider = all().find(|mode| *mode > chosen).filter(|_| self.before_plan().is_none());
        if wider.is_none() && self.before_plan().is_none() {
            self.plan();
            return self.chosen();
        }
        let next = wider.or_else(|| all().next()).unwrap_or(chosen);
        // Cannot fail, as only allowed modes are tried.
        let _ = self.choose(next);
        self.chosen()
    }

    /// Whether commands run in a sandbox that was proven to hold: they change the project alone and have no network.
    #[must_use]
    pub fn is_contained(&self) -> bool {
        self.state.is_contained.load(Ordering::Relaxed)
    }

    pub(crate) fn contain(&self) {
        self.state.is_contained.store(true, Ordering::Relaxed);
    }

    /// Puts a wider mode into effect. Called by both the judge and the gate; the second call has no effect.
    pub(crate) fn begin_turn(&self) {
        self.change(|switch| switch.now = switch.next.take().unwrap_or(switch.now));
    }

    fn switch(&self) -> Switch {
        *self.state.mode.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Switch)) {
        change(&mut self.state.mode.write().unwrap_or_else(PoisonError::into_inner));
    }
}

impl From<Mode> for ModeSwitch {
    fn from(mode: Mode) -> Self {
        Self::new(mode)
    }
}

impl Default for ModeSwitch {
    fn default() -> Self {
        Self::new(Mode::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_choice_leads_beyond_the_widest_mode() {
        for widest in Mode::ALL {
            let modes = ModeSwitch::new(Mode::ReadOnly).limited_to(widest);
            modes.contain();
            for mode in Mode::ALL {
                let expected = if mode <= widest { Ok(()) } else { Err(ModeError::TooWide(widest)) };
                assert_eq!(modes.choose(mode), expected, "{mode} where {widest} is the widest");
                assert!(modes.chosen() <= widest);
            }
            for _ in 0..2 * Mode::ALL.len() {
                assert!(modes.cycle() <= widest);
            }
        }
    }

    #[test]
    fn a_limit_is_only_made_tighter() {
        let modes = ModeSwitch::new(Mode::ReadOnly).limited_to(Mode::Ask);
        let widened = modes.limited_to(Mode::All);
        assert_eq!(widened.choose(Mode::All), Err(ModeError::TooWide(Mode::Ask)));
    }

    #[test]
    fn auto_is_neither_chosen_nor_cycled_to_without_a_sandbox_and_all_is_never_cycled_to() {
        let modes = ModeSwitch::new(Mode::Ask);
        assert_eq!(modes.choose(Mode::Auto), Err(ModeError::NotContained));
        let names = |modes: &ModeSwitch| {
            [(); 4].map(|()| {
                modes.cycle();
                modes.name()
            })
        };
        assert_eq!(names(&modes), ["accept-edits", "plan", "read-only", "ask"]);
        assert_eq!(modes.cycle(), Mode::AcceptEdits);
        modes.contain();
        assert_eq!(names(&modes), ["auto", "plan", "read-only", "ask"]);
        assert_eq!(modes.choose(Mode::All), Ok(()));
        modes.cycle();
        assert_eq!((modes.name(), modes.now()), ("plan", Mode::ReadOnly));
    }

    #[test]
    fn plan_mode_only_reads_and_returns_to_the_mode_before_it() {
        let modes = ModeSwitch::new(Mode::AcceptEdits);
        modes.plan();
        modes.plan();
        assert_eq!((modes.now(), modes.name()), (Mode::ReadOnly, "plan"));
        assert_eq!(modes.changed(), None, "whoever plans goes back");
        assert_eq!(modes.end_plan(), Mode::AcceptEdits);
        assert_eq!(modes.now(), Mode::ReadOnly, "the model asked for it before");
        modes.begin_turn();
        assert_eq!((modes.now(), modes.name()), (Mode::AcceptEdits, "accept-edits"));
        modes.plan();
        modes.choose(Mode::Ask).unwrap();
        assert_eq!((modes.before_plan(), modes.name()), (None, "ask"), "a mode that is chosen ends the plan");
        assert_eq!(modes.choose_by_name("plan"), Ok(()));
        assert!(modes.choose_by_name("plans").unwrap_err().to_string().contains("read-only, plan, ask"));
    }
}
