//! Full-text search (FTS5, BM25, re-ranked) for facts that fit a prompt, and the record of what was recalled.

use std::path::{Path, PathBuf};

use rusqlite::{OptionalExtension, params};

use super::{MemoryStore, read_fact, unsigned};
use crate::recall::rank::{Candidate, MAX_CANDIDATES, select};
use crate::recall::words::{query_words, to_fts};
use crate::{Fact, FactId, MemoryError};

/// Number of recalls that are recorded; older ones are removed.
const MAX_RECALLS: u32 = 100;

/// Marks around the matching words in SQLite's highlights. They are no characters of any language.
const MARK_BEGIN: char = '\u{fdd0}';
const MARK_END: char = '\u{fdd1}';

/// Request for facts that fit a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecallQuery {
    /// Words of the prompt to search for.
    pub words: Vec<String>,
    /// Project of the prompt.
    pub project: PathBuf,
    /// Most facts to recall.
    pub max_facts: usize,
}

impl RecallQuery {
    /// Query by the words of a prompt, for up to eight facts.
    pub fn new(prompt: &str, project: impl Into<PathBuf>) -> Self {
        Self { words: query_words(prompt), project: project.into(), max_facts: 8 }
    }
}

/// Facts that fit a prompt, the best first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recalled {
    /// Facts that fit, the best first.
    pub facts: Vec<RecalledFact>,
}

/// Fact that fits a prompt.
#[derive(Clone, Debug, PartialEq)]
pub struct RecalledFact {
    /// Fact as it is stored.
    pub fact: Fact,
    /// Score by words, project, age and use; higher is better.
    pub score: f64,
    /// Words of the fact that the prompt has; `(meaning)` for one that only its meaning found.
    pub words: Vec<String>,
}

/// Record of one recall, for `why`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecallRecord {
    /// Time of the recall, in milliseconds since 1970.
    pub time_ms: u64,
    /// Session of the prompt.
    pub session: Option<String>,
    /// Words that were searched for.
    pub words: Vec<String>,
    /// Facts that were recalled, the best first; forgotten ones are gone from here too.
    pub facts: Vec<RecalledFact>,
}

impl MemoryStore {
    /// Finds the facts of the query's project, and of all projects, that fit best; `None` if there is no memory.
    ///
    /// # Errors
    /// [`MemoryError`] when the file cannot be read.
    pub fn recall(&self, query: &RecallQuery) -> Result<Option<Recalled>, MemoryError> {
        let (fts, now) = (to_fts(&query.words), self.now_ms());
        let project = query.project.to_string_lossy();
        self.read(|conn| {
            if query.words.is_empty() {
                return Ok(Recalled::default());
            }
            // Ranks by words alone first; the texts are read only of the facts that are left.
            let mut search = conn.prepare_cached(
                "SELECT id, score, project <> '', changed_ms, uses FROM
                   (SELECT rowid AS number, bm25(words) AS score FROM words WHERE words MATCH ?1)
                 CROSS JOIN facts ON id = number WHERE project IN (?2, '') AND is_proposed = 0
                 ORDER BY score LIMIT ?3",
            )?;
            let candidates = search.query_map(params![fts, project, MAX_CANDIDATES], |row| {
                Ok(Candidate {
                    id: FactId(row.get(0)?),
                    relevance: -row.get::<_, f64>(1)?,
                    is_of_project: row.get(2)?,
                    changed_ms: unsigned(row.get(3)?),
                    uses: unsigned(row.get(4)?),
                })
            })?;
            let candidates = candidates.collect::<rusqlite::Result<Vec<Candidate>>>()?;
            let mut marked = conn.prepare_cached(&format!(
                "SELECT highlight(words, 0, '{MARK_BEGIN}', '{MARK_END}') FROM words WHERE words MATCH ?1 AND rowid = ?2"
            ))?;
            let mut facts = Vec::new();
            for (candidate, score) in select(candidates, unsigned(now), query.max_facts) {
                let Some(fact) = super::find_fact(conn, candidate.id)? else { continue };
                let text: Option<String> =
                    marked.query_row(params![fts, fact.id.0], |row| row.get(0)).optional()?;
                facts.push(RecalledFact { fact, score, words: marked_words(&text.unwrap_or_default()) });
            }
            Ok(Recalled { facts })
        })
    }

