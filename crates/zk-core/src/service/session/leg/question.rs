use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::StoredWait;
use crate::model::{CallId, CallRef, EntryId, RunId, TurnId};
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
/// use zk_core::model::CallRef;
/// use zk_core::service::{Approval, Leg, LegAnswer, Question, StoredQuestion, UiAnswer};
///
/// let asked = StoredQuestion {
///     run_id: "r_1".into(),
///     turn_id: "t_1".into(),
///     call_id: "call_0".into(),
///     tool: "shell".to_owned(),
///     reason: "nobody is here".to_owned(),
///     digest: "9f86d081".to_owned(),
///     question: Question::Approve(Box::new(Approval::default())),
/// };
/// let answer = LegAnswer { question: "e_1".into(), answer: UiAnswer::Once };
/// let leg = Leg::new(vec![("e_1".into(), asked)], vec![answer]);
/// let call = |turn: &str| CallRef {
///     turn_id: turn.into(),
///     call_id: "call_0".into(),
///     name: "shell".to_owned(),
///     display_name: "shell".to_owned(),
/// };
/// assert_eq!(leg.answer(&call("t_1"), "9f86d081", true), Some(UiAnswer::Once));
/// // Other bytes are another question, and so is an equal call of another turn.
/// assert_eq!(leg.answer(&call("t_1"), "e3b0c442", true), None);
/// assert_eq!(leg.answer(&call("t_2"), "9f86d081", true), None);
/// ```
#[derive(Debug, Default)]
pub struct Leg {
    questions: Mutex<Vec<(EntryId, StoredQuestion)>>,
    answers: Mutex<Vec<LegAnswer>>,
    waits: Vec<StoredWait>,
    goes_on: AtomicBool,
}

impl Leg {
    /// Creates the leg of a run with the questions and answers that its session holds.
    #[must_use]
    pub fn new(questions: Vec<(EntryId, StoredQuestion)>, answers: Vec<LegAnswer>) -> Self {
        let (questions, answers) = (Mutex::new(questions), Mutex::new(answers));
        Self { questions, answers, waits: Vec::new(), goes_on: AtomicBool::new(false) }
    }

    /// Adds the waits for a time that the session of the run holds.
    #[must_use]
    pub fn with_waits(self, waits: Vec<StoredWait>) -> Self {
        Self { waits, ..self }
    }

    /// Returns the time until which an earlier leg parked a call, also when it is over.
    #[must_use]
    pub fn waits_until(&self, call: &CallRef) -> Option<SystemTime> {
        self.waits.iter().rev().find(|wait| wait.is_of(call)).map(|wait| wait.until)
    }

    /// Whether an earlier leg parked a call at a question that has no answer.
    #[must_use]
    pub fn is_unanswered(&self, call: &CallRef) -> bool {
        let (questions, answers) = (lock(&self.questions), lock(&self.answers));
        let last = questions.iter().rev().find(|(_, asked)| asked.is_of(call));
        last.is_some_and(|(entry, _)| answers.iter().all(|answer| answer.question != *entry))
    }

    /// Returns the entry of the question that was stored about the call with this digest.
    #[must_use]
    pub fn asked(&self, call: &CallRef, digest: &str) -> Option<EntryId> {
        let questions = lock(&self.questions);
        let found = questions.iter().rev().find(|(_, asked)| asked.is_about(call, digest));
        found.map(|(entry, _)| entry.clone())
    }

    /// Returns the answer to the question about the call with this digest. With `or_lasting`, an answer that
    /// holds for all equal calls of the run counts too; without it, such an answer is ignored.
    #[must_use]
    pub fn answer(&self, call: &CallRef, digest: &str, or_lasting: bool) -> Option<UiAnswer> {
        let (questions, answers) = (lock(&self.questions), lock(&self.answers));
        let question = |answer: &LegAnswer| questions.iter().find(|(entry, _)| *entry == answer.question);
        let pair = |answer| Some((question(answer).map(|(_, asked)| asked)?, answer));
        let counts = |(asked, answer): &(&StoredQuestion, &LegAnswer)| {
            asked.digest == digest && (or_lasting || !answer.is_lasting())
        };
        let mut same = answers.iter().rev().filter_map(pair).filter(counts);
        let own = same.clone().find(|(asked, _)| asked.is_about(call, digest));
        own.or_else(|| same.find(|(_, answer)| answer.is_lasting())).map(|(_, answer)| answer.answer.clone())
    }

