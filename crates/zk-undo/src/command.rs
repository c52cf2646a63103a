use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use zk_core::kernel::{BoxError, Cx};
use zk_core::model::Display;
use zk_core::service::{
    ArgumentChoice, Command, CommandOutcome, Questions, Selection, TurnCwd, UiAnswer, visible_line,
};

use crate::plugin::{Shared, named_steps, step_entries_of_branch};
use crate::{Journal, Outcome, Plan, TurnSummary, UndoError};

/// Time limit of the person's answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(60 * 60);

/// Maximum number of paths of a turn that `/undo list` shows.
const MAX_LISTED_PATHS: usize = 4;

/// Remark on the limits of an undo, under every undo that was carried out.
const LIMITS: &str =
    "the conversation stays where it is (/tree goes back in it); files that git ignores are not covered";

/// The command `/undo`.
#[derive(Debug)]
pub(crate) struct UndoCommand(pub(crate) Arc<Shared>);

/// The command `/redo`.
#[derive(Debug)]
pub(crate) struct RedoCommand(pub(crate) Arc<Shared>);

#[async_trait]
impl Command for UndoCommand {
    fn name(&self) -> &'static str {
        "undo"
    }

    fn help(&self) -> &'static str {
        "take back what the last prompts changed in files, shell commands too: /undo [N | list | here]"
    }

    async fn complete(&self, _: &str, _: &Cx) -> Vec<ArgumentChoice> {
        let turns = self.0.blocking(|journal| journal.turns()).await.unwrap_or_default();
        let active: Vec<&TurnSummary> = turns.iter().rev().filter(|turn| !turn.is_undone).collect();
        let choice = |(at, turn): (usize, &&TurnSummary)| {
            ArgumentChoice::new((at + 1).to_string(), turn.prompt.clone())
        };
        let words = [
            ArgumentChoice::new("list", "prompts that changed files"),
            ArgumentChoice::new("here", "files as at this point of the conversation"),
        ];
        active.iter().enumerate().map(choice).chain(words).collect()
    }

    async fn run(&self, args: &str, cx: &Cx) -> Result<CommandOutcome, BoxError> {
        let (args, is_agreed) = split_yes_flag(args);
        match args {
            "list" => {
                let turns = self.0.blocking(|journal| journal.turns()).await?;
                Ok(CommandOutcome::Show(list_turns(&turns)))
            }
            "here" => {
                let wanted = step_entries_of_branch(&self.0, cx).await?;
                let plan = move |journal: &Journal| journal.plan_move(&named_steps(journal, &wanted)?);
                self.0.ask_and_apply(is_agreed, cx, plan).await
            }
            count => {
                let count = match count {
                    "" => 1,
                    count => count.parse().ok().filter(|count| *count > 0).ok_or_else(|| {
                        let given = visible_line(count);
                        format!("`{given}` is no number of prompts: /undo, /undo 3, /undo list or /undo here")
                    })?,
                };
                self.0.ask_and_apply(is_agreed, cx, move |journal| journal.plan_undo(count)).await
            }
        }
    }
}

#[async_trait]
impl Command for RedoCommand {
    fn name(&self) -> &'static str {
        "redo"
    }

    fn help(&self) -> &'static str {
        "take the last /undo back"
    }

    async fn run(&self, args: &str, cx: &Cx) -> Result<CommandOutcome, BoxError> {
        let (rest, is_agreed) = split_yes_flag(args);
        if !rest.is_empty() {
            return Err("/redo takes the last undo back, one at a time".into());
        }
        self.0.ask_and_apply(is_agreed, cx, Journal::plan_redo).await
    }
}

