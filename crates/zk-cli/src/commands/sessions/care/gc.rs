use std::time::Duration;

use zk_session::{Leftover, LeftoverKind, Leftovers, SqliteStore};

use super::trash::age_of_trash;
use super::{Printed, plain};
use crate::app::AppContext;
use crate::commands::{counted, size};
use crate::exit::Outcome;
use crate::sessions::place;

/// Removes leftovers of sessions, or lists those that it would remove.
pub(super) async fn gc(app: &AppContext, store: &SqliteStore, days: u32, dry_run: bool) -> Outcome<Printed> {
    let day = Duration::from_hours(24);
    let place = place(&app.work, &app.settings);
    let leftovers = Leftovers::find(&place, day * days, age_of_trash(app)).await?;
    let (removed, gone) = if dry_run {
        let gone = store.search_index().await?.map_or(0, |index| index.gone);
        (leftovers.all, usize::try_from(gone).unwrap_or(usize::MAX))
    } else {
        (leftovers.remove().await?, store.refresh_search().await?)
    };
    let verb = if dry_run { "would be removed" } else { "removed" };
    let mut lines: Vec<String> = [
        (LeftoverKind::Unanswered, "session without an answer", "sessions without an answer"),
        (LeftoverKind::AbandonedCopy, "abandoned copy", "abandoned copies"),
        (
            LeftoverKind::OrphanedOutputs,
            "directory of large results without a session",
            "directories of large results without a session",
        ),
        (LeftoverKind::ExpiredTrash, "session in the trash", "sessions in the trash"),
    ]
    .into_iter()
    .filter_map(|(kind, one, many)| {
        let of_kind: Vec<&Leftover> = removed.iter().filter(|leftover| leftover.kind == kind).collect();
        let bytes = of_kind.iter().map(|leftover| leftover.bytes).sum();
        (!of_kind.is_empty())
            .then(|| format!("{} {verb}, {}", counted(of_kind.len() as u64, one, many), size(bytes)))
    })
    .collect();
    if gone > 0 {
        let sessions = counted(gone as u64, "session that is gone", "sessions that are gone");
        lines.push(format!("{sessions} {verb} from the search index"));
    }
    if lines.is_empty() {
        lines.push("there is nothing to remove".to_owned());
    }
    Ok(plain(lines))
}
