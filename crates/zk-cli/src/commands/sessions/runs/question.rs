use zk_core::model::EntryId;
use zk_core::service::{EngineRun, Question, SessionStore, StoredQuestion, Wait, visible_line};
use zk_session::open_questions;

use crate::exit::Outcome;
use crate::sessions::store_failure;

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
    lines.push(format!("zk fleet approve {id}    lets exactly this call run, once"));
    lines.push(format!("zk fleet approve {id} --no    refuses it"));
    Ok(lines)
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
            lines.extend(selection.options.iter().map(|option| format!("  - {}", visible_line(option))));
        }
        Question::Trust(_) => {
            lines.push("  it is about the trust of a project: `zk trust` decides".to_owned())
        }
    }
    lines.push(format!("digest {}", question.digest));
    lines
}
