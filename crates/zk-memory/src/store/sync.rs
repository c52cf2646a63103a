use std::collections::HashMap;
use std::path::PathBuf;

use rusqlite::params;

use super::{MAX_FACTS, MemoryStore, count, index, remove};
use crate::MemoryError;
use crate::fact::duplicate_key;
use crate::{FactOrigin, FactScope};

/// Facts of a file, as they are now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyncedFile {
    /// Path of the file.
    pub path: PathBuf,
    /// Places in which its facts are recalled.
    pub scope: FactScope,
    /// Texts of the facts; empty for a file that is gone or not trusted.
    pub facts: Vec<String>,
}

impl MemoryStore {
    /// Makes the facts of a file those that it has now. Texts that may not be kept are left out and returned with
    /// the reason. Use counts of unchanged facts stay.
    ///
    /// # Errors
    /// [`MemoryError`], and nothing was changed.
    pub fn sync(&self, file: &SyncedFile) -> Result<Vec<(String, MemoryError)>, MemoryError> {
        let mut left_out = Vec::new();
        let mut wanted: Vec<(String, &str)> = Vec::new();
        for text in &file.facts {
            match self.checked(text) {
                Ok(text) => wanted.push((duplicate_key(text), text)),
                Err(error) => left_out.push((text.clone(), error)),
            }
        }
        let path = file.path.to_string_lossy();
        let select = "SELECT key, id FROM facts WHERE origin = 'file' AND path = ?1";
        let known = self.read(|conn| {
            let mut select = conn.prepare_cached(select)?;
            let rows = select.query_map([&path], |row| Ok((row.get(0)?, row.get(1)?)))?;
            rows.collect::<rusqlite::Result<HashMap<String, i64>>>()
        })?;
        let known = known.unwrap_or_default();
        let is_same =
            wanted.iter().all(|(key, _)| known.contains_key(key)) && known.len() == count_distinct(&wanted);
        if is_same {
            return Ok(left_out);
        }
        let (project, now) = (file.scope.project(), self.now_ms());
        let origin = FactOrigin::File(file.path.clone()).name();
        let gone: Vec<i64> = known
            .iter()
            .filter(|(key, _)| !wanted.iter().any(|(other, _)| other == *key))
            .map(|(_, id)| *id)
            .collect();
        let has_gone = !gone.is_empty();
        self.change("write", |conn| {
            for id in gone {
                remove(conn, id)?;
            }
            let mut count = count(conn, None)?;
            for (key, text) in &wanted {
                if count >= MAX_FACTS {
                    return Ok(Err(MemoryError::Full { count }));
                }
                let added = conn
                    .prepare_cached(
                        "INSERT INTO facts(text, key, project, origin, path, changed_ms, is_proposed)
                         VALUES(?1, ?2, ?3, ?4, ?5, ?6, 0) ON CONFLICT DO NOTHING",
                    )?
                    .execute(params![text, key, project, origin, path, now])?;
                if added > 0 {
                    index(conn, conn.last_insert_rowid(), text)?;
                    count += 1;
                }
            }
            Ok(Ok(()))
        })??;
        if has_gone {
            self.clean();
        }
        Ok(left_out)
    }
}

fn count_distinct(wanted: &[(String, &str)]) -> usize {
    wanted.iter().map(|(key, _)| key).collect::<std::collections::HashSet<_>>().len()
}
