//! Questions to the person, and the only way to answer them.

mod card;
mod diff_text;
mod hunk;
mod question;
mod visible;

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::{Either, select};
use serde::{Deserialize, Serialize};
use tokio::sync::{oneshot, watch};

pub use card::{ApprovalCard, AskedKind, CardChoice, CardPart, PartKind, WORDS_KEY};
pub use hunk::HunkHead;
pub use question::{
    Answer, Approval, Question, Section, SectionKind, Selection, TrustRequest, Wider, WiderKind,
};
pub use visible::{
    MAX_MARKS, is_combining_mark, text_of_visible_lines, visible_diff, visible_line, visible_lines,
};

use crate::kernel::{Cx, Origin};

/// Questions of a tree of agents to the person: `cx.service::<Questions>()`.
///
/// This service manages the questions' ids, deadlines and digests. A front-end [attaches](Questions::attach),
/// shows pending questions and passes on answers; an answer counts only with the digest of the question as it
/// was shown. Without a front-end no question is asked, and the answer is [`Answer::Absent`].
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// use std::time::Duration;
/// use zk_core::kernel::Bus;
/// use zk_core::service::{Question, Questions, UiAnswer};
///
/// let questions = Questions::new();
/// let front_end = questions.attach();
/// let cx = Bus::new().cx();
/// let ask = questions.ask(Question::Confirm { text: "Go on?".into() }, &cx, Duration::from_secs(60));
/// let answer = async {
///     let asked = front_end.next().await;
///     front_end.answer(asked.id, asked.digest, UiAnswer::Once).unwrap();
/// };
/// let (answered, ()) = tokio::join!(ask, answer);
/// assert_eq!(answered, UiAnswer::Once);
/// # });
/// ```
#[derive(Clone, Debug)]
pub struct Questions {
    shared: Arc<Shared>,
}

/// Id of a question, unique within its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct QuestionId(u64);

/// Digest of a question's content, which proves what a front-end showed. In JSON it is a text of 16 hexadecimal digits:
/// numbers of that size lose digits in many languages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(into = "String", try_from = "String")]
#[cfg_attr(feature = "schema", schemars(with = "String"))]
pub struct QuestionDigest(u64);

impl From<QuestionDigest> for String {
    fn from(digest: QuestionDigest) -> Self {
        format!("{:016x}", digest.0)
    }
}

impl TryFrom<String> for QuestionDigest {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let is_one = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let digest = u64::from_str_radix(&text, 16).ok().filter(|_| is_one);
        digest.map(Self).ok_or_else(|| format!("a digest has 16 hexadecimal digits, unlike `{text}`"))
    }
}

/// A question that waits for an answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PendingQuestion {
    /// Unique id of the question in its process.
    pub id: QuestionId,
    /// Digest of the question's content.
    pub digest: QuestionDigest,
    /// Agent that asks.
    pub origin: Origin,
    /// The question itself.
    pub question: Question,
    /// Time at which the question expires.
    #[serde(skip)]
    pub deadline: Option<Instant>,
}

/// Reason for which an answer is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// The question was answered, withdrawn or has expired.
    #[error("this question is not pending any more")]
    NotPending,
    /// The answer is for a different content of the question.
    #[error("this answer is to another question than the one that is pending; draw it again")]
    WrongDigest,
    /// The answer is not among the choices of the question.
    #[error("this is none of the answers the question offers")]
    NotOffered,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Version counter, increased with each change of the pending questions or of the attached front-ends.
    changes: watch::Sender<u64>,
    digests: RandomState,
}

#[derive(Debug, Default)]
struct State {
    front_ends: usize,
    last_id: u64,
    pending: Vec<Arc<PendingQuestion>>,
    answers: HashMap<QuestionId, oneshot::Sender<Answer>>,
}

impl Default for Questions {
    fn default() -> Self {
        Self::new()
    }
}

impl Questions {
    /// Creates the service without questions and front-ends.
    #[must_use]
    pub fn new() -> Self {
        let (changes, _) = watch::channel(0);
        let shared = Shared { state: Mutex::default(), changes, digests: RandomState::new() };
        Self { shared: Arc::new(shared) }
    }

    /// Whether a front-end is attached.
    #[must_use]
    pub fn is_attended(&self) -> bool {
        self.shared.state().front_ends > 0
    }

    /// Returns the pending questions, oldest first. Answers need a front-end.
    #[must_use]
    pub fn pending(&self) -> Vec<Arc<PendingQuestion>> {
        self.shared.state().pending.clone()
    }

