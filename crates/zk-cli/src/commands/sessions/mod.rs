#[cfg(test)]
pub(super) mod breaking_store;
pub(in crate::commands) mod care;
mod export;
mod fleet;
mod import;
mod list;
mod memory;
pub(super) mod replay;
pub(crate) mod runs;
mod show;
mod undo;

use std::ops::ControlFlow;

use serde_json::Value;
use zk_core::service::{EntryVisitor, SessionFilter, SessionStore};
use zk_session::{SessionCopy, scan_matching};
use zk_tui::Style;
use zk_tui::plain::Screen;
use zk_tui::term::print_stderr;

use crate::app::{AppContext, runtime};
use crate::args::actions::SessionsAction;
use crate::exit::{Exit, Failure, Outcome};
use crate::sessions::{place, require_id, store, store_failure};
pub(crate) use fleet::fleet;
use list::row;
pub(crate) use memory::memory;
pub(crate) use runs::{attach, handoff};
pub(crate) use undo::{redo, turn_diff, undo};
use zk_chat::session_lines;

pub(crate) fn sessions(app: &AppContext, action: SessionsAction) -> Outcome<Exit> {
    let action = match action {
        SessionsAction::Care(action) => return care::run(app, action),
        SessionsAction::Export { id, format, output, tree } => {
            let document = export::Document { id: &id, format, output: output.as_deref(), tree };
            return export::export(app, &document);
        }
        SessionsAction::Import { path, from, dry_run, json } => {
            return import::import(app, path.as_deref(), &import::ImportOptions { from, dry_run, json });
        }
        other => other,
    };
    let store = store(&app.work.machine)?;
    let plain = |lines: Vec<String>| lines.into_iter().map(|line| (Style::PLAIN, line)).collect::<Vec<_>>();
    let lines: Vec<(Style, String)> = runtime()?.block_on(async {
        match action {
            SessionsAction::List { all, json } => {
                let cwd = (!all).then(|| app.work.cwd.clone());
                let mut listed = store
                    .list(&SessionFilter { cwd, limit: None, unanswered: true })
                    .await
                    .map_err(store_failure)?;
                // Interrupted prompts and unreadable files are listed. A session without any answer yet is
                // not.
                listed.retain(|info| info.answered || info.interrupted || info.unreadable.is_some());
                if json {
                    let rows = Value::Array(listed.iter().map(row).collect());
                    let text = serde_json::to_string_pretty(&rows).map_err(Failure::failed)?;
                    return Ok(plain(text.lines().map(str::to_owned).collect()));
                }
                let mut lines = session_lines(&listed, all);
                if lines.is_empty() {
                    let place =
                        if all { "anywhere".to_owned() } else { format!("of {}", app.work.cwd.display()) };
                    lines.push(format!("there are no sessions {place}"));
                }
                Ok(plain(lines))
            }
            SessionsAction::Show { id, tree: true } => {
                show::tree(&store, require_id(&id, "`zk sessions show`")?).await.map(plain)
            }
            SessionsAction::Show { id, tree: false } => {
                show::show(&app.work.machine, &id).await.map(|()| Vec::new())
            }
            SessionsAction::Copy { id } => {
                let id = require_id(&id, "`zk sessions copy`")?;
                let nothing = || -> EntryVisitor { Box::new(|_, _| ControlFlow::Break(())) };
                let found = scan_matching(&store, id, nothing).await.map_err(store_failure)?.info;
                let copied = place(&app.work, &app.settings).copy(&found.id, found.cwd, None).await?;
                let SessionCopy { id: copy, notices } = copied;
                for notice in &notices {
                    print_stderr(&format!("zk: {notice}"));
                }
                Ok(plain(vec![format!("copied as {copy}; `zk --resume {copy}` goes on with it")]))
            }
            // These commands print their own output.
            SessionsAction::Care(_) | SessionsAction::Export { .. } | SessionsAction::Import { .. } => {
                Ok(Vec::new())
            }
        }
    })?;
    let mut screen = Screen::stdout(&app.work.machine.terminal());
    lines.iter().for_each(|(style, line)| screen.line(*style, line));
    screen.finish()?;
    Ok(Exit::Done)
}
