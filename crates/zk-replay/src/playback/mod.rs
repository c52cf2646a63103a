//! Playing side: recorded answers and results, in the place of models and tools.

mod drive;
mod plugin;
mod provider;
mod tools;

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use serde_json::Value;
use zk_core::model::{CallId, CallRef};
use zk_core::service::{Clock, Questions};

pub use drive::{Replay, ReplayError};
pub use provider::ReplayProvider;
pub use tools::NOT_RECORDED;

use crate::Recording;
use crate::recording::{RecordedCall, RecordedRun, RecordedTurn};

/// Recorded answers and results as a plugin: no tool runs, no model and no person is asked.
///
/// Tools answer with the recorded result of the call with the same id, name and arguments; a call without one gets an error
/// that says so. Questions of a permission gate are answered as in the recording. Steering messages arrive, and a run is stopped,
/// where the recording has it. The clock stands at the beginning of each recorded run.
///
/// [`Replay`] does all of it for a new agent; a host with an agent of its own installs the playback last, gives the agent a
/// [`ReplayProvider`], and calls [`Playback::drive`].
///
/// ```
/// use zk_core::kernel::Bus;
/// use zk_replay::{Playback, Recording};
///
/// let playback = Playback::new(Recording::default());
/// Bus::new().install(&playback).unwrap();
/// ```
#[derive(Clone)]
pub struct Playback {
    inner: Arc<Inner>,
}

struct Inner {
    /// Prompts, results and verdicts.
    recording: Recording,
    /// Answers of the model; `None` for those of the recording.
    answers: Option<Recording>,
    questions: Questions,
    keeps_model: bool,
    /// Whether a person is there to be asked; `None` for what the recording tells.
    is_attended: Option<bool>,
    position: Mutex<Position>,
}

/// Place in the recording.
#[derive(Debug)]
struct Position {
    run: usize,
    /// Number of answers of the run so far.
    turns: usize,
    /// Number of failed requests of the next turn.
    failed: usize,
    /// Indices of the current turn's calls that have their result.
    used: HashSet<usize>,
    /// Indices of the run's side calls that have their answer.
    used_side: HashSet<usize>,
    now: SystemTime,
}

impl fmt::Debug for Playback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Playback").field("runs", &self.inner.recording.runs.len()).finish_non_exhaustive()
    }
}

impl Playback {
    /// Creates a playback of a recording, from its beginning.
    #[must_use]
    pub fn new(recording: Recording) -> Self {
        Self::with_options(recording, None, false, None)
    }

    /// Takes the answers from another recording.
    #[must_use]
    pub fn answered_by(self, answers: Recording) -> Self {
        let inner = &self.inner;
        Self::with_options(inner.recording.clone(), Some(answers), inner.keeps_model, inner.is_attended)
    }

    /// Keeps the model and thinking level of the agent, in the place of the recorded ones.
    #[must_use]
    pub fn keep_model(self) -> Self {
        let inner = &self.inner;
        Self::with_options(inner.recording.clone(), inner.answers.clone(), true, inner.is_attended)
    }

    /// Says whether a person is there to be asked, in the place of [`Recording::had_person`].
    #[must_use]
    pub fn attend(self, is_attended: bool) -> Self {
        let inner = &self.inner;
        Self::with_options(
            inner.recording.clone(),
            inner.answers.clone(),
            inner.keeps_model,
            Some(is_attended),
        )
    }

    /// Whether a person is there to be asked.
    fn is_attended(&self) -> bool {
        self.inner.is_attended.unwrap_or_else(|| self.recording().had_person())
    }

    fn with_options(
        recording: Recording,
        answers: Option<Recording>,
        keeps_model: bool,
        is_attended: Option<bool>,
    ) -> Self {
        let now = recording.runs.first().map_or(SystemTime::UNIX_EPOCH, RecordedRun::time);
        let (used, used_side) = (HashSet::new(), HashSet::new());
        let position = Mutex::new(Position { run: 0, turns: 0, failed: 0, used, used_side, now });
        let questions = Questions::new();
        Self { inner: Arc::new(Inner { recording, answers, questions, keeps_model, is_attended, position }) }
    }

    /// Recording that is played.
    #[must_use]
    pub fn recording(&self) -> &Recording {
        &self.inner.recording
    }

    /// Recording that the answers come from.
    #[must_use]
    pub fn answers(&self) -> &Recording {
        self.inner.answers.as_ref().unwrap_or(&self.inner.recording)
    }

    /// Questions that are answered as in the recording.
    #[must_use]
    pub fn questions(&self) -> &Questions {
        &self.inner.questions
    }

    /// Clock that stands at the beginning of the present run.
    #[must_use]
    pub fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(RecordedClock(self.clone()))
    }

    fn position(&self) -> MutexGuard<'_, Position> {
        self.inner.position.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin_run(&self, index: usize) {
        let now = self.recording().runs.get(index).map_or(SystemTime::UNIX_EPOCH, RecordedRun::time);
        let (used, used_side) = (HashSet::new(), HashSet::new());
        *self.position() = Position { run: index, turns: 0, failed: 0, used, used_side, now };
    }

    /// Present turn of the recording, with its place in the run.
    fn turn(&self) -> Option<(&RecordedRun, usize, &RecordedTurn)> {
        let (run, turns) = {
            let position = self.position();
            (position.run, position.turns)
        };
        let (run, index) = (self.recording().runs.get(run)?, turns.checked_sub(1)?);
        Some((run, index, run.turns.get(index)?))
    }

    /// Recorded call that corresponds to `call`.
    fn recorded_call(&self, call: &CallRef) -> Option<&RecordedCall> {
        self.turn()?.2.calls.iter().find(|known| *known.id() == call.call_id && known.call.name == call.name)
    }

    /// Takes the recorded call with this id, name and arguments; each only once.
    fn take_call(&self, id: &CallId, name: &str, args: &Value) -> Option<(usize, &RecordedCall)> {
        let (_, _, turn) = self.turn()?;
        let mut position = self.position();
        let found = turn.calls.iter().enumerate().find(|(index, known)| {
            !position.used.contains(index)
                && known.id() == id
                && known.call.name == name
                && known.args == *args
        })?;
        position.used.insert(found.0);
        Some(found)
    }
}

struct RecordedClock(Playback);

impl Clock for RecordedClock {
    fn now(&self) -> SystemTime {
        self.0.position().now
    }
}
