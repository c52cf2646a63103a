//! State of a run that outlives its worker, rebuilt from the log of its session.

use zk_core::model::{EntryId, RunId, SessionId};
use zk_core::service::{
    ANSWER_ENTRY, CustomEntry, Entry, EntryKind, LegAnswer, LiveEntries, Mail, MailKind, OpenTurn,
    QUESTION_ENTRY, RunBudget, SessionStore, StoreError, StoredCall, StoredCallState, StoredQuestion,
    StoredWait, UiAnswer, UnfinishedRun, WAIT_ENTRY, spent_in,
};

use super::loaded::Loaded;
use super::open_turn::{CallState, InterruptedTurn};

/// Reason for which the answer to a question of a parked run is not taken.
#[derive(Debug, thiserror::Error)]
pub enum AnswerRefused {
    /// The session has no such question.
    #[error("session `{session}` has no question `{question}`; `open_questions` lists those that wait")]
    Unknown {
        /// Id of the session.
        session: SessionId,
        /// Entry that was named.
        question: EntryId,
    },
    /// The question has an answer.
    #[error("question `{question}` was answered already; the first answer counts")]
    Answered {
        /// Entry of the question.
        question: EntryId,
    },
    /// The answer is none of the question's choices.
    #[error("that is no answer that question `{question}` offers; it offers {offered}")]
    NotOffered {
        /// Entry of the question.
        question: EntryId,
        /// Description of the answers that the question offers.
        offered: String,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Returns the questions in `entries` that have no answer yet, with their entries, oldest first.
///
/// ```
/// assert!(zk_session::open_questions(&[]).is_empty());
/// ```
#[must_use]
pub fn open_questions(entries: &[Entry]) -> Vec<(EntryId, StoredQuestion)> {
    let mut open = questions(entries);
    let answers = valid_answers(entries, &open);
    open.retain(|(entry, _)| answers.iter().all(|answer| answer.question != *entry));
    open
}

/// Answers a question on which a run of the session is parked, whichever process will take the answer: it is posted as mail.
/// The engine wakes the run then.
///
/// ```no_run
/// # async fn approve(store: &dyn zk_core::service::SessionStore) -> Result<(), zk_session::AnswerRefused> {
/// use zk_core::service::UiAnswer;
///
/// let session = "s_1".into();
/// for (entry, question) in zk_session::open_questions(&store.read(&session).await?.entries) {
///     println!("{} {}", question.tool, question.reason);
///     zk_session::answer_question(store, &session, &entry, UiAnswer::Once).await?;
/// }
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`AnswerRefused`]: also when the question was answered before, even if no run has taken the answer yet.
pub async fn answer_question(
    store: &dyn SessionStore,
    session: &SessionId,
    question: &EntryId,
    answer: UiAnswer,
) -> Result<(), AnswerRefused> {
    let entries = store.read_live(session).await?.entries;
    let questions = questions(&entries);
    let Some((_, asked)) = questions.iter().find(|(entry, _)| entry == question) else {
        return Err(AnswerRefused::Unknown { session: session.clone(), question: question.clone() });
    };
    if valid_answers(&entries, &questions).iter().any(|answer| answer.question == *question) {
        return Err(AnswerRefused::Answered { question: question.clone() });
    }
    if answer == UiAnswer::Absent || !asked.question.allows(&answer) {
        let offered = asked.question.describe_answers();
        return Err(AnswerRefused::NotOffered { question: question.clone(), offered });
    }
    let mail = Mail::new(MailKind::Answer { question: question.clone(), answer });
    match store.post_mail(session, &mail).await {
        Err(StoreError::PostedBefore { .. }) => Err(AnswerRefused::Answered { question: question.clone() }),
        posted => Ok(posted?),
    }
}

/// Returns the progress of `run` in the log, and removes its open turn from `loaded`: the answer and its results join
/// the conversation once the turn is settled. `None` if the session continues with another run.
pub(crate) fn take_unfinished(run: &RunId, live: &LiveEntries, loaded: &mut Loaded) -> Option<UnfinishedRun> {
    let entries = live.entries.as_slice();
    // A run that went on with late mail has another start after its end.
    let last = entries.iter().rev().find_map(|entry| match &entry.kind {
        EntryKind::RunStart { run_id } if run_id == run => Some(None),
        EntryKind::RunEnd { run_id, status } if run_id == run => Some(Some(*status)),
        _ => None,
    });
    let ended = last.flatten();
    if loaded.unfinished.as_ref() != Some(run) && ended.is_none() {
        return None;
    }
    let open_turn = loaded.interrupted.take_if(|_| ended.is_none());
    if open_turn.is_some() {
        loaded.messages.truncate(loaded.messages.len().saturating_sub(2));
    }
    let is_start = |entry: &Entry| matches!(&entry.kind, EntryKind::RunStart { run_id } if run_id == run);
    let begin = entries.iter().position(is_start).unwrap_or_default();
    let answered = |entry: &&Entry| matches!(&entry.kind, EntryKind::Message { usage: Some(_), .. });
    let turns = entries.iter().skip(begin).filter(answered).count() + usize::from(open_turn.is_some());
    let mut budget = RunBudget::last_of(run, entries).unwrap_or_default();
    // If the start of the run was left out, the sum of all that was left out counts as its own.
    let first =
        if entries.get(begin).is_some_and(|start| start.id.as_str() == LiveEntries::SUM) { 0 } else { begin };
    budget.spent = spent_in(entries.get(first..).unwrap_or_default());
    // Questions of other runs, such as those of an imported session, approve nothing in this one.
    let mut questions = questions(entries);
    questions.retain(|(_, asked)| asked.run_id == *run);
    Some(UnfinishedRun {
        run_id: run.clone(),
        turns: u32::try_from(turns).unwrap_or(u32::MAX),
        ended,
        open_turn: open_turn.as_ref().map(stored_turn),
        answers: valid_answers(entries, &questions),
        budget,
        questions,
        waits: waits(run, entries),
    })
}

fn stored_turn(turn: &InterruptedTurn) -> OpenTurn {
    let results = turn.results.results();
    let call = |(call, told): (&super::InterruptedCall, &zk_core::model::ToolResult)| StoredCall {
        call_id: call.call_id.clone(),
        name: call.name.clone(),
        args: call.args.clone(),
        state: match &call.state {
            CallState::Ended { result, .. } => StoredCallState::Ended(result.clone()),
            CallState::OutcomeUnknown => StoredCallState::Unknown(told.clone()),
            CallState::NotRun => StoredCallState::NotBegun,
        },
    };
    OpenTurn {
        turn_id: turn.turn_id.clone(),
        message: turn.message.clone(),
        usage: turn.usage.clone(),
        calls: turn.calls.iter().zip(results).map(call).collect(),
    }
}

fn questions(entries: &[Entry]) -> Vec<(EntryId, StoredQuestion)> {
    let read =
        |entry: &Entry| Some((entry.id.clone(), agent_entry(entry, QUESTION_ENTRY)?.data.read().ok()?));
    entries.iter().filter_map(read).collect()
}

/// Waits of a run for a time.
fn waits(run: &RunId, entries: &[Entry]) -> Vec<StoredWait> {
    let read = |entry: &Entry| -> Option<StoredWait> { agent_entry(entry, WAIT_ENTRY)?.data.read().ok() };
    entries.iter().filter_map(read).filter(|wait| wait.run_id == *run).collect()
}

/// Stored answers to `questions` that are among the choices of their question.
fn valid_answers(entries: &[Entry], questions: &[(EntryId, StoredQuestion)]) -> Vec<LegAnswer> {
    let read = |entry: &Entry| {
        let given: LegAnswer = agent_entry(entry, ANSWER_ENTRY)?.data.read().ok()?;
        let (_, asked) = questions.iter().find(|(asked, _)| *asked == given.question)?;
        asked.question.allows(&given.answer).then_some(given)
    };
    entries.iter().filter_map(read).collect()
}

/// Entry as a plugin entry of `zk-agent` with this kind, if it is one.
fn agent_entry<'a>(entry: &'a Entry, kind: &str) -> Option<&'a CustomEntry> {
    match &entry.kind {
        EntryKind::Custom(custom) if custom.kind == kind && custom.source == "zk-agent" => Some(custom),
        _ => None,
    }
}
