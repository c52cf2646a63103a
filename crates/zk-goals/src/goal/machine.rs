use zk_core::events::GoalState;

use super::phrase::{answer_digest, ends_with_phrase};
use super::spec::{Goal, GoalOrigin, GoalSpec};
use super::text;

/// Number of failed requests for a verdict in a row after which the supervisor is paused.
const SUPERVISOR_FAILURES: u32 = 3;

/// Rounding tolerance of sums in US dollars.
const ROUNDING_USD: f64 = 1e-9;

/// Number of turns for which a failing supervisor is paused.
const SUPERVISOR_PAUSE_TURNS: u32 = 20;

/// Rules of the state machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GoalRules {
    /// Phrase that ends an answer to say that the goal is reached.
    pub phrase: String,
    /// Number of turns between two verdicts of the supervisor; 0 for no supervisor.
    pub supervisor_turns: u32,
    /// Number of equal answers in a row after which a goal is stuck.
    pub identical_answers: u32,
    /// Number of failed turns in a row after which a goal is stuck.
    pub failures: u32,
    /// Whether a prompt is the goal while no other goal is set.
    pub from_prompts: bool,
}

/// Event of a conversation that affects its goal.
#[derive(Clone, Debug, PartialEq)]
pub enum GoalInput {
    /// A person sets a goal.
    Set(GoalSpec),
    /// A person removes the goal.
    Clear,
    /// A person says that the goal is reached.
    Done,
    /// A person resumes an ended or paused goal, with new caps.
    Resume {
        /// Cap on further turns; `None` keeps the cap.
        more_turns: Option<u32>,
        /// Cap on further US dollars; `None` keeps the cap.
        more_budget: Option<f64>,
    },
    /// A person sent a prompt.
    Prompted(String),
    /// Money was spent by a turn, a side call or a sub-agent.
    Spent {
        /// Amount in US dollars; `None` if the price is not known.
        usd: Option<f64>,
        /// Spender of the money.
        by: Spender,
    },
    /// A turn ended, with its calls.
    Turn {
        /// Text of the answer; `None` if the model called tools.
        answer: Option<String>,
        /// The calls as text, to recognise repeated work; empty for an answer.
        calls: String,
        /// Whether all items of the plan are done; false without a plan.
        is_plan_finished: bool,
    },
    /// A turn failed, and its run with it.
    Failed {
        /// Description of the failure.
        error: String,
    },
    /// The next turn does not fit a budget other than the goal's own.
    CapReached(String),
    /// The run was stopped, by a person or from outside.
    Stopped {
        /// Reason for the stop, if it is known.
        reason: Option<String>,
    },
    /// The supervisor gave its verdict.
    Verdict {
        /// Whether the goal is achieved.
        achieved: bool,
        /// Reason for the verdict.
        reason: String,
    },
    /// The supervisor gave no usable verdict.
    NoVerdict(SupervisorFailure),
    /// A decision is pending until a person answers.
    Waiting(String),
    /// The pending decisions are settled.
    Decided,
}

/// Spender of money for a goal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spender {
    /// The goal's own turn, which [`GoalInput::Turn`] follows.
    Turn,
    /// The supervisor.
    Verdict,
    /// A sub-agent, or another side call.
    Other,
}

/// Reason for which there is no verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SupervisorFailure {
    /// The provider has no capacity at present: the supervisor is asked again after the next turn.
    Deferred,
    /// The request failed, or the answer is no valid verdict.
    Failed,
}

/// Action that follows from an input.
#[derive(Clone, Debug, PartialEq)]
pub enum GoalEffect {
    /// Stores the goal in the session.
    Store,
    /// Announces the change of the goal.
    Announce,
    /// Continues the present run with this message to the model.
    Continue(String),
    /// Continues with this message to the model in a new run, after a failed one.
    Retry {
        /// Message for the model.
        message: String,
        /// Failed turns in a row.
        failures: u32,
    },
    /// Stops the present run for this reason.
    StopRun(String),
    /// Asks the supervisor for a verdict.
    AskSupervisor,
}

