use zk_core::model::{EntryId, RunId};
use zk_core::service::{
    EngineRun, Question, SessionStore, StoredQuestion, UiAnswer, Wait, call_line, visible_line,
};
use zk_session::open_questions;

use crate::exit::{Failure, Outcome};
use crate::sessions::store_failure;

/// Maximum number of characters of a question in one line.
const MAX_TITLE_CHARS: usize = 160;

/// Returns the question at which a run is parked, with its entry; `None` if the run waits for something else, or its
/// answer is on the way.
pub(super) async fn question_of(
    store: &dyn SessionStore,
    run: &EngineRun,
) -> Outcome<Option<(EntryId, StoredQuestion)>> {
    let Some(Wait::Answer(entry)) = &run.wait else { return Ok(None) };
    let entries = store.read_live(run.job.session()).await.map_err(store_failure)?.entries;
    Ok(open_questions(&entries).into_iter().find(|(open, _)| open == entry))
}

/// Describes the whole question at which a run is parked; empty if there is none.
pub(super) async fn question_lines(store: &dyn SessionStore, run: &EngineRun) -> Outcome<Vec<String>> {
    let Some((_, question)) = question_of(store, run).await? else { return Ok(Vec::new()) };
    let id = run.job.run();
    let mut lines = describe_question(&question);
    match &question.question {
        Question::Approve(approval) => {
            lines.push(format!("zk fleet approve {id}    lets exactly this call run, once"));
            for (option, granted) in [("--for-session", &approval.session), ("--always", &approval.always)] {
                lines.extend(granted.iter().map(|granted| {
                    format!("zk fleet approve {id} {option}    from now on: {}", visible_line(granted))
                }));
            }
            lines.push(format!("zk fleet approve {id} --no    refuses it"));
        }
        Question::Confirm { .. } | Question::Trust(_) => {
            lines.push(format!("zk fleet approve {id}    says yes"));
            lines.push(format!("zk fleet approve {id} --no    says no"));
        }
        Question::Select(_) | Question::Input { .. } => {
            let offered = question.question.describe_answers();
            lines.push(format!("zk fleet answer {id} ANSWER    answers it: {offered}"));
        }
    }
    Ok(lines)
}

/// Returns the words of a question in one line, and the command that answers it.
pub(super) fn question_title(question: &StoredQuestion, run: &RunId) -> (String, String) {
    let (text, command) = match &question.question {
        Question::Approve(approval) => (call_line(&approval.tool, &approval.args), "approve"),
        Question::Confirm { text } => (text.clone(), "approve"),
        Question::Trust(request) => (request.text.clone(), "approve"),
        Question::Select(selection) => (selection.text.clone(), "answer"),
        Question::Input { text } => (text.clone(), "answer"),
    };
    let mut text = visible_line(&text);
    if let Some((cut, _)) = text.char_indices().nth(MAX_TITLE_CHARS) {
        text.truncate(cut);
        text.push('…');
    }
    let answer = if command == "answer" { " ANSWER" } else { "" };
    (text, format!("zk fleet {command} {run}{answer}"))
}

/// Reads a typed answer to a question that is no permission; a permission can only be refused.
pub(super) fn read_answer(question: &Question, typed: &str, run: &RunId) -> Outcome<UiAnswer> {
    let typed = typed.trim();
    if typed.eq_ignore_ascii_case("no") {
        return Ok(UiAnswer::No { message: None });
    }
    let text = || UiAnswer::Text { text: typed.to_owned() };
    let answer = match question {
        Question::Approve(_) | Question::Confirm { .. } | Question::Trust(_) => {
            return Err(Failure::usage(format!(
                "a permission can be refused from here with `no`; `zk fleet approve {run}` shows the call and gives it"
            )));
        }
        Question::Select(selection) => {
            let options = 1..=selection.options.len();
            let number = typed.parse::<usize>().ok().filter(|number| options.contains(number));
            number.map_or_else(text, |number| UiAnswer::Choice { index: number - 1 })
        }
        Question::Input { .. } => text(),
    };
    if typed.is_empty() || !question.allows(&answer) {
        let offered = question.describe_answers();
        return Err(Failure::usage(format!("the question of {run} offers {offered}")));
    }
    Ok(answer)
}

/// Describes a whole question, with each invisible character made visible.
pub(super) fn describe_question(question: &StoredQuestion) -> Vec<String> {
    let mut lines =
        vec![format!("`{}` waits: {}", visible_line(&question.tool), visible_line(&question.reason))];
    match &question.question {
        Question::Approve(approval) => {
            for section in approval.sections() {
                lines.push(format!("  {}:", visible_line(&section.heading)));
                lines.extend(section.lines.iter().map(|line| format!("  | {line}")));
            }
            lines.extend(approval.reasons.iter().map(|reason| format!("  because {}", visible_line(reason))));
        }
        Question::Confirm { text } | Question::Input { text } => {
            lines.push(format!("  {}", visible_line(text)))
        }
        Question::Select(selection) => {
            lines.push(format!("  {}", visible_line(&selection.text)));
            for (index, option) in selection.options.iter().enumerate() {
                let described = selection.descriptions.get(index).filter(|text| !text.is_empty());
                let described =
                    described.map(|text| format!("  ({})", visible_line(text))).unwrap_or_default();
                lines.push(format!("  {}. {}{described}", index + 1, visible_line(option)));
            }
        }
        Question::Trust(_) => {
            lines.push("  it is about the trust of a project: `zk trust` decides".to_owned())
        }
    }
    lines.push(format!("digest {}", question.digest));
    lines
}
