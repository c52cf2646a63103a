//! `zk undo`, `zk redo` and `zk diff`: what the turns of a session changed, and the way back.

use std::io::IsTerminal;

use zk_core::service::visible_line;
use zk_session::{find_matching, latest};
use zk_tui::Style;
use zk_tui::plain::Screen;
use zk_undo::{Journal, Outcome as Restored, Plan, UndoError};
use zk_view::{DiffLine, DiffReader};

use crate::app::{AppContext, runtime};
use crate::compose;
use crate::exit::{Exit, Failure, Outcome};
use crate::sessions::{place, require_id, store, store_failure};

/// Restores the files that the last `count` prompts of a session changed, after a look at the diff.
pub(crate) fn undo(app: &AppContext, count: usize, yes: bool, session: Option<&str>) -> Outcome<Exit> {
    let journal = journal(app, session)?;
    let plan = journal.plan_undo(count).map_err(undo_failure)?;
    restore_after_consent(app, &journal, &plan, yes)
}

/// Reverts the last undo of a session, after a look at the diff.
pub(crate) fn redo(app: &AppContext, yes: bool, session: Option<&str>) -> Outcome<Exit> {
    let journal = journal(app, session)?;
    let plan = journal.plan_redo().map_err(undo_failure)?;
    restore_after_consent(app, &journal, &plan, yes)
}

fn restore_after_consent(app: &AppContext, journal: &Journal, plan: &Plan, yes: bool) -> Outcome<Exit> {
    let mut screen = Screen::stdout(&app.work.machine.terminal());
    print_diff(&mut screen, &journal.plan_diff(plan, &app.work.cwd));
    plan.refusals().for_each(|line| screen.line(Style::YELLOW, &visible_line(&line)));
    if plan.is_interrupted {
        let text = "zk ended in the middle of a call, so that changes of others may be among these";
        screen.line(Style::YELLOW, text);
    }
    if plan.is_empty() {
        screen.line(Style::PLAIN, &format!("{}: no file is to be brought back", plan.title));
        screen.finish()?;
        return Ok(Exit::Done);
    }
    screen.finish()?;
    if !yes && !ask_to_restore(&plan.title)? {
        zk_tui::term::print_stderr("no file was changed");
        return Ok(Exit::Done);
    }
    let restored = journal.apply(plan).map_err(undo_failure)?;
    report(app, &restored)
}

/// Prints the file changes of a prompt's turns; without a number, of the last prompt that changed files.
pub(crate) fn turn_diff(app: &AppContext, turn: Option<u64>, session: Option<&str>) -> Outcome<Exit> {
    let journal = journal(app, session)?;
    let changes = journal.turn_changes(turn).map_err(undo_failure)?;
    let mut screen = Screen::stdout(&app.work.machine.terminal());
    for change in changes {
        print_diff(&mut screen, &journal.diff(&change, &app.work.cwd));
    }
    screen.finish()?;
    Ok(Exit::Done)
}

/// Opens the journal of a session; of the newest one of this directory without an id.
fn journal(app: &AppContext, session: Option<&str>) -> Outcome<Journal> {
    let store = store(&app.work.machine)?;
    let id = runtime()?.block_on(async {
        match session {
            Some(id) => find_matching(&store, require_id(id, "--session")?).await.map_err(store_failure),
            None => match latest(&store, &app.work.cwd).await.map_err(store_failure)? {
                Some(info) => Ok(info.id),
                None => Err(Failure::usage(format!(
                    "there is no session of {}; `zk sessions list --all` lists those of other directories",
                    app.work.cwd.display()
                ))),
            },
        }
    })?;
    let outputs = place(&app.work, &app.settings).outputs_of(&id);
    let outputs =
        outputs.ok_or_else(|| Failure::usage("sessions have no place here: set HOME or ZK_HOME"))?;
    let journal = compose::sessions::undo::journal(&app.work, &app.settings, &outputs);
    for line in journal.recover().map_err(undo_failure)? {
        zk_tui::term::print_stderr(&format!("zk: {line}"));
    }
    Ok(journal)
}

fn ask_to_restore(title: &str) -> Outcome<bool> {
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return Err(Failure::usage(format!("{title}: nobody can be asked here; run it again with --yes")));
    }
    zk_tui::term::print_stderr(&format!("{title}: bring these files back? [y/N]"));
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer).map_err(Failure::failed)?;
    Ok(["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
}

fn report(app: &AppContext, restored: &Restored) -> Outcome<Exit> {
    let mut screen = Screen::stdout(&app.work.machine.terminal());
    zk_undo::report(restored).lines().for_each(|line| screen.line(Style::PLAIN, line));
    screen.finish()?;
    Ok(Exit::Done)
}

/// Prints a unified diff in colours.
fn print_diff(screen: &mut Screen, diff: &str) {
    let mut reader = DiffReader::default();
    for line in diff.lines() {
        let style = match reader.line(line) {
            DiffLine::Added { .. } => Style::GREEN,
            DiffLine::Removed { .. } => Style::RED,
            DiffLine::Hunk(_) => Style::CYAN,
            DiffLine::Header(_) => Style::DIM,
            DiffLine::Kept { .. } => Style::PLAIN,
        };
        screen.line(style, &visible_line(line));
    }
}

fn undo_failure(error: UndoError) -> Failure {
    match error {
        UndoError::NothingToUndo | UndoError::NothingToRedo | UndoError::NoTurn(_) | UndoError::NoTurns => {
            Failure::usage(error.to_string())
        }
        error => Failure::failed(error.to_string()),
    }
}