/// State machine of the goal of one conversation. Without a goal it is idle.
///
/// ```
/// use zk_core::events::GoalState;
/// use zk_goals::{GoalEffect, GoalInput, GoalMachine, GoalSettings, GoalSpec};
///
/// let mut machine = GoalMachine::new(GoalSettings::default().rules());
/// let spec = GoalSpec::new("make the tests pass")?.autonomous(Some(50), None);
/// machine.apply(GoalInput::Set(spec));
/// let turn = |answer: &str| GoalInput::Turn {
///     answer: Some(answer.to_owned()),
///     calls: String::new(),
///     is_plan_finished: false,
/// };
/// let effects = machine.apply(turn("Two of three pass."));
/// assert!(effects.iter().any(|effect| matches!(effect, GoalEffect::Continue(_))));
/// machine.apply(turn("All pass.\nThe goal is reached."));
/// assert_eq!(machine.state(), Some(GoalState::Completed));
/// # Ok::<(), zk_goals::GoalSpecError>(())
/// ```
#[derive(Clone, Debug)]
pub struct GoalMachine {
    rules: GoalRules,
    goal: Option<Goal>,
    /// Number of goals that the session has had.
    goals: u64,
}

impl GoalMachine {
    /// Creates the machine of a conversation without a goal.
    #[must_use]
    pub fn new(rules: GoalRules) -> Self {
        Self { rules, goal: None, goals: 0 }
    }

    /// Replaces the goal by a stored one; `None` for a branch without a goal.
    pub fn restore(&mut self, goal: Option<Goal>) {
        self.goals = goal.as_ref().map_or(0, |goal| goal.number);
        self.goal = goal.filter(|goal| goal.state != GoalState::Cleared);
    }

    /// Returns the goal; `None` while idle.
    #[must_use]
    pub fn goal(&self) -> Option<&Goal> {
        self.goal.as_ref()
    }

    /// Returns the state of the goal; `None` while idle.
    #[must_use]
    pub fn state(&self) -> Option<GoalState> {
        self.goal.as_ref().map(|goal| goal.state)
    }

    /// Returns the message with which the model continues the goal; `None` if the conversation does not
    /// continue by itself.
    #[must_use]
    pub fn next_message(&self) -> Option<String> {
        let goal = self.goal.as_ref().filter(|goal| goal.is_driven())?;
        Some(text::continue_message(goal, &self.rules))
    }

    /// Returns the text for the system prompt: the goal that a person set, and the phrase. `None` if there is
    /// no such goal.
    #[must_use]
    pub fn section(&self) -> Option<String> {
        let goal = self.goal.as_ref()?;
        let is_told = goal.state == GoalState::Active && goal.spec.origin() == GoalOrigin::Set;
        let instruction = text::phrase_instruction(&self.rules);
        is_told.then(|| format!("# Goal of this conversation\n\n{}\n\n{instruction}", goal.spec.text()))
    }

    /// Applies an input; returns the actions that follow from it, in order. After [`GoalInput::Clear`],
    /// [`goal`](Self::goal) still returns the goal, as cleared.
    pub fn apply(&mut self, input: GoalInput) -> Vec<GoalEffect> {
        match input {
            GoalInput::Set(spec) => self.set_goal(spec),
            GoalInput::Prompted(prompt) => self.apply_prompt(&prompt),
            input => match &mut self.goal {
                Some(goal) if goal.state != GoalState::Cleared => apply_to(goal, input, &self.rules),
                Some(_) | None => Vec::new(),
            },
        }
    }

    fn set_goal(&mut self, spec: GoalSpec) -> Vec<GoalEffect> {
        self.goals += 1;
        self.goal = Some(Goal::new(self.goals, spec));
        vec![GoalEffect::Store, GoalEffect::Announce]
    }

    fn apply_prompt(&mut self, prompt: &str) -> Vec<GoalEffect> {
        if let Some(goal) = self.goal.as_mut().filter(|goal| goal.state == GoalState::Paused) {
            return goal.enter_state(GoalState::Active, None);
        }
        let is_free = self
            .goal
            .as_ref()
            .is_none_or(|goal| goal.state != GoalState::Active || goal.spec.origin() == GoalOrigin::Prompt);
        match GoalSpec::from_prompt(prompt).filter(|_| self.rules.from_prompts && is_free) {
            Some(spec) => self.set_goal(spec),
            None => Vec::new(),
        }
    }
}

impl Goal {
    fn enter_state(&mut self, state: GoalState, reason: Option<String>) -> Vec<GoalEffect> {
        (self.state, self.reason) = (state, reason);
        if state != GoalState::Active {
            self.supervision.is_asked = false;
        }
        vec![GoalEffect::Store, GoalEffect::Announce]
    }

    /// Describes the cap on money, if it is reached.
    fn reached_money_cap(&self) -> Option<String> {
        let budget = self.spec.budget()?;
        // The cost of a verdict under way is not counted yet.
        let is_due = self.supervision.is_asked && !self.supervision.is_paid;
        let reserved = if is_due { self.average_turn_cost() } else { 0.0 };
        let awaited = if reserved > 0.0 { ", and a verdict is to be paid" } else { "" };
        let is_over = self.spent + reserved > budget + ROUNDING_USD;
        is_over.then(|| format!("${:.4} of ${budget:.2} is spent{awaited}", self.spent))
    }

