use std::sync::{Arc, Mutex};

use zk_core::events::GoalState;
use zk_core::kernel::{BoxError, Cx, Plugin, Scope};

use super::record::WorkRecord;
use super::shared::{GoalRetry, SOURCE, Shared, State};
use super::{command, handlers};
use crate::GoalSettings;
use crate::goal::{Goal, GoalInput, GoalMachine, GoalSpec};

/// Plugin for the goal of a conversation: `/goal`, `/done`, autonomous turns, caps and the supervisor.
///
/// No task drives a goal: the plugin acts where a turn or run ends. A host without a
/// [`MessageDelivery`](zk_core::service::MessageDelivery) begins the next run after a failed one itself, see [`Goals::take_retry`].
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use std::sync::Arc;
///
/// use zk_agent::Agent;
/// use zk_core::events::GoalState;
/// use zk_goals::{GoalSettings, GoalSpec, Goals};
/// use zk_testkit::{Script, ScriptedProvider};
///
/// let script = Script::new()
///     .turn(|turn| turn.text("One of two is done."))
///     .turn(|turn| turn.text("Both are done.\n\nThe goal is reached."));
/// let goals = Goals::new(GoalSettings { autonomous: true, pause_ms: 0, ..GoalSettings::default() });
/// let agent = Agent::builder(Arc::new(ScriptedProvider::new(script))).plugin(goals.clone()).build().unwrap();
/// let goal = GoalSpec::new("do both").unwrap().autonomous(None, None);
/// goals.begin(goal, &agent.bus().cx()).await.unwrap();
/// agent.run("do both").unwrap().wait().await;
/// assert_eq!(goals.goal().unwrap().state, GoalState::Completed);
/// # });
/// ```
#[derive(Clone, Debug)]
pub struct Goals(pub(super) Arc<Shared>);

impl Goals {
    /// Creates the plugin.
    #[must_use]
    pub fn new(settings: GoalSettings) -> Self {
        let state = State {
            machine: GoalMachine::new(settings.rules()),
            scope: None,
            run: None,
            is_own_stop: false,
            is_read_ahead: false,
            is_loaded: false,
            answer: None,
            is_plan_finished: false,
            retry: None,
            record: WorkRecord::default(),
            follows_questions: false,
            blocks: 0,
            shown: None,
        };
        Self(Arc::new(Shared { settings, state: Mutex::new(state), turn: tokio::sync::Mutex::default() }))
    }

    /// Returns the goal of the conversation; `None` while there is none.
    #[must_use]
    pub fn goal(&self) -> Option<Goal> {
        self.0.state().machine.goal().filter(|goal| goal.state != GoalState::Cleared).cloned()
    }

    /// Reads the goal of a stored conversation before its first run, and returns it.
    ///
    /// # Errors
    /// When the session cannot be read.
    pub async fn load(&self, cx: &Cx) -> Result<Option<Goal>, BoxError> {
        self.0.load_goal(cx).await?;
        Ok(self.goal())
    }

    /// Sets the goal. An autonomous one without a cap on turns gets that of the settings.
    ///
    /// # Errors
    /// [`GoalError`](crate::GoalError) when another goal is active, or an autonomous one is not allowed; an error of
    /// the session when the goal cannot be stored.
    pub async fn begin(&self, spec: GoalSpec, cx: &Cx) -> Result<(), BoxError> {
        self.0.begin_goal(spec, cx).await
    }

    /// Pauses an autonomous goal; another goal stays as it is.
    ///
    /// # Errors
    /// When the goal cannot be stored.
    pub async fn pause(&self, reason: &str, cx: &Cx) -> Result<(), BoxError> {
        self.0.apply(GoalInput::Stopped { reason: Some(reason.to_owned()) }, cx).await
    }

    /// Resumes a paused autonomous goal; a goal in another state is unchanged.
    ///
    /// # Errors
    /// When the goal cannot be stored.
    pub async fn reactivate(&self, cx: &Cx) -> Result<(), BoxError> {
        let is_paused = self.goal().is_some_and(|goal| goal.state == GoalState::Paused);
        match is_paused {
            true => self.0.apply(GoalInput::Resume { more_turns: None, more_budget: None }, cx).await,
            false => Ok(()),
        }
    }

    /// Returns the message with which a run continues an autonomous goal without a prompt.
    #[must_use]
    pub fn next_message(&self) -> Option<String> {
        self.0.state().machine.next_message()
    }

    /// Takes the run with which an autonomous goal continues after a failed one. A conversation with a
    /// [`MessageDelivery`](zk_core::service::MessageDelivery) begins that run by itself.
    #[must_use]
    pub fn take_retry(&self) -> Option<GoalRetry> {
        self.0.state().retry.take()
    }
}

impl Plugin for Goals {
    fn name(&self) -> &'static str {
        SOURCE
    }

    fn register(&self, scope: &Scope) -> Result<(), BoxError> {
        self.0.state().scope = Some(scope.clone());
        handlers::register(&self.0, scope)?;
        command::register(&self.0, scope)?;
        scope.provide_service(Arc::new(self.clone()));
        let closing = self.0.clone();
        scope.on_close(async move || {
            let mut state = closing.state();
            (state.scope, state.run) = (None, None);
        });
        Ok(())
    }
}
