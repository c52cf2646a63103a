//! Facts in one SQLite file, with an index of their words.

mod file;
mod search;
mod sync;
#[cfg(feature = "embeddings")]
mod vectors;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::UNIX_EPOCH;

use rusqlite::{Connection, OptionalExtension, Row, TransactionBehavior, params};
use zk_core::service::{Clock, Redactor, SystemClock};

pub use search::{RecallQuery, RecallRecord, Recalled, RecalledFact};
pub use sync::SyncedFile;

use crate::fact::{checked_text, duplicate_key};
use crate::{Fact, FactId, FactOrigin, FactScope, FactState, MemoryError, NewFact};

/// Maximum number of facts that are kept.
pub const MAX_FACTS: usize = 20_000;

/// Maximum number of proposals that wait for a person.
pub const MAX_PROPOSALS: usize = 200;

/// Columns of a fact, in the order of [`read_fact`].
const COLUMNS: &str = "id, text, project, origin, path, session, changed_ms, used_ms, uses, is_proposed";

/// Memory in its file. Methods block on the file, at most a second for another process.
///
/// The file is private, and created with the first fact. A file that is damaged, or of a newer zk, is left as
/// it is.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("memory/memory.db");
/// use zk_memory::{FactOrigin, FactScope, MemoryStore, NewFact, RecallQuery};
///
/// let store = MemoryStore::new(path);
/// let fact = NewFact {
///     text: "The tests of this project run with `make check`".into(),
///     scope: FactScope::Project("/p".into()),
///     origin: FactOrigin::Person,
///     session: None,
/// };
/// store.keep(&fact)?;
/// let found = store.recall(&RecallQuery::new("how do I test it?", "/p"))?.unwrap();
/// assert_eq!(found.facts[0].fact.text, fact.text);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct MemoryStore {
    path: PathBuf,
    redactor: Option<Arc<Redactor>>,
    clock: Arc<dyn Clock>,
    conn: Mutex<Option<Connection>>,
}

/// Result of saving a fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Saved {
    /// The fact is new.
    New(FactId),
    /// The memory had it already.
    Known(FactId),
}

impl Saved {
    /// Number of the fact.
    #[must_use]
    pub fn id(self) -> FactId {
        match self {
            Self::New(id) | Self::Known(id) => id,
        }
    }
}

/// Selection of facts to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FactFilter {
    /// Project whose facts are listed, with those of all projects; `None` for the facts of every project.
    pub project: Option<PathBuf>,
    /// Whether proposals are listed in place of kept facts.
    pub proposed: bool,
}

/// Fact that was forgotten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forgotten {
    /// Number of the fact.
    pub id: FactId,
    /// Sessions whose conversations contain the fact, because it was saved or recalled there.
    pub sessions: Vec<String>,
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").field("path", &self.path).finish_non_exhaustive()
    }
}