impl Shared {
    /// Shows the diff of a plan, asks the person unless `is_agreed`, and applies the plan.
    async fn ask_and_apply(
        &self,
        is_agreed: bool,
        cx: &Cx,
        plan: impl FnOnce(&Journal) -> Result<Plan, UndoError> + Send + 'static,
    ) -> Result<CommandOutcome, BoxError> {
        // A plan needs a journal without an undo that was cut off; the person is told of files that this changes.
        let finished = self.blocking(Journal::recover).await?;
        let finished: String = finished.iter().map(|line| format!("{}\n", visible_line(line))).collect();
        let show = |text: String| Ok(CommandOutcome::Show(format!("{finished}{text}")));
        let cwd = TurnCwd::of(cx).unwrap_or_else(|| PathBuf::from("/"));
        let planned = self
            .blocking(move |journal| {
                let plan = plan(journal)?;
                let diff = journal.plan_diff(&plan, &cwd);
                Ok((plan, diff))
            })
            .await;
        let (plan, diff) = match planned {
            Ok(planned) => planned,
            Err(error) => {
                let of_origin = match error.downcast_ref::<UndoError>() {
                    Some(UndoError::NothingToUndo) => changes_of_origin(self, cx).await.unwrap_or_default(),
                    Some(_) | None => String::new(),
                };
                return Err(format!("{finished}{error}{of_origin}").into());
            }
        };
        let mut refusals: Vec<String> = plan.refusals().map(|line| visible_line(&line)).collect();
        if plan.is_empty() {
            refusals.insert(0, format!("{}: no file is to be brought back", plan.title));
            return show(refusals.join("\n"));
        }
        if !is_agreed {
            match ask_person(&plan, &diff, &finished, cx).await {
                Some(true) => {}
                Some(false) => return show("no file was changed".to_owned()),
                None => {
                    let next = "no file was changed: nobody is here to agree; add --yes to do it";
                    return show(format!("{diff}{next}"));
                }
            }
        }
        let outcome = self.blocking(move |journal| journal.apply(&plan)).await?;
        show(report(&outcome))
    }
}

/// Words about changes of files that a copy of a session has from the session that it came from; `None` without any.
async fn changes_of_origin(shared: &Shared, cx: &Cx) -> Option<String> {
    let entries = step_entries_of_branch(shared, cx).await.ok()?;
    let count = entries.len();
    let own = shared.blocking(move |journal| named_steps(journal, &entries)).await.ok()?;
    (count > own.len()).then(|| {
        "; earlier changes in this conversation belong to the session that it was copied from: /resume opens it, and \
         /undo there takes them back"
            .to_owned()
    })
}

/// Outcome of offering files.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FilesOffer {
    /// No file would be brought back.
    Nothing,
    /// Nobody is there to answer.
    Unanswered,
    /// Words about the outcome.
    Told(String),
}

impl Shared {
    /// Offers the person the files of the present point of the conversation, below a `note`, and brings them back if
    /// asked to.
    pub(crate) async fn offer_files(&self, note: &str, cx: &Cx) -> FilesOffer {
        let Ok(wanted) = step_entries_of_branch(self, cx).await else { return FilesOffer::Nothing };
        let cwd = TurnCwd::of(cx).unwrap_or_else(|| PathBuf::from("/"));
        let planned = self.blocking(move |journal| {
            let plan = match journal.plan_move(&named_steps(journal, &wanted)?) {
                Err(UndoError::NothingToUndo) => return Ok(None),
                plan => plan?,
            };
            let diff = journal.plan_diff(&plan, &cwd);
            Ok(Some((plan, diff)).filter(|(plan, _)| !plan.is_empty()))
        });
        let (plan, diff) = match planned.await {
            Ok(Some(planned)) => planned,
            Ok(None) => return FilesOffer::Nothing,
            Err(error) => return FilesOffer::Told(format!("{note}; they stay: {error}")),
        };
        let Some(questions) = cx.service::<Questions>() else { return FilesOffer::Unanswered };
        let text = format!("{note}. Bring the files of this point back?");
        let options = vec!["leave the files as they are".to_owned(), "bring them back".to_owned()];
        let selection = question_about(&plan, &diff, text, options);
        match questions.ask(selection.into(), cx, ANSWER_LIMIT).await {
            UiAnswer::Choice { index: 1 } => {
                let applied = self.blocking(move |journal| journal.apply(&plan)).await;
                FilesOffer::Told(applied.map_or_else(|error| error.to_string(), |outcome| report(&outcome)))
            }
            UiAnswer::Absent => FilesOffer::Unanswered,
            _ => {
                let text = "the files stay as they are; /undo here brings those of this point back";
                FilesOffer::Told(text.to_owned())
            }
        }
    }
}

