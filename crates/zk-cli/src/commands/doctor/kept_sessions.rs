use zk_core::service::{SessionFilter, SessionStore, Unreadable};

use super::findings::{Finding, failure, fine, warning};
use crate::app::Workplace;
use crate::sessions;
use crate::settings::Settings;

pub(super) async fn check_sessions(work: &Workplace, settings: &Settings) -> Finding {
    if !settings.program.sessions {
        return fine("sessions: not kept, by the settings");
    }
    let store = match sessions::store(&work.machine) {
        Ok(store) => store,
        Err(error) => return warning(format!("sessions: {error}")),
    };
    let place = sessions::place(work, settings);
    let root = work.machine.dirs.sessions().unwrap_or_default();
    let name = work.machine.stores.name().map_or_else(|| root.display().to_string(), ToOwned::to_owned);
    if let Err(error) = place.check_writable() {
        return warning(format!(
            "sessions: cannot write to {name} ({error}): conversations are not kept; set ZK_HOME to a directory of yours"
        ));
    }
    match store.list(&SessionFilter::default()).await {
        Err(error) => failure(format!("sessions: {error}")),
        Ok(all) => {
            let count = |is: fn(&Unreadable) -> bool| {
                all.iter().filter_map(|session| session.unreadable.as_ref()).filter(|why| is(why)).count()
            };
            let faults = [
                (count(|why| matches!(why, Unreadable::Damaged(_))), "damaged"),
                (count(|why| matches!(why, Unreadable::TooNew { .. })), "of a newer zk"),
                (count(|why| matches!(why, Unreadable::OutOfReach(_))), "out of reach"),
            ];
            let faults: Vec<String> = faults
                .into_iter()
                .filter(|(sessions, _)| *sessions > 0)
                .map(|(sessions, are)| format!("{sessions} {are}"))
                .collect();
            let line = format!("sessions: {} in {name}", all.len());
            match faults.as_slice() {
                [] => fine(line),
                faults => warning(format!("{line}, {}", faults.join(", "))),
            }
        }
    }
}
