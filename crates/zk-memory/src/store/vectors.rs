//! Vectors of facts: stored beside the texts, and compared one by one.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::path::Path;

use rusqlite::params;

use super::search::{RecallQuery, Recalled, RecalledFact};
use super::{MemoryStore, find_fact};
use crate::{FactId, MemoryError};

/// Maximum number of facts that count as near the prompt.
const MAX_NEAREST: usize = 16;

/// Minimum cosine of a prompt and a fact that counts as near.
const MIN_COSINE: f32 = 0.3;

/// Text in place of the matching words, for a fact that was found by meaning alone.
const BY_MEANING: &str = "(meaning)";

/// Constant of reciprocal rank fusion: the larger it is, the less the first places outweigh the next ones.
const RANK_OFFSET: f64 = 60.0;

impl MemoryStore {
    /// Facts of a project, and of all projects, without a vector of `model`; the last changed first.
    pub(crate) fn without_vectors(
        &self,
        model: &str,
        project: &Path,
        count: usize,
    ) -> Result<Vec<(FactId, String)>, MemoryError> {
        let (project, count) = (project.to_string_lossy(), i64::try_from(count).unwrap_or(i64::MAX));
        let found = self.read(|conn| {
            let mut select = conn.prepare_cached(
                "SELECT id, text FROM facts WHERE project IN (?1, '') AND is_proposed = 0 AND NOT EXISTS
                   (SELECT 1 FROM vectors WHERE fact = id AND model = ?2)
                 ORDER BY changed_ms DESC, id DESC LIMIT ?3",
            )?;
            let rows = select
                .query_map(params![project, model, count], |row| Ok((FactId(row.get(0)?), row.get(1)?)))?;
            rows.collect::<rusqlite::Result<Vec<_>>>()
        })?;
        Ok(found.unwrap_or_default())
    }

    /// Stores vectors of facts whose texts are still those that were embedded; returns the number of those stored.
    pub(crate) fn put_vectors(
        &self,
        model: &str,
        vectors: &[((FactId, String), Vec<f32>)],
    ) -> Result<usize, MemoryError> {
        self.change("write", |conn| {
            let mut stored = 0;
            for ((id, text), vector) in vectors {
                let Some(unit) = normalise(vector) else { continue };
                let blob: Vec<u8> = unit.iter().flat_map(|part| part.to_le_bytes()).collect();
                stored += conn
                    .prepare_cached(
                    "INSERT INTO vectors(fact, model, vector) SELECT id, ?2, ?3 FROM facts WHERE id = ?1 AND text = ?4
                     ON CONFLICT(fact, model) DO UPDATE SET vector = excluded.vector",
                )?
                .execute(params![id.0, model, blob, text])?;
            }
            Ok(Ok(stored))
        })?
    }

    /// Facts near a prompt by meaning, the nearest first.
    pub(crate) fn nearest(
        &self,
        model: &str,
        project: &Path,
        prompt: &[f32],
    ) -> Result<Vec<FactId>, MemoryError> {
        let Some(prompt) = normalise(prompt) else { return Ok(Vec::new()) };
        let project = project.to_string_lossy();
        let found = self.read(|conn| {
            let mut select = conn.prepare_cached(
                "SELECT id, vector FROM vectors JOIN facts ON id = fact
                 WHERE model = ?1 AND project IN (?2, '') AND is_proposed = 0",
            )?;
            let mut rows = select.query(params![model, project])?;
            let mut near = Vec::new();
            while let Some(row) = rows.next()? {
                let cosine = cosine(&prompt, row.get_ref(1)?.as_blob()?);
                if let Some(cosine) = cosine.filter(|cosine| *cosine >= MIN_COSINE) {
                    near.push((cosine, FactId(row.get(0)?)));
                }
            }
            Ok(near)
        })?;
        let mut near = found.unwrap_or_default();
        near.sort_by(|(one, a), (other, b)| other.total_cmp(one).then(b.cmp(a)));
        near.truncate(MAX_NEAREST);
        Ok(near.into_iter().map(|(_, id)| id).collect())
    }

    /// Merges facts found by words with those found by meaning, by reciprocal rank fusion.
    pub(crate) fn merge(
        &self,
        by_words: Recalled,
        near: &[FactId],
        query: &RecallQuery,
    ) -> Result<Recalled, MemoryError> {
        if near.is_empty() {
            return Ok(by_words);
        }
        let mut facts: HashMap<FactId, RecalledFact> = HashMap::new();
        let shares = (1_u32..).map(|place| 1.0 / (RANK_OFFSET + f64::from(place)));
        for (fact, share) in by_words.facts.into_iter().zip(shares.clone()) {
            facts.insert(fact.fact.id, RecalledFact { score: share, ..fact });
        }
        self.read(|conn| {
            for (id, share) in near.iter().zip(shares) {
                if let Some(known) = facts.get_mut(id) {
                    known.score += share;
                } else if let Some(fact) = find_fact(conn, *id)? {
                    facts
                        .insert(*id, RecalledFact { fact, score: share, words: vec![BY_MEANING.to_owned()] });
                }
            }
            Ok(())
        })?;
        let mut facts: Vec<RecalledFact> = facts.into_values().collect();
        facts.sort_by(|one, other| {
            let newer = |fact: &RecalledFact| Reverse(fact.fact.id);
            other.score.total_cmp(&one.score).then(newer(one).cmp(&newer(other)))
        });
        facts.truncate(query.max_facts);
        Ok(Recalled { facts })
    }
}

/// Normalised vector; `None` for one whose length is zero or not finite.
fn normalise(vector: &[f32]) -> Option<Vec<f32>> {
    let length = vector.iter().map(|part| part * part).sum::<f32>().sqrt();
    (length.is_finite() && length > 0.0).then(|| vector.iter().map(|part| part / length).collect())
}

/// Cosine of a normalised vector and a stored one; `None` if they have different dimensions.
fn cosine(prompt: &[f32], stored: &[u8]) -> Option<f32> {
    let (parts, rest) = stored.as_chunks::<4>();
    (rest.is_empty() && parts.len() == prompt.len())
        .then(|| prompt.iter().zip(parts).map(|(one, other)| one * f32::from_le_bytes(*other)).sum())
}
