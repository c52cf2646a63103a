//! `zk sessions search`, `rename`, `delete`, `trash`, `gc`, `verify` and `redact`.

mod gc;
mod search;
mod trash;
mod verify;

use zk_core::model::SessionId;
use zk_core::service::SessionStore;
use zk_session::{SearchError, SharedStore, TrashError, find_matching};
use zk_tui::Style;
use zk_tui::plain::Screen;
use zk_tui::term::print_stderr;

use crate::app::{AppContext, runtime};
use crate::args::session_care::SessionCare;
use crate::exit::{Exit, Explain, Outcome};
use crate::sessions::{place, require_id, sqlite_store, store, store_failure};

/// Lines to print with their styles, and the exit code.
type Printed = (Vec<(Style, String)>, Exit);

pub(super) fn run(app: &AppContext, action: SessionCare) -> Outcome<Exit> {
    let machine = &app.work.machine;
    let (lines, exit) = runtime()?.block_on(async {
        match action {
            SessionCare::Rename { id, title } => rename(&store(machine)?, &id, &title).await,
            SessionCare::Delete { id } => match machine.stores.chosen() {
                Some(store) => delete_for_good(app, &*store, &id).await,
                None => trash::delete(app, &sqlite_store(machine)?, &id).await,
            },
            SessionCare::Search(args) => search::search(app, &sqlite_store(machine)?, &args).await,
            SessionCare::Trash { action } => {
                sqlite_store(machine)?;
                trash::trash(app, action).await
            }
            SessionCare::Gc { older_than, dry_run } => {
                gc::gc(app, &sqlite_store(machine)?, older_than, dry_run).await
            }
            SessionCare::Verify { id, all: _, json } => {
                verify::verify(&sqlite_store(machine)?, id.as_deref(), json).await
            }
            SessionCare::Redact { id, entry } => verify::redact(&sqlite_store(machine)?, &id, &entry).await,
        }
    })?;
    let mut screen = Screen::stdout(&machine.terminal());
    lines.iter().for_each(|(style, line)| screen.line(*style, line));
    screen.finish()?;
    Ok(exit)
}

/// Resolves an id or the beginning of one; `command` is named if it is empty.
async fn resolved(store: &dyn SessionStore, id: &str, command: &str) -> Outcome<SessionId> {
    find_matching(store, require_id(id, command)?).await.map_err(store_failure)
}

/// Deletes a session of a store that has no trash.
async fn delete_for_good(app: &AppContext, store: &dyn SessionStore, id: &str) -> Outcome<Printed> {
    let id = resolved(store, id, "`zk sessions delete`").await?;
    store.delete(&id).await.map_err(store_failure)?;
    if let Some(outputs) = place(&app.work, &app.settings).outputs_of(&id) {
        // Most sessions have no such directory.
        let _ = std::fs::remove_dir_all(outputs);
    }
    Ok(plain(vec![format!("removed {id} for good: only sessions in SQLite files have a trash")]))
}

async fn rename(store: &SharedStore, id: &str, title: &str) -> Outcome<Printed> {
    let id = resolved(store, id, "`zk sessions rename`").await?;
    store.rename(&id, title).await.map_err(store_failure)?;
    let info = store.list(&zk_core::service::SessionFilter { unanswered: true, ..Default::default() }).await;
    let titled = info.map_err(store_failure)?.into_iter().find(|info| info.id == id).map(|info| info.title);
    Ok(plain(vec![format!("{id} is titled `{}`", titled.unwrap_or_default())]))
}

fn plain(lines: Vec<String>) -> Printed {
    (lines.into_iter().map(|line| (Style::PLAIN, line)).collect(), Exit::Done)
}

fn json(value: &serde_json::Value) -> Printed {
    plain(format!("{value:#}").lines().map(str::to_owned).collect())
}

fn warn(notices: &[String]) {
    notices.iter().for_each(|notice| print_stderr(&format!("zk: {notice}")));
}

impl Explain for SearchError {
    fn exit(&self) -> Exit {
        match self {
            Self::Nothing(_) => Exit::Usage,
            Self::TooNew { .. } | Self::Store(_) | Self::Index { .. } | Self::Damaged { .. } => Exit::Failed,
        }
    }
}

impl Explain for TrashError {
    fn exit(&self) -> Exit {
        match self {
            Self::NotInTrash { .. } | Self::InTrashAlready(_) | Self::PlaceTaken { .. } => Exit::Usage,
            Self::Store(zk_core::service::StoreError::NotFound { .. }) => Exit::Usage,
            Self::Store(_) => Exit::Failed,
        }
    }

    fn explain(&self) -> String {
        match self {
            Self::NotInTrash { .. } => format!("{self}; `zk sessions trash` lists what is in it"),
            Self::InTrashAlready(id) => {
                format!("{self}: `zk sessions trash restore {id}`, or `zk sessions trash empty`")
            }
            Self::Store(_) | Self::PlaceTaken { .. } => self.to_string(),
        }
    }
}