    /// Subscribes to changes of the pending questions, without being a front-end: the value only counts changes.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
    /// use std::time::Duration;
    /// use zk_core::kernel::Bus;
    /// use zk_core::service::{Question, Questions};
    ///
    /// let questions = Questions::new();
    /// let _front_end = questions.attach();
    /// let mut changes = questions.subscribe();
    /// let cx = Bus::new().cx();
    /// let ask = questions.ask(Question::Confirm { text: "Go on?".into() }, &cx, Duration::from_secs(60));
    /// tokio::select! {
    ///     _ = ask => unreachable!("nobody answers"),
    ///     changed = changes.changed() => changed.unwrap(),
    /// }
    /// # });
    /// ```
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.shared.changes.subscribe()
    }

    /// Attaches a front-end that shows questions and answers them, until it is dropped.
    #[must_use]
    pub fn attach(&self) -> FrontEnd {
        self.shared.state().front_ends += 1;
        self.shared.count_change();
        FrontEnd { shared: self.shared.clone(), changes: self.shared.changes.subscribe() }
    }

    /// Asks a question and waits for the answer, for at most `patience` and no longer than the run of `cx`.
    /// Dropping the future withdraws the question.
    pub async fn ask(&self, question: Question, cx: &Cx, patience: Duration) -> Answer {
        let Some((id, answer)) = self.shared.add_question(question, cx.origin().clone(), patience) else {
            return Answer::Absent;
        };
        let _withdraw = Withdraw { shared: &self.shared, id };
        let answer = pin!(tokio::time::timeout(patience, answer));
        match select(pin!(cx.stop_token().cancelled()), answer).await {
            Either::Right((Ok(Ok(answer)), _)) => answer,
            Either::Left(_) | Either::Right((Ok(Err(_)) | Err(_), _)) => Answer::Absent,
        }
    }
}

/// Guard that withdraws a question when its caller stops waiting.
struct Withdraw<'a> {
    shared: &'a Shared,
    id: QuestionId,
}

impl Drop for Withdraw<'_> {
    fn drop(&mut self) {
        if self.shared.remove_question(self.id).is_some() {
            self.shared.count_change();
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count_change(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    fn add_question(
        &self,
        question: Question,
        origin: Origin,
        patience: Duration,
    ) -> Option<(QuestionId, oneshot::Receiver<Answer>)> {
        let (sender, answer) = oneshot::channel();
        let id = {
            let mut state = self.state();
            if state.front_ends == 0 {
                return None;
            }
            state.last_id += 1;
            let id = QuestionId(state.last_id);
            // A question that cannot be serialised could not be shown either.
            let text = serde_json::to_string(&(id, &origin, &question)).ok()?;
            let digest = QuestionDigest(self.digests.hash_one(text));
            let deadline = Instant::now().checked_add(patience);
            state.pending.push(Arc::new(PendingQuestion { id, digest, origin, question, deadline }));
            state.answers.insert(id, sender);
            id
        };
        self.count_change();
        Some((id, answer))
    }

    fn remove_question(&self, id: QuestionId) -> Option<oneshot::Sender<Answer>> {
        let mut state = self.state();
        state.pending.retain(|pending| pending.id != id);
        state.answers.remove(&id)
    }
}

/// A front-end that shows questions and passes on a person's answers. When the last one is dropped, all
/// questions expire.
#[derive(Debug)]
pub struct FrontEnd {
    shared: Arc<Shared>,
    changes: watch::Receiver<u64>,
}

impl FrontEnd {
    /// Returns the pending questions, oldest first.
    #[must_use]
    pub fn pending(&self) -> Vec<Arc<PendingQuestion>> {
        self.shared.state().pending.clone()
    }

    /// Returns the oldest pending question; waits for one if there is none.
    pub async fn next(&self) -> Arc<PendingQuestion> {
        let mut changes = self.changes.clone();
        loop {
            if let Some(first) = self.shared.state().pending.first() {
                return first.clone();
            }
            if changes.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Waits until the pending questions change after the last call.
    pub async fn changed(&mut self) {
        if self.changes.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Passes on the person's answer to a question as it was shown.
    ///
    /// # Errors
    /// [`AnswerError`] when the answer is rejected; the question stays pending.
    pub fn answer(&self, id: QuestionId, digest: QuestionDigest, answer: Answer) -> Result<(), AnswerError> {
        let sender = {
            let mut state = self.shared.state();
            let at = state.pending.iter().position(|pending| pending.id == id);
            let Some(pending) = at.and_then(|at| state.pending.get(at)) else {
                return Err(AnswerError::NotPending);
            };
            if pending.digest != digest {
                return Err(AnswerError::WrongDigest);
            }
            if !pending.question.allows(&answer) {
                return Err(AnswerError::NotOffered);
            }
            state.pending.retain(|pending| pending.id != id);
            state.answers.remove(&id)
        };
        self.shared.count_change();
        sender.and_then(|sender| sender.send(answer).ok()).ok_or(AnswerError::NotPending)
    }
}

impl Drop for FrontEnd {
    fn drop(&mut self) {
        {
            let mut state = self.shared.state();
            state.front_ends = state.front_ends.saturating_sub(1);
            if state.front_ends == 0 {
                state.pending.clear();
                // Callers whose sender is dropped return [`Answer::Absent`].
                state.answers.clear();
            }
        }
        self.shared.count_change();
    }
}
