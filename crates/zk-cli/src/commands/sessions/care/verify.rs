use serde_json::{Value, json};
use zk_core::model::SessionId;
use zk_core::service::{SessionFilter, SessionStore, StoreError};
use zk_session::{SqliteStore, Verification};
use zk_tui::Style;

use super::{Printed, plain, resolved, warn};
use crate::commands::counted;
use crate::exit::{Exit, Outcome};
use crate::sessions::store_failure;

/// Verifies a session, or all of them.
pub(super) async fn verify(store: &SqliteStore, id: Option<&str>, json: bool) -> Outcome<Printed> {
    let ids = match id {
        Some(id) => vec![resolved(store, id, "`zk sessions verify`").await?],
        None => {
            let every = SessionFilter { unanswered: true, ..SessionFilter::default() };
            store.list(&every).await.map_err(store_failure)?.into_iter().map(|info| info.id).collect()
        }
    };
    let mut found = Vec::with_capacity(ids.len());
    for id in ids {
        // A session that cannot be opened does not keep others from being checked.
        let result = store.verify(&id).await;
        found.push((id, result));
    }
    let is_whole = |(_, result): &(SessionId, Result<Verification, StoreError>)| {
        result.as_ref().is_ok_and(Verification::is_whole)
    };
    let exit = if found.iter().all(is_whole) { Exit::Done } else { Exit::Failed };
    if json {
        let rows = Value::Array(found.iter().map(|(id, result)| as_json(id, result)).collect());
        return Ok((super::json(&rows).0, exit));
    }
    if found.is_empty() {
        return Ok(plain(vec!["there are no sessions".to_owned()]));
    }
    Ok((found.iter().flat_map(|(id, result)| verification_lines(id, result)).collect(), exit))
}

fn verification_lines(id: &SessionId, result: &Result<Verification, StoreError>) -> Vec<(Style, String)> {
    let found = match result {
        Ok(found) => found,
        Err(error) => return vec![(Style::RED, error.to_string())],
    };
    let entries = counted(found.entries, "entry", "entries");
    let mut notes = Vec::new();
    match found.chain_from {
        Some(1) => {}
        Some(from) => notes.push(format!(
            "the chain begins at entry {from}: an older zk wrote what is before it, or it was restored after damage"
        )),
        None => notes.push("there is no chain yet: an older zk wrote all of it".to_owned()),
    }
    if !found.removed.is_empty() {
        let numbers: Vec<String> = found.removed.iter().map(ToString::to_string).collect();
        let was = if numbers.len() == 1 { "the content of entry" } else { "the contents of entries" };
        notes.push(format!("{was} {} removed on request", numbers.join(", ")));
    }
    if let Some(head) = &found.head {
        notes.push(format!("hash of the last entry {head}"));
    }
    let (style, state) = if found.is_whole() { (Style::GREEN, "whole") } else { (Style::RED, "not whole") };
    let mut lines = vec![(style, format!("{id}  {state}, {entries}"))];
    lines.extend(found.faults.iter().map(|fault| (Style::RED, format!("  {fault}"))));
    lines.extend(notes.into_iter().map(|note| (Style::PLAIN, format!("  {note}"))));
    lines
}

fn as_json(id: &SessionId, result: &Result<Verification, StoreError>) -> Value {
    match result {
        Ok(found) => json!({
            "id": id, "whole": found.is_whole(), "entries": found.entries, "chain_from": found.chain_from,
            "head": found.head, "removed": found.removed,
            "faults": found.faults.iter().map(ToString::to_string).collect::<Vec<_>>(),
        }),
        Err(error) => json!({ "id": id, "whole": false, "error": error.to_string() }),
    }
}

/// Removes the content of an entry.
pub(super) async fn redact(store: &SqliteStore, id: &str, entry: &str) -> Outcome<Printed> {
    let id = resolved(store, id, "`zk sessions redact`").await?;
    let removed = store.remove_content(&id, entry).await.map_err(store_failure)?;
    warn(&removed.notices);
    let numbers: Vec<String> = removed.entries.iter().map(ToString::to_string).collect();
    let (entries, also) = match numbers.as_slice() {
        [one] => (format!("entry {one}"), ""),
        _ => (format!("entries {}", numbers.join(", ")), "; the others repeat it"),
    };
    let kept =
        "copies in files beside the session, summaries and later answers that quote it are not found by this";
    Ok(plain(vec![format!("the content of {entries} of {id} is removed{also}"), kept.to_owned()]))
}