/// Question about a plan, with its refusals below the text and its diff as preview.
fn question_about(plan: &Plan, diff: &str, mut text: String, options: Vec<String>) -> Selection {
    if plan.is_interrupted {
        text.push_str(" zk ended in the middle of a call, so that changes of others may be among these.");
    }
    plan.refusals().for_each(|line| text.push_str(&format!("\n{}", visible_line(&line))));
    let preview = Display::Diff { path: count_paths(plan), diff: diff.to_owned() };
    Selection::new(text, options).about(preview)
}

/// Number of paths that a plan brings back, in words.
fn count_paths(plan: &Plan) -> String {
    let count = plan.items.iter().filter(|item| item.refused.is_none()).count();
    if count == 1 { "1 path".to_owned() } else { format!("{count} paths") }
}

/// Asks the person whether to apply a plan, below lines about what was `finished` before it; `None` if nobody is there.
async fn ask_person(plan: &Plan, diff: &str, finished: &str, cx: &Cx) -> Option<bool> {
    let questions = cx.service::<Questions>()?;
    let text = format!("{finished}{}: bring {} back?", plan.title, count_paths(plan));
    let options = vec!["bring them back".to_owned(), "change nothing".to_owned()];
    let selection = question_about(plan, diff, text, options);
    match questions.ask(selection.into(), cx, ANSWER_LIMIT).await {
        UiAnswer::Choice { index } => Some(index == 0),
        UiAnswer::Absent => None,
        _ => Some(false),
    }
}

/// Lines for the person about an undo that was carried out. Control characters in names are visible.
#[must_use]
pub fn report(outcome: &Outcome) -> String {
    let mut lines: Vec<String> = Vec::new();
    for change in &outcome.changes {
        let verb = if change.after.exists() { "back" } else { "removed" };
        lines.push(visible_line(&format!("{verb}: {}", change.path.display())));
    }
    lines.extend(outcome.refused.iter().map(|line| visible_line(line)));
    if outcome.changes.is_empty() {
        lines.push("no file was changed".to_owned());
    } else {
        lines.push(LIMITS.to_owned());
    }
    lines.join("\n")
}

/// Lines for the person about the prompts that changed files.
fn list_turns(turns: &[TurnSummary]) -> String {
    if turns.is_empty() {
        return "no prompt of this session changed files".to_owned();
    }
    let line = |turn: &TurnSummary| {
        let names: Vec<String> = turn
            .paths
            .iter()
            .take(MAX_LISTED_PATHS)
            .filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned()))
            .collect();
        let more = turn.paths.len().saturating_sub(names.len());
        let more = if more == 0 { String::new() } else { format!(" and {more} more") };
        let state = match (turn.is_undone, turn.is_partly_undone) {
            (true, _) => " (undone)",
            (false, true) => " (undone in part)",
            (false, false) => "",
        };
        visible_line(&format!("{}  {}: {}{more}{state}", turn.number, turn.prompt, names.join(", ")))
    };
    turns.iter().map(line).collect::<Vec<String>>().join("\n")
}

fn split_yes_flag(args: &str) -> (&str, bool) {
    let args = args.trim();
    let rest = args.strip_suffix("--yes").or_else(|| args.strip_prefix("--yes"));
    (rest.unwrap_or(args).trim(), rest.is_some())
}