impl MemoryStore {
    /// Memory in the file at `path`, which need not exist.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        let (redactor, clock) = (None, Arc::new(SystemClock));
        Self { path: path.into(), redactor, clock, conn: Mutex::default() }
    }

    /// Refuses texts with secrets that `redactor` knows or recognises.
    #[must_use]
    pub fn with_redactor(self, redactor: Arc<Redactor>) -> Self {
        Self { redactor: Some(redactor), ..self }
    }

    /// Takes times from `clock`.
    #[must_use]
    pub fn with_clock(self, clock: Arc<dyn Clock>) -> Self {
        Self { clock, ..self }
    }

    /// Path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Checks whether a text may be kept.
    ///
    /// # Errors
    /// A text that is empty, too long, or has a secret or control characters.
    pub fn check(&self, text: &str) -> Result<(), MemoryError> {
        self.check_text(text).map(drop)
    }

    /// Keeps a fact. A fact with the same text in the same scope is kept once; a proposal with that text becomes
    /// a fact.
    ///
    /// # Errors
    /// [`MemoryError`], and nothing was changed.
    pub fn keep(&self, fact: &NewFact) -> Result<Saved, MemoryError> {
        self.save(fact, FactState::Kept)
    }

    /// Stores a proposal for a person to accept. It is not recalled before.
    ///
    /// # Errors
    /// [`MemoryError`], and nothing was changed.
    pub fn propose(&self, fact: &NewFact) -> Result<Saved, MemoryError> {
        self.save(fact, FactState::Proposed)
    }

    fn save(&self, new: &NewFact, state: FactState) -> Result<Saved, MemoryError> {
        let text = self.check_text(&new.text)?;
        let (key, project, now) = (duplicate_key(text), new.scope.project(), self.now_ms());
        self.change("write", |conn| {
            // A fact of all projects counts in each project.
            let known: Option<(i64, bool)> = conn
                .prepare_cached(
                    "SELECT id, is_proposed FROM facts WHERE key = ?1 AND project IN (?2, '')
                     ORDER BY is_proposed, project LIMIT 1",
                )?
                .query_row(params![key, project], |row| Ok((row.get(0)?, row.get(1)?)))
                .optional()?;
            match (known, state) {
                (Some((id, false)), _) | (Some((id, true)), FactState::Proposed) => {
                    return Ok(Ok(Saved::Known(FactId(id))));
                }
                (Some((id, true)), FactState::Kept) => {
                    accept_row(conn, id, now)?;
                    return Ok(Ok(Saved::New(FactId(id))));
                }
                (None, _) => {}
            }
            let is_proposed = state == FactState::Proposed;
            let count = count_facts(conn, Some(is_proposed))?;
            match state {
                FactState::Kept if count >= MAX_FACTS => return Ok(Err(MemoryError::Full { count })),
                FactState::Proposed if count >= MAX_PROPOSALS => {
                    return Ok(Err(MemoryError::TooManyProposals { count }));
                }
                FactState::Kept | FactState::Proposed => {}
            }
            let (origin, path) = (new.origin.name(), new.origin.path());
            conn.prepare_cached(
                "INSERT INTO facts(text, key, project, origin, path, session, changed_ms, is_proposed)
                 VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            )?
            .execute(params![
                text,
                key,
                project,
                origin,
                path,
                new.session,
                now,
                is_proposed
            ])?;
            let id = conn.last_insert_rowid();
            if !is_proposed {
                index_fact(conn, id, text)?;
            }
            Ok(Ok(Saved::New(FactId(id))))
        })?
    }

    /// Lists facts, the last changed first.
    ///
    /// # Errors
    /// [`MemoryError`] when the file cannot be read.
    pub fn list(&self, filter: &FactFilter) -> Result<Vec<Fact>, MemoryError> {
        let project = filter.project.as_ref().map(|project| project.to_string_lossy().into_owned());
        let listed = self.read(|conn| {
            let query = format!(
                "SELECT {COLUMNS} FROM facts WHERE is_proposed = ?1 AND (?2 IS NULL OR project IN (?2, ''))
                 ORDER BY changed_ms DESC, id DESC"
            );
            let mut select = conn.prepare_cached(&query)?;
            let facts = select.query_map(params![filter.proposed, project], read_fact)?;
            facts.collect::<rusqlite::Result<Vec<Fact>>>()
        })?;
        Ok(listed.unwrap_or_default())
    }

    /// Number of proposals for `project` and all projects.
    ///
    /// # Errors
    /// [`MemoryError`] when the file cannot be read.
    pub fn count_proposals(&self, project: &Path) -> Result<usize, MemoryError> {
        let filter = FactFilter { project: Some(project.to_owned()), proposed: true };
        Ok(self.list(&filter)?.len())
    }

    /// Fact of this number.
    ///
    /// # Errors
    /// [`MemoryError::NoFact`], or the file cannot be read.
    pub fn fact(&self, id: FactId) -> Result<Fact, MemoryError> {
        let found = self.read(|conn| find_fact(conn, id))?;
        found.flatten().ok_or(MemoryError::NoFact(id))
    }

    /// Forgets a fact, or rejects a proposal: its text is overwritten in the file.
    ///
    /// # Errors
    /// [`MemoryError`], and nothing was changed.
    pub fn forget(&self, id: FactId) -> Result<Forgotten, MemoryError> {
        let forgotten = self.change("write", |conn| {
            let fact = match find_own(conn, id)? {
                Ok(fact) => fact,
                Err(error) => return Ok(Err(error)),
            };
            let mut sessions = sessions_of(conn, id)?;
            sessions.extend(fact.session.filter(|session| !sessions.contains(session)));
            remove_fact(conn, id.0)?;
            Ok(Ok(Forgotten { id, sessions }))
        })??;
        self.vacuum();
        Ok(forgotten)
    }

    /// Replaces the text of a fact.
    ///
    /// # Errors
    /// [`MemoryError`], and nothing was changed.
    pub fn edit(&self, id: FactId, text: &str) -> Result<Fact, MemoryError> {
        let text = self.check_text(text)?;
        let (key, now) = (duplicate_key(text), self.now_ms());
        let edited = self.change("write", |conn| {
            let fact = match find_own(conn, id)? {
                Ok(fact) => fact,
                Err(error) => return Ok(Err(error)),
            };
            let other: Option<i64> = conn
                .query_row(
                    "SELECT id FROM facts WHERE project = ?1 AND key = ?2 AND id <> ?3",
                    params![fact.scope.project(), key, id.0],
                    |row| row.get(0),
                )
                .optional()?;
            if let Some(other) = other {
                return Ok(Err(MemoryError::Duplicate(FactId(other))));
            }
            conn.execute(
                "UPDATE facts SET text = ?2, key = ?3, changed_ms = ?4 WHERE id = ?1",
                params![id.0, text, key, now],
            )?;
            conn.execute("DELETE FROM vectors WHERE fact = ?1", [id.0])?;
            if fact.state == FactState::Kept {
                conn.execute("DELETE FROM words WHERE rowid = ?1", [id.0])?;
                index_fact(conn, id.0, text)?;
            }
            // The stored words are of the old text.
            conn.execute("UPDATE recalled SET words = '' WHERE fact = ?1", [id.0])?;
            Ok(find_fact(conn, id)?.ok_or(MemoryError::NoFact(id)))
        })??;
        self.vacuum();
        Ok(edited)
    }

    /// Accepts a proposal, which is recalled from now on.
    ///
    /// # Errors
    /// [`MemoryError`], and nothing was changed.
    pub fn accept(&self, id: FactId) -> Result<Fact, MemoryError> {
        let now = self.now_ms();
        self.change("write", |conn| match find_fact(conn, id)? {
            None => Ok(Err(MemoryError::NoFact(id))),
            Some(fact) if fact.state == FactState::Kept => Ok(Err(MemoryError::NotProposed(id))),
            Some(_) => {
                accept_row(conn, id.0, now)?;
                Ok(find_fact(conn, id)?.ok_or(MemoryError::NoFact(id)))
            }
        })?
    }

    /// Rewrites the file without the free pages of removed texts. The texts are overwritten already, so a failure is
    /// ignored.
    fn vacuum(&self) {
        let _ = self.read(|conn| conn.execute_batch("VACUUM"));
    }

    fn check_text<'a>(&self, text: &'a str) -> Result<&'a str, MemoryError> {
        let text = checked_text(text)?;
        let redactor = self.redactor.as_ref();
        if redactor.is_some_and(|redactor| matches!(redactor.redact(text), std::borrow::Cow::Owned(_))) {
            return Err(MemoryError::Secret);
        }
        Ok(text)
    }

    /// Returns a text without the secrets that the memory's redactor knows.
    pub(crate) fn redacted(&self, text: &str) -> String {
        self.redactor.as_ref().map_or_else(|| text.to_owned(), |redactor| redactor.redact(text).into_owned())
    }

    /// Present time in milliseconds since 1970.
    fn now_ms(&self) -> i64 {
        let since = self.clock.now().duration_since(UNIX_EPOCH);
        since.map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    /// Reads from the file; `None` if there is none.
    fn read<T>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<Option<T>, MemoryError> {
        self.with_connection("read", false, work)
    }

    /// Changes the file in one transaction, and creates it if there is none. An error that `work` returns rolls the
    /// transaction back.
    fn change<T>(
        &self,
        doing: &'static str,
        work: impl FnOnce(&Connection) -> rusqlite::Result<Result<T, MemoryError>>,
    ) -> Result<Result<T, MemoryError>, MemoryError> {
        let done = self.with_connection(doing, true, |conn| {
            let transaction = rusqlite::Transaction::new_unchecked(conn, TransactionBehavior::Immediate)?;
            let done = work(&transaction)?;
            if done.is_ok() {
                transaction.commit()?
            } else {
                transaction.rollback()?
            }
            Ok(done)
        })?;
        Ok(done.unwrap_or_else(|| Err(MemoryError::NoAnswer("its file is gone".to_owned()))))
    }

    fn with_connection<T>(
        &self,
        doing: &'static str,
        create: bool,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<Option<T>, MemoryError> {
        let mut held = self.conn.lock().unwrap_or_else(PoisonError::into_inner);
        // A file that was removed or moved away is not written to any more.
        if held.is_some() && !self.path.exists() {
            *held = None;
        }
        if held.is_none() {
            *held = file::open(&self.path, create)?;
        }
        let Some(conn) = held.as_ref() else { return Ok(None) };
        let done = work(conn);
        if done.is_err() {
            let failed = done.map(Some).map_err(|error| MemoryError::sqlite(doing, &self.path, &error));
            // The next use opens the file anew.
            *held = None;
            return failed;
        }
        done.map(Some).map_err(|error| MemoryError::sqlite(doing, &self.path, &error))
    }
}

fn read_fact(row: &Row<'_>) -> rusqlite::Result<Fact> {
    let is_proposed: bool = row.get(9)?;
    Ok(Fact {
        id: FactId(row.get(0)?),
        text: row.get(1)?,
        scope: FactScope::from_project(row.get(2)?),
        origin: FactOrigin::from_parts(&row.get::<_, String>(3)?, row.get(4)?),
        session: row.get(5)?,
        changed_ms: unsigned(row.get(6)?),
        used_ms: row.get::<_, Option<i64>>(7)?.map(unsigned),
        uses: unsigned(row.get(8)?),
        state: if is_proposed { FactState::Proposed } else { FactState::Kept },
    })
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}

/// Number of proposals, of kept facts, or with `None` of both.
fn count_facts(conn: &Connection, is_proposed: Option<bool>) -> rusqlite::Result<usize> {
    let query = "SELECT count(*) FROM facts WHERE ?1 IS NULL OR is_proposed = ?1";
    let count: i64 = conn.prepare_cached(query)?.query_row([is_proposed], |row| row.get(0))?;
    Ok(usize::try_from(count).unwrap_or_default())
}

fn find_fact(conn: &Connection, id: FactId) -> rusqlite::Result<Option<Fact>> {
    let query = format!("SELECT {COLUMNS} FROM facts WHERE id = ?1");
    conn.prepare_cached(&query)?.query_row([id.0], read_fact).optional()
}

/// Finds a fact that may be changed, because it comes from no file.
fn find_own(conn: &Connection, id: FactId) -> rusqlite::Result<Result<Fact, MemoryError>> {
    Ok(match find_fact(conn, id)? {
        None => Err(MemoryError::NoFact(id)),
        Some(Fact { origin: FactOrigin::File(path), .. }) => Err(MemoryError::OfFile { id, path }),
        Some(fact) => Ok(fact),
    })
}

fn index_fact(conn: &Connection, id: i64, text: &str) -> rusqlite::Result<()> {
    conn.prepare_cached("INSERT INTO words(rowid, text) VALUES(?1, ?2)")?.execute(params![id, text]).map(drop)
}

fn accept_row(conn: &Connection, id: i64, now: i64) -> rusqlite::Result<()> {
    conn.execute("UPDATE facts SET is_proposed = 0, changed_ms = ?2 WHERE id = ?1", params![id, now])?;
    let text: String = conn.query_row("SELECT text FROM facts WHERE id = ?1", [id], |row| row.get(0))?;
    index_fact(conn, id, &text)
}

/// Replaces the text of a kept fact by one with an equal [`duplicate_key`].
fn reword(conn: &Connection, id: i64, text: &str, now: i64) -> rusqlite::Result<()> {
    conn.prepare_cached("UPDATE facts SET text = ?2, changed_ms = ?3 WHERE id = ?1")?
        .execute(params![id, text, now])?;
    conn.prepare_cached("DELETE FROM words WHERE rowid = ?1")?.execute([id])?;
    conn.prepare_cached("DELETE FROM vectors WHERE fact = ?1")?.execute([id])?;
    index_fact(conn, id, text)
}

fn remove_fact(conn: &Connection, id: i64) -> rusqlite::Result<()> {
    conn.prepare_cached("DELETE FROM words WHERE rowid = ?1")?.execute([id])?;
    conn.prepare_cached("DELETE FROM facts WHERE id = ?1")?.execute([id]).map(drop)
}

fn sessions_of(conn: &Connection, id: FactId) -> rusqlite::Result<Vec<String>> {
    let mut select = conn.prepare_cached(
        "SELECT DISTINCT session FROM recalls JOIN recalled ON recall = recalls.id
         WHERE fact = ?1 AND session IS NOT NULL ORDER BY session",
    )?;
    let sessions = select.query_map([id.0], |row| row.get(0))?;
    sessions.collect()
}
