use std::time::Duration;

use zk_chat::age;
use zk_core::service::visible_line;
use zk_session::SqliteStore;

use super::{Printed, plain, resolved};
use crate::app::AppContext;
use crate::args::session_care::TrashAction;
use crate::commands::{counted, size};
use crate::exit::Outcome;
use crate::sessions::{place, require_id};

/// Moves a session into the trash, and removes sessions that were in it for too long.
pub(super) async fn delete(app: &AppContext, store: &SqliteStore, id: &str) -> Outcome<Printed> {
    let trash = place(&app.work, &app.settings).trash()?;
    let id = resolved(store, id, "`zk sessions delete`").await?;
    trash.put(&id).await?;
    trash.remove_older(age_of_trash(app)).await?;
    let days = counted(app.settings.program.trash_days.into(), "day", "days");
    Ok(plain(vec![format!(
        "{id} is in the trash for {days}; `zk sessions trash restore {id}` brings it back"
    )]))
}

/// Lists the trash, restores a session from it, or empties it.
pub(super) async fn trash(app: &AppContext, action: Option<TrashAction>) -> Outcome<Printed> {
    let trash = place(&app.work, &app.settings).trash()?;
    match action.unwrap_or(TrashAction::List) {
        TrashAction::List => {
            let listed = trash.list().await?;
            if listed.is_empty() {
                return Ok(plain(vec!["the trash is empty".to_owned()]));
            }
            let line = |session: &zk_session::TrashedSession| {
                let deleted = age(session.deleted);
                format!(
                    "{}  deleted {deleted}  {}  {}  {}",
                    session.id,
                    size(session.bytes),
                    visible_line(&session.title),
                    visible_line(&session.cwd.display().to_string())
                )
            };
            Ok(plain(listed.iter().map(line).collect()))
        }
        TrashAction::Restore { id } => {
            let id = trash.restore(require_id(&id, "`zk sessions trash restore`")?).await?;
            Ok(plain(vec![format!("{id} is back; `zk --resume {id}` goes on with it")]))
        }
        TrashAction::Empty => {
            let removed = trash.remove_older(Duration::ZERO).await?;
            let bytes = removed.iter().map(|session| session.bytes).sum();
            let sessions = counted(removed.len() as u64, "session", "sessions");
            Ok(plain(vec![format!("{sessions} removed for good, {} freed", size(bytes))]))
        }
    }
}

/// Returns the time that a session stays in the trash, from the settings.
pub(super) fn age_of_trash(app: &AppContext) -> Duration {
    Duration::from_hours(24 * u64::from(app.settings.program.trash_days))
}
