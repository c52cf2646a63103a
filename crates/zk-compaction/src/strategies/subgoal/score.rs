use crate::text::word_overlap::WordSet;

use super::registry::Tier;

/// Number of newest results that are compared with each other; older ones count as fully redundant.
const COMPARED_RESULTS: usize = 400;

/// Largest deduction for redundancy in the active subgoal, whose score stays above all others.
const MAX_ACTIVE_PENALTY: f64 = 0.5;

/// Results of one message.
#[derive(Debug)]
pub(super) struct Block {
    /// Index of the message.
    pub(super) index: usize,
    pub(super) tier: Tier,
    /// Text of the results; empty if the order does not need it.
    pub(super) text: String,
}

/// Indices of the messages whose results may be left out, in this order: by relevance, then oldest first.
pub(super) fn order_by_tier(blocks: &[Block]) -> Vec<usize> {
    order(blocks.iter().map(|block| (block, block.tier.relevance())).collect())
}

/// Orders as [`order_by_tier`] does, with a deduction for content that a result with a higher score repeats.
/// Compares all pairs, so it needs its own thread.
pub(super) fn order_by_gain(blocks: &[Block]) -> Vec<usize> {
    let mut sorted: Vec<&Block> = blocks.iter().collect();
    // Newer results come first, since they are still valid.
    sorted.sort_by(|one, other| {
        let by_relevance = other.tier.relevance().total_cmp(&one.tier.relevance());
        by_relevance.then_with(|| other.index.cmp(&one.index))
    });
    let mut higher: Vec<WordSet> = Vec::new();
    let mut scored = Vec::new();
    for (at, block) in sorted.into_iter().enumerate() {
        let redundancy = if at < COMPARED_RESULTS {
            let words = WordSet::of(&block.text);
            let most = higher.iter().map(|other| words.part_in(other)).fold(0.0, f64::max);
            higher.push(words);
            most
        } else {
            1.0
        };
        let redundancy =
            if block.tier == Tier::Active { redundancy.min(MAX_ACTIVE_PENALTY) } else { redundancy };
        scored.push((block, block.tier.relevance() - redundancy));
    }
    order(scored)
}

fn order(mut scored: Vec<(&Block, f64)>) -> Vec<usize> {
    scored.retain(|(block, _)| block.tier != Tier::Active);
    scored.sort_by(|(one, score), (other, other_score)| {
        score.total_cmp(other_score).then_with(|| one.index.cmp(&other.index))
    });
    scored.into_iter().map(|(block, _)| block.index).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(index: usize, tier: Tier, text: &str) -> Block {
        Block { index, tier, text: text.to_owned() }
    }

    #[test]
    fn results_of_no_subgoal_are_omitted_first_then_completed_ones_and_active_ones_never() {
        let blocks = [
            block(1, Tier::Completed, ""),
            block(3, Tier::Outdated, ""),
            block(5, Tier::Completed, ""),
            block(7, Tier::Outdated, ""),
            block(9, Tier::Active, ""),
        ];
        assert_eq!(order_by_tier(&blocks), [3, 7, 1, 5]);
    }

    #[test]
    fn redundant_results_are_omitted_before_unique_ones() {
        let blocks = [
            block(1, Tier::Completed, "alpha beta gamma delta"),
            block(3, Tier::Completed, "alpha beta gamma delta"),
            block(5, Tier::Outdated, "lone words nobody repeats"),
            block(7, Tier::Outdated, "omega sigma kappa"),
            block(9, Tier::Active, "omega sigma kappa"),
            block(11, Tier::Active, "omega sigma kappa"),
        ];
        assert_eq!(order_by_gain(&blocks), [7, 1, 5, 3], "both active ones stay, though they say the same");
    }
}
