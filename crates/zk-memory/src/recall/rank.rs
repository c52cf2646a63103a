//! Re-ranking of search results by project, age and use.

use crate::FactId;

/// Maximum number of facts that are ranked by more than their words.
pub(crate) const MAX_CANDIDATES: u32 = 64;

/// Share of the best score below which a fact is left out.
const MIN_SHARE_OF_BEST: f64 = 0.25;

/// Age at which half of the bonus of a new fact is left, in days.
const FRESH_DAYS: f64 = 30.0;

/// Bonus of a fact of the prompt's project, as a share of its relevance.
const PROJECT_BONUS: f64 = 0.25;
/// Bonus of a new fact, as a share of its relevance.
const FRESH_BONUS: f64 = 0.2;
/// Bonus for each doubling of the uses of a fact, as a share of its relevance.
const USE_BONUS: f64 = 0.05;

/// Maximum number of doublings of use that count.
const MAX_USE_DOUBLINGS: f64 = 6.0;

/// Fact that has words of the prompt.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Candidate {
    pub(crate) id: FactId,
    /// Relevance by words alone (BM25); higher is better.
    pub(crate) relevance: f64,
    pub(crate) is_of_project: bool,
    pub(crate) changed_ms: u64,
    pub(crate) uses: u64,
}

impl Candidate {
    fn score(&self, now_ms: u64) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "days and uses are far below 2^52")]
        let (days, uses) = (now_ms.saturating_sub(self.changed_ms) as f64 / 86_400_000.0, self.uses as f64);
        let fresh = FRESH_BONUS * FRESH_DAYS / (FRESH_DAYS + days);
        let used = USE_BONUS * (1.0 + uses).log2().min(MAX_USE_DOUBLINGS);
        let project = if self.is_of_project { PROJECT_BONUS } else { 0.0 };
        self.relevance * (1.0 + project + fresh + used)
    }
}

/// Selects the best candidates with their scores, the best first. Of equal scores, the newer fact is first.
pub(crate) fn select(candidates: Vec<Candidate>, now_ms: u64, most: usize) -> Vec<(Candidate, f64)> {
    let mut scored: Vec<(Candidate, f64)> = candidates
        .into_iter()
        .map(|candidate| {
            let score = candidate.score(now_ms);
            (candidate, score)
        })
        .collect();
    scored.sort_by(|(a, a_score), (b, b_score)| b_score.total_cmp(a_score).then(b.id.cmp(&a.id)));
    let best = scored.first().map_or(0.0, |(_, score)| *score);
    scored.retain(|(_, score)| *score >= best * MIN_SHARE_OF_BEST);
    scored.truncate(most);
    scored
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY_MS: u64 = 86_400_000;

    fn candidate(id: i64) -> Candidate {
        Candidate { id: FactId(id), relevance: 2.0, is_of_project: false, changed_ms: 100 * DAY_MS, uses: 0 }
    }

    #[test]
    fn of_equal_words_the_project_then_age_then_use_decide() {
        let plain = candidate(1);
        for better in [
            Candidate { is_of_project: true, ..candidate(2) },
            Candidate { changed_ms: 190 * DAY_MS, ..candidate(2) },
            Candidate { uses: 5, ..candidate(2) },
            Candidate { relevance: 2.1, ..candidate(2) },
        ] {
            for pair in [vec![plain.clone(), better.clone()], vec![better.clone(), plain.clone()]] {
                let first = select(pair, 200 * DAY_MS, 8).first().map(|(first, _)| first.id);
                assert_eq!(first, Some(FactId(2)), "{better:?}");
            }
        }
    }

    #[test]
    fn what_fits_far_less_than_the_best_is_left_out() {
        let weak = Candidate { relevance: 0.2, ..candidate(1) };
        let strong = Candidate { relevance: 9.0, ..candidate(2) };
        assert_eq!(select(vec![weak.clone(), strong], 0, 8).len(), 1);
        assert_eq!(select(vec![weak], 0, 8).len(), 1);
    }
}