    /// Returns the average cost of a turn so far, in US dollars.
    fn average_turn_cost(&self) -> f64 {
        self.spent / f64::from(self.turns.max(1))
    }

    /// Whether the budget can pay a verdict and the next turn, each at the average cost of a turn.
    fn can_pay_verdict(&self) -> bool {
        self.spec
            .budget()
            .is_none_or(|budget| self.spent + 2.0 * self.average_turn_cost() <= budget + ROUNDING_USD)
    }

    /// Describes the cap on turns or money that is reached, if one is.
    fn reached_cap(&self) -> Option<String> {
        let turns = self.spec.max_turns().filter(|most| self.turns >= *most);
        turns.map(|most| format!("{most} turns are over")).or_else(|| self.reached_money_cap())
    }
}

fn apply_to(goal: &mut Goal, input: GoalInput, rules: &GoalRules) -> Vec<GoalEffect> {
    let is_active = goal.state == GoalState::Active;
    match input {
        GoalInput::Set(_) | GoalInput::Prompted(_) => Vec::new(),
        GoalInput::Clear => goal.enter_state(GoalState::Cleared, None),
        GoalInput::Done if goal.state == GoalState::Completed => Vec::new(),
        GoalInput::Done => goal.enter_state(GoalState::Completed, Some("you said so".to_owned())),
        GoalInput::Resume { more_turns, more_budget } => {
            let turns = more_turns.map(|more| goal.turns.saturating_add(more));
            let budget = more_budget.map(|more| goal.spent + more);
            goal.spec.set_caps(turns.or(goal.spec.max_turns()), budget.or(goal.spec.budget()));
            (goal.failures, goal.equal_answers, goal.last_answer) = (0, 0, None);
            goal.supervision.achieved = None;
            goal.waiting.clear();
            goal.enter_state(GoalState::Active, None)
        }
        GoalInput::Spent { usd, by } => apply_spending(goal, usd, by),
        GoalInput::Turn { answer: None, calls, .. } if is_active => {
            goal.work = answer_digest(&format!("{} {calls}", goal.work));
            apply_turn(goal, None, false, rules)
        }
        GoalInput::Turn { answer, is_plan_finished, .. } if is_active => {
            apply_turn(goal, answer.as_deref(), is_plan_finished, rules)
        }
        GoalInput::Failed { error } if goal.is_driven() => {
            goal.failures += 1;
            if goal.failures >= rules.failures {
                let reason = format!("{} failures in a row, the last one: {error}", goal.failures);
                return goal.enter_state(GoalState::Stuck, Some(reason));
            }
            let message = text::continue_message(goal, rules);
            vec![GoalEffect::Store, GoalEffect::Retry { message, failures: goal.failures }]
        }
        GoalInput::CapReached(reason) if goal.is_driven() => {
            goal.enter_state(GoalState::Capped, Some(reason))
        }
        GoalInput::Stopped { reason } if goal.is_driven() => goal
            .enter_state(GoalState::Paused, Some(reason.unwrap_or_else(|| "the run was stopped".to_owned()))),
        GoalInput::Verdict { achieved, reason } if is_active => {
            let supervision = &mut goal.supervision;
            (supervision.is_asked, supervision.failures) = (false, 0);
            (supervision.achieved, supervision.missing) =
                if achieved { (Some(reason), None) } else { (None, Some(reason)) };
            vec![GoalEffect::Store]
        }
        GoalInput::NoVerdict(failure) if is_active => {
            apply_no_verdict(goal, failure, rules);
            vec![GoalEffect::Store]
        }
        GoalInput::Waiting(decision) if is_active => match goal.add_waiting(decision) {
            true => vec![GoalEffect::Store, GoalEffect::Announce],
            false => Vec::new(),
        },
        GoalInput::Decided if !goal.waiting.is_empty() => {
            goal.waiting.clear();
            vec![GoalEffect::Store, GoalEffect::Announce]
        }
        GoalInput::Turn { .. }
        | GoalInput::Failed { .. }
        | GoalInput::CapReached(_)
        | GoalInput::Stopped { .. }
        | GoalInput::Verdict { .. }
        | GoalInput::NoVerdict(_)
        | GoalInput::Waiting(_)
        | GoalInput::Decided => Vec::new(),
    }
}

