use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use crate::model::{CallId, EntryId, RunId, TurnId};
use crate::service::{Question, UiAnswer};

/// Kind of the plugin entry that holds a [`StoredQuestion`].
pub const QUESTION_ENTRY: &str = "question";

/// Kind of the plugin entry that holds a [`LegAnswer`].
pub const ANSWER_ENTRY: &str = "answer";

/// Stretch of a run on one worker: `cx.service::<Leg>()`, only in a run that outlives its worker.
///
/// A gate that has nobody to ask parks a call of such a run ([`Ruling::Park`](crate::events::Ruling::Park)). The leg ends then
/// with the question in the log, and a later leg asks the gates again, with the answer here.
///
/// ```
/// use zk_core::service::{Leg, LegAnswer, UiAnswer};
///
/// let answer = LegAnswer {
///     question: "e_1".into(),
///     call_id: "call_1".into(),
///     digest: "9f86d081".into(),
///     answer: UiAnswer::Once,
/// };
/// let leg = Leg::new(Vec::new(), vec![answer]);
/// assert_eq!(leg.answer(&"call_1".into(), "9f86d081"), Some(UiAnswer::Once));
/// // Other bytes are another question.
/// assert_eq!(leg.answer(&"call_1".into(), "e3b0c442"), None);
/// ```
#[derive(Debug, Default)]
pub struct Leg {
    questions: Mutex<Vec<(EntryId, StoredQuestion)>>,
    answers: Mutex<Vec<LegAnswer>>,
    goes_on: AtomicBool,
}

impl Leg {
    /// Creates the leg of a run with the questions and answers that its session holds.
    #[must_use]
    pub fn new(questions: Vec<(EntryId, StoredQuestion)>, answers: Vec<LegAnswer>) -> Self {
        let (questions, answers) = (Mutex::new(questions), Mutex::new(answers));
        Self { questions, answers, goes_on: AtomicBool::new(false) }
    }

    /// Returns the entry of the question that was stored about a call with these bytes.
    #[must_use]
    pub fn asked(&self, call: &CallId, digest: &str) -> Option<EntryId> {
        let questions = lock(&self.questions);
        let is_same =
            |asked: &&(EntryId, StoredQuestion)| asked.1.call_id == *call && asked.1.digest == digest;
        questions.iter().rev().find(is_same).map(|(entry, _)| entry.clone())
    }

    /// Returns the answer to the question about a call with these bytes: the one to this call, or an earlier one that holds
    /// for all equal calls.
    #[must_use]
    pub fn answer(&self, call: &CallId, digest: &str) -> Option<UiAnswer> {
        let answers = lock(&self.answers);
        let mut same = answers.iter().rev().filter(|answer| answer.digest == digest);
        let own = same.clone().find(|answer| answer.call_id == *call);
        own.or_else(|| same.find(|answer| answer.is_lasting())).map(|answer| answer.answer.clone())
    }

    /// Adds an answer that arrived during the leg, and returns it for the session; `None` if no such question was asked, or
    /// if it does not offer the answer.
    #[must_use]
    pub fn add_answer(&self, entry: &EntryId, answer: UiAnswer) -> Option<LegAnswer> {
        let question = lock(&self.questions).iter().find(|(asked, _)| asked == entry)?.1.clone();
        let StoredQuestion { call_id, digest, question, .. } = question;
        if !question.allows(&answer) {
            return None;
        }
        let answer = LegAnswer { question: entry.clone(), call_id, digest, answer };
        lock(&self.answers).push(answer.clone());
        Some(answer)
    }

    /// Whether the run goes on in another leg, so that its end is not stored.
    #[must_use]
    pub fn goes_on(&self) -> bool {
        self.goes_on.load(Ordering::Acquire)
    }

    /// Marks the run as one that goes on in another leg.
    pub fn end_with_more(&self) {
        self.goes_on.store(true, Ordering::Release);
    }
}

fn lock<T>(list: &Mutex<T>) -> MutexGuard<'_, T> {
    list.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reason for which a gate parks a call, with the question that would let it through.
#[derive(Clone, Debug, PartialEq)]
pub struct ParkedCall {
    /// Reason for the wait.
    pub reason: String,
    /// The question; without one no answer can be given, and the run ends.
    pub question: Option<Box<ParkedQuestion>>,
}

/// Question about a parked call.
#[derive(Clone, Debug, PartialEq)]
pub struct ParkedQuestion {
    /// Digest of everything that the answer is about: the exact call, and what it runs.
    pub digest: String,
    /// The question to a person.
    pub question: Question,
}

impl From<String> for ParkedCall {
    fn from(reason: String) -> Self {
        Self { reason, question: None }
    }
}

impl From<&str> for ParkedCall {
    fn from(reason: &str) -> Self {
        reason.to_owned().into()
    }
}

/// Question of a parked run in its session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoredQuestion {
    /// Run that waits.
    pub run_id: RunId,
    /// Turn of the call.
    pub turn_id: TurnId,
    /// Id of the call.
    pub call_id: CallId,
    /// Canonical name of the tool.
    pub tool: String,
    /// Reason for the wait.
    pub reason: String,
    /// Digest of everything that the answer is about.
    pub digest: String,
    /// The question to a person.
    pub question: Question,
}

/// Answer to a [`StoredQuestion`] in the session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LegAnswer {
    /// Entry of the question.
    pub question: EntryId,
    /// Call that the question is about.
    pub call_id: CallId,
    /// Digest of everything that the answer is about.
    pub digest: String,
    /// The answer.
    pub answer: UiAnswer,
}

impl LegAnswer {
    /// Whether the answer holds for all equal calls of the session.
    fn is_lasting(&self) -> bool {
        match self.answer {
            UiAnswer::Session | UiAnswer::Always => true,
            UiAnswer::Once
            | UiAnswer::WiderSession
            | UiAnswer::WiderAlways
            | UiAnswer::MoreSession { .. }
            | UiAnswer::MoreAlways { .. }
            | UiAnswer::Contained
            | UiAnswer::No { .. }
            | UiAnswer::Choice { .. }
            | UiAnswer::Text { .. }
            | UiAnswer::Absent => false,
        }
    }
}