    /// Records which facts were told for a prompt, and counts their use.
    ///
    /// # Errors
    /// [`MemoryError`], and nothing was changed.
    pub fn record_recall(
        &self,
        session: Option<&str>,
        query: &RecallQuery,
        told: &[RecalledFact],
    ) -> Result<(), MemoryError> {
        let (project, now) = (query.project.to_string_lossy(), self.now_ms());
        let words = self.redacted(&query.words.join(" "));
        self.change("write", |conn| {
            conn.execute(
                "INSERT INTO recalls(session, project, time_ms, words) VALUES(?1, ?2, ?3, ?4)",
                params![session, project, now, words],
            )?;
            let recall = conn.last_insert_rowid();
            for (told, place) in told.iter().zip(1_i64..) {
                let id = told.fact.id.0;
                let used = "UPDATE facts SET uses = uses + 1, used_ms = ?2 WHERE id = ?1";
                // The fact may have been forgotten since.
                if conn.prepare_cached(used)?.execute(params![id, now])? == 0 {
                    continue;
                }
                conn.prepare_cached(
                    "INSERT INTO recalled(recall, fact, place, score, words) VALUES(?1, ?2, ?3, ?4, ?5)",
                )?
                .execute(params![recall, id, place, told.score, told.words.join(" ")])?;
            }
            conn.execute("DELETE FROM recalls WHERE id <= ?1", [recall - i64::from(MAX_RECALLS)])?;
            Ok(Ok(()))
        })?
    }

    /// Last recall in a session, or without one in a project; `None` if there was none.
    ///
    /// # Errors
    /// [`MemoryError`] when the file cannot be read.
    pub fn last_recall(
        &self,
        project: &Path,
        session: Option<&str>,
    ) -> Result<Option<RecallRecord>, MemoryError> {
        let project = project.to_string_lossy();
        let found = self.read(|conn| {
            let last = conn
                .query_row(
                    "SELECT id, time_ms, session, words FROM recalls
                     WHERE project = ?1 AND (?2 IS NULL OR session = ?2) ORDER BY id DESC LIMIT 1",
                    params![project, session],
                    |row| {
                        let words: String = row.get(3)?;
                        let record = RecallRecord {
                            time_ms: unsigned(row.get(1)?),
                            session: row.get(2)?,
                            words: words.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect(),
                            facts: Vec::new(),
                        };
                        Ok((row.get::<_, i64>(0)?, record))
                    },
                )
                .optional()?;
            let Some((recall, mut record)) = last else { return Ok(None) };
            let query = format!(
                "SELECT {}, score, words FROM recalled JOIN facts ON facts.id = fact WHERE recall = ?1 ORDER BY place",
                super::COLUMNS
            );
            let mut select = conn.prepare_cached(&query)?;
            let facts = select.query_map([recall], |row| {
                let words: String = row.get(11)?;
                let words = words.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect();
                Ok(RecalledFact { fact: read_fact(row)?, score: row.get(10)?, words })
            })?;
            record.facts = facts.collect::<rusqlite::Result<_>>()?;
            Ok(Some(record))
        })?;
        Ok(found.flatten())
    }
}

/// Words between the marks, each once.
fn marked_words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for part in text.split(MARK_BEGIN).skip(1) {
        let word = part.split(MARK_END).next().unwrap_or_default().to_lowercase();
        if !word.is_empty() && !words.contains(&word) {
            words.push(word);
        }
    }
    words
}
