use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use rusqlite::{Connection, OptionalExtension, params};

use super::{MAX_FACTS, MemoryStore, accept_row, count_facts, index_fact, remove_fact, reword};
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
    /// Updates the stored facts of a file to those that the file has now. Texts that may not be kept are left out and
    /// returned with the reason. Use counts of unchanged facts stay.
    ///
    /// # Errors
    /// [`MemoryError`], and nothing was changed.
    pub fn sync(&self, file: &SyncedFile) -> Result<Vec<(String, MemoryError)>, MemoryError> {
        let mut left_out = Vec::new();
        let mut wanted = Vec::new();
        let mut keys = HashSet::new();
        for text in &file.facts {
            match self.check_text(text) {
                Ok(text) => {
                    let key = duplicate_key(text);
                    if keys.insert(key.clone()) {
                        wanted.push((key, text));
                    }
                }
                Err(error) => left_out.push((text.clone(), error)),
            }
        }
        let (project, path) = (file.scope.project(), file.path.to_string_lossy());
        let planned = self.read(|conn| plan_steps(conn, &wanted, &project, &path))?;
        // Without a memory yet, all facts are additions.
        let steps =
            planned.unwrap_or_else(|| wanted.iter().map(|(key, text)| Step::Add(key, text)).collect());
        if steps.is_empty() {
            return Ok(left_out);
        }
        let now = self.now_ms();
        let origin = FactOrigin::File(file.path.clone()).name();
        let rewrites = steps.iter().any(|step| matches!(step, Step::Remove(_) | Step::Reword(..)));
        self.change("write", |conn| {
            let mut count = count_facts(conn, None)?;
            for step in &steps {
                match step {
                    Step::Remove(id) => {
                        remove_fact(conn, *id)?;
                        count = count.saturating_sub(1);
                    }
                    Step::Accept(id) => {
                        accept_row(conn, *id, now)?;
                        // The fact belongs to the file from now on, and is removed with it.
                        conn.prepare_cached("UPDATE facts SET origin = ?2, path = ?3 WHERE id = ?1")?
                            .execute(params![id, origin, path])?;
                    }
                    Step::Reword(id, text) => reword(conn, *id, text, now)?,
                    Step::Add(..) if count >= MAX_FACTS => return Ok(Err(MemoryError::Full { count })),
                    Step::Add(key, text) => {
                        let added = conn
                            .prepare_cached(
                                "INSERT INTO facts(text, key, project, origin, path, changed_ms, is_proposed)
                                 VALUES(?1, ?2, ?3, ?4, ?5, ?6, 0) ON CONFLICT DO NOTHING",
                            )?
                            .execute(params![text, key, project, origin, path, now])?;
                        // Another process may have read the file at the same time.
                        if added > 0 {
                            index_fact(conn, conn.last_insert_rowid(), text)?;
                            count += 1;
                        }
                    }
                }
            }
            Ok(Ok(()))
        })??;
        if rewrites {
            self.vacuum();
        }
        Ok(left_out)
    }
}

/// Change of one row in a synchronisation.
#[derive(Debug, PartialEq, Eq)]
enum Step<'a> {
    Remove(i64),
    Accept(i64),
    Reword(i64, &'a str),
    Add(&'a str, &'a str),
}

/// Changes from the rows of a file to its wanted facts, removals first. A fact that was kept in another way counts as
/// present; a proposal with a text of the file is accepted.
fn plan_steps<'a>(
    conn: &Connection,
    wanted: &'a [(String, &'a str)],
    project: &str,
    path: &str,
) -> rusqlite::Result<Vec<Step<'a>>> {
    let mut select =
        conn.prepare_cached("SELECT key, id, text, project FROM facts WHERE origin = 'file' AND path = ?1")?;
    let rows = select.query_map([path], |row| {
        Ok((
            row.get::<_, String>(0)?,
            (row.get::<_, i64>(1)?, row.get::<_, String>(2)?, row.get::<_, String>(3)?),
        ))
    })?;
    let mut own = rows.collect::<rusqlite::Result<HashMap<_, _>>>()?;
    let (mut gone, mut steps) = (Vec::new(), Vec::new());
    let mut other =
        conn.prepare_cached("SELECT id, is_proposed FROM facts WHERE project = ?1 AND key = ?2")?;
    for (key, text) in wanted {
        match own.remove(key) {
            Some((_, known, scope)) if scope == project && known == *text => continue,
            Some((id, _, scope)) if scope == project => {
                steps.push(Step::Reword(id, text));
                continue;
            }
            // The stored fact has another scope.
            Some((id, ..)) => gone.push(Step::Remove(id)),
            None => {}
        }
        let kept = other.query_row([project, key], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
        match kept {
            Some((id, true)) => steps.push(Step::Accept(id)),
            Some((_, false)) => {}
            None => steps.push(Step::Add(key, text)),
        }
    }
    gone.extend(own.into_values().map(|(id, ..)| Step::Remove(id)));
    gone.append(&mut steps);
    Ok(gone)
}