    /// Adds an answer that arrived during the leg, and returns it for the session; `None` if no such question was asked, or
    /// if it does not offer the answer.
    #[must_use]
    pub fn add_answer(&self, entry: &EntryId, answer: UiAnswer) -> Option<LegAnswer> {
        let is_offered =
            lock(&self.questions).iter().find(|(asked, _)| asked == entry)?.1.question.allows(&answer);
        if !is_offered {
            return None;
        }
        let answer = LegAnswer { question: entry.clone(), answer };
        lock(&self.answers).push(answer.clone());
        Some(answer)
    }

    /// Whether the run continues in another leg, so that its end is not stored.
    #[must_use]
    pub fn goes_on(&self) -> bool {
        self.goes_on.load(Ordering::Acquire)
    }

    /// Marks the run as continuing in another leg.
    pub fn end_with_more(&self) {
        self.goes_on.store(true, Ordering::Release);
    }
}

fn lock<T>(list: &Mutex<T>) -> MutexGuard<'_, T> {
    list.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Marker of a run inside of a call of a leg: `cx.service::<WithinLeg>()`. Its turns are not stored, so that it cannot be
/// parked: a question of its calls is refused when nobody is here.
#[derive(Clone, Copy, Debug, Default)]
pub struct WithinLeg;

/// Question about a parked call.
#[derive(Clone, Debug, PartialEq)]
pub struct ParkedQuestion {
    /// Digest of everything that the answer is about: the exact call, and what it runs.
    pub digest: String,
    /// The question to a person.
    pub question: Question,
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

impl StoredQuestion {
    /// Whether the question is about the call with this digest in its turn. Providers repeat the ids of calls
    /// in later turns.
    fn is_about(&self, call: &CallRef, digest: &str) -> bool {
        self.is_of(call) && self.digest == digest
    }

    fn is_of(&self, call: &CallRef) -> bool {
        self.turn_id == call.turn_id && self.call_id == call.call_id
    }
}

/// Answer of a person to a [`StoredQuestion`], in the session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LegAnswer {
    /// Entry of the question.
    pub question: EntryId,
    /// Answer of the person.
    pub answer: UiAnswer,
}

impl LegAnswer {
    /// Whether the answer holds for all equal calls of the run.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn question_in(turn: &str) -> StoredQuestion {
        StoredQuestion {
            run_id: "r_1".into(),
            turn_id: turn.into(),
            call_id: "call_0".into(),
            tool: "shell".to_owned(),
            reason: String::new(),
            digest: "d".to_owned(),
            question: Question::Approve(Box::default()),
        }
    }

    fn call(turn: &str) -> CallRef {
        let (turn_id, call_id) = (turn.into(), "call_0".into());
        CallRef { turn_id, call_id, name: "shell".to_owned(), display_name: "shell".to_owned() }
    }

    fn leg_with_answer(answer: UiAnswer) -> Leg {
        Leg::new(vec![("e_1".into(), question_in("t_1"))], vec![LegAnswer { question: "e_1".into(), answer }])
    }

    #[test]
    fn once_allows_one_call_even_if_a_later_turn_repeats_its_id() {
        for answer in [UiAnswer::Once, UiAnswer::No { message: None }] {
            let leg = leg_with_answer(answer.clone());
            assert_eq!(leg.answer(&call("t_1"), "d", false), Some(answer.clone()));
            assert_eq!(leg.answer(&call("t_1"), "d", true), Some(answer));
            assert_eq!(leg.answer(&call("t_2"), "d", true), None);
            assert_eq!(
                (leg.asked(&call("t_1"), "d"), leg.asked(&call("t_2"), "d")),
                (Some("e_1".into()), None)
            );
        }
    }

    #[test]
    fn lasting_answers_hold_for_equal_calls_but_not_where_each_call_is_asked_about() {
        for answer in [UiAnswer::Session, UiAnswer::Always] {
            let leg = leg_with_answer(answer.clone());
            assert_eq!(leg.answer(&call("t_1"), "d", true), Some(answer.clone()));
            assert_eq!(leg.answer(&call("t_2"), "d", true), Some(answer));
            assert_eq!(leg.answer(&call("t_2"), "e", true), None);
            assert_eq!(leg.answer(&call("t_1"), "d", false), None);
        }
    }
}