fn apply_spending(goal: &mut Goal, usd: Option<f64>, by: Spender) -> Vec<GoalEffect> {
    let usd = usd.map(|usd| usd.max(0.0));
    if goal.state != GoalState::Active {
        let is_over = matches!(goal.state, GoalState::Completed | GoalState::Cleared);
        // Work that outlasts the goal's stop counts, because a resumed goal keeps its budget.
        if by == Spender::Turn || is_over || usd.is_none_or(|usd| usd <= 0.0) {
            return Vec::new();
        }
        goal.spent += usd.unwrap_or_default();
        return vec![GoalEffect::Store];
    }
    goal.spent += usd.unwrap_or_default();
    if by == Spender::Verdict {
        goal.supervision.is_paid = true;
    }
    if !goal.is_driven() {
        return Vec::new();
    }
    let unknown = usd.is_none() && goal.spec.budget().is_some();
    let reason = match goal.reached_money_cap() {
        _ if unknown => "the price of the model is not known, so that no budget can be held".to_owned(),
        // The turn itself may reach the goal, so that only other spending ends it here.
        Some(reason) if by != Spender::Turn => reason,
        Some(_) | None => return Vec::new(),
    };
    let mut effects = goal.enter_state(GoalState::Capped, Some(reason.clone()));
    effects.push(GoalEffect::StopRun(reason));
    effects
}

fn apply_turn(
    goal: &mut Goal,
    answer: Option<&str>,
    is_plan_finished: bool,
    rules: &GoalRules,
) -> Vec<GoalEffect> {
    goal.turns += 1;
    goal.failures = 0;
    if let Some(answer) = answer {
        if ends_with_phrase(answer, &rules.phrase) {
            return goal.enter_state(GoalState::Completed, Some("the model said so".to_owned()));
        }
        if is_plan_finished {
            return goal.enter_state(GoalState::Completed, Some("all of the plan is done".to_owned()));
        }
        if let Some(reason) = goal.supervision.achieved.take() {
            return goal.enter_state(GoalState::Completed, Some(format!("the supervisor found: {reason}")));
        }
        // An answer counts as repeated only if the calls before it are equal too.
        let now = answer_digest(&format!("{} {answer}", goal.work));
        goal.work = 0;
        goal.equal_answers = if goal.last_answer == Some(now) { goal.equal_answers + 1 } else { 1 };
        goal.last_answer = Some(now);
    }
    if !goal.is_driven() {
        return vec![GoalEffect::Store];
    }
    if goal.equal_answers >= rules.identical_answers {
        let reason = format!("{} equal answers in a row", goal.equal_answers);
        return goal.enter_state(GoalState::Stuck, Some(reason));
    }
    if let Some(reason) = goal.reached_cap() {
        let mut effects = goal.enter_state(GoalState::Capped, Some(reason.clone()));
        if answer.is_none() {
            effects.push(GoalEffect::StopRun(reason));
        }
        return effects;
    }
    let mut effects = Vec::new();
    goal.supervision.turns_since = goal.supervision.turns_since.saturating_add(1);
    if is_verdict_due(goal, rules) {
        (goal.supervision.is_asked, goal.supervision.is_paid) = (true, false);
        goal.supervision.turns_since = 0;
        goal.supervision.paused_until = None;
        effects.push(GoalEffect::AskSupervisor);
    }
    effects.push(GoalEffect::Store);
    if answer.is_some() {
        effects.push(GoalEffect::Continue(text::continue_message(goal, rules)));
        // The model is told once; the next verdict replaces the reason.
        goal.supervision.missing = None;
    }
    effects
}

fn is_verdict_due(goal: &Goal, rules: &GoalRules) -> bool {
    let supervision = &goal.supervision;
    let is_paused = supervision.paused_until.is_some_and(|until| goal.turns < until);
    rules.supervisor_turns > 0
        && !supervision.is_asked
        && !is_paused
        && goal.can_pay_verdict()
        && supervision.turns_since >= rules.supervisor_turns
}

fn apply_no_verdict(goal: &mut Goal, failure: SupervisorFailure, rules: &GoalRules) {
    let turns = goal.turns;
    let supervision = &mut goal.supervision;
    supervision.is_asked = false;
    match failure {
        // The next turn makes a verdict due again.
        SupervisorFailure::Deferred => supervision.turns_since = rules.supervisor_turns.saturating_sub(1),
        SupervisorFailure::Failed => {
            supervision.failures += 1;
            if supervision.failures >= SUPERVISOR_FAILURES {
                supervision.failures = 0;
                supervision.paused_until = Some(turns.saturating_add(SUPERVISOR_PAUSE_TURNS));
            }
        }
    }
}
