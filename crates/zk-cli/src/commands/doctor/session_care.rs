use zk_chat::age;
use zk_session::{Leftovers, SearchIndexState, SqliteStore};

use super::findings::{Finding, fine, warning};
use crate::app::Workplace;
use crate::commands::size;
use crate::sessions;
use crate::settings::Settings;

/// Reports the sizes of the sessions, their search index and the trash, and the last removal of leftovers.
pub(super) async fn check_session_care(work: &Workplace, settings: &Settings) -> Option<Finding> {
    let place = sessions::place(work, settings);
    let is_kept = settings.program.sessions && work.machine.stores.name().is_none();
    let root = work.machine.dirs.sessions().filter(|root| is_kept && root.is_dir())?;
    let trash = match place.trash().ok()?.list().await {
        Ok(trash) => trash,
        Err(error) => return Some(warning(format!("sessions: {error}"))),
    };
    let index = match SqliteStore::new(root.clone()).search_index().await {
        Ok(None) => "no search index yet".to_owned(),
        Ok(Some(SearchIndexState { bytes, sessions, .. })) => {
            format!("search index of {sessions} sessions, {}", size(bytes))
        }
        Err(error) => return Some(warning(format!("sessions: {error}"))),
    };
    let in_trash: u64 = trash.iter().map(|session| session.bytes).sum();
    let trash = match trash.len() {
        0 => "trash empty".to_owned(),
        sessions => format!("{sessions} in the trash, {}", size(in_trash)),
    };
    let last = Leftovers::last_removal(&root).map_or("never".to_owned(), age);
    let all = size(place.stored_bytes());
    Some(fine(format!(
        "sessions: {all} with large results and trash; {index}; {trash}; last `zk sessions gc` {last}"
    )))
}
