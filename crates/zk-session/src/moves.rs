use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

/// Moves of a log's leaf, by which the rows of each branch are known. Between two moves, each row follows the one before it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Moves(Vec<Move>);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Move {
    /// First row of the branch that the move began.
    row: i64,
    /// Row that the branch continues from; 0 for none.
    to: i64,
    /// Whether a message follows on the branch before the next move.
    #[serde(default)]
    has_message: bool,
}

impl Moves {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a move. Moves are added in the order of their rows.
    pub(crate) fn add(&mut self, row: i64, to: i64) {
        self.0.push(Move { row, to, has_message: false });
    }

    /// Records that a row contains a message.
    pub(crate) fn note_message(&mut self, row: i64) {
        if let Some(last) = self.0.last_mut().filter(|last| last.row < row) {
            last.has_message = true;
        }
    }

    /// Records that the branch that begins with this row has a message.
    pub(crate) fn note_message_of(&mut self, row: i64) {
        if let Ok(at) = self.0.binary_search_by_key(&row, |one| one.row)
            && let Some(one) = self.0.get_mut(at)
        {
            one.has_message = true;
        }
    }

    /// Rows that begin a branch after row `after`, each with the last row before the next move.
    pub(crate) fn sections(&self, after: i64, last: i64) -> impl Iterator<Item = (i64, i64)> {
        let ends = self.0.iter().skip(1).map(|next| next.row - 1).chain([last]);
        self.0.iter().map(|one| one.row).zip(ends).filter(move |(row, _)| *row > after)
    }

    /// Rows of the branch that ends with row `leaf`, oldest first.
    pub(crate) fn branch(&self, leaf: i64) -> Vec<RangeInclusive<i64>> {
        let (mut ranges, mut end) = (Vec::new(), leaf);
        for one in self.0.iter().rev() {
            if one.row <= end {
                ranges.push(one.row..=end);
                end = one.to;
            }
        }
        if end > 0 {
            ranges.push(1..=end);
        }
        ranges.reverse();
        ranges
    }

    /// Number of branches. Each continuation of the same row counts as one, once it has a message.
    pub(crate) fn count_branches(&self) -> u64 {
        let begins = |row: i64| self.0.binary_search_by_key(&row, |one| one.row).is_ok();
        let mut count = 1;
        for (at, one) in self.0.iter().enumerate().filter(|(_, one)| one.has_message) {
            let next = one.to + 1;
            let follows = next < one.row && !begins(next);
            let is_taken = || self.0.iter().take(at).any(|other| other.has_message && other.to == one.to);
            count += u64::from(follows || is_taken());
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_branch_of_each_row_leaves_the_others_out() {
        let mut moves = Moves::default();
        assert_eq!((moves.branch(4), moves.branch(0)), (vec![1..=4], vec![]));
        // Rows 1 to 10; 11 to 14 after row 5; 15 to 16 after row 12; 17 to 18 from the beginning.
        for (row, to) in [(11, 5), (15, 12), (17, 0)] {
            moves.add(row, to);
        }
        assert_eq!(moves.branch(10), [1..=10]);
        assert_eq!(moves.branch(14), [1..=5, 11..=14]);
        assert_eq!(moves.branch(16), [1..=5, 11..=12, 15..=16]);
        assert_eq!(moves.branch(18), [17..=18]);
    }

    #[test]
    fn a_branch_counts_from_its_first_message_on() {
        let mut moves = Moves::default();
        moves.add(11, 5);
        assert_eq!(moves.count_branches(), 1);
        moves.note_message(12);
        assert_eq!(moves.count_branches(), 2);
        // The tip of the first branch goes on, which makes no other branch.
        moves.add(13, 10);
        moves.note_message(14);
        assert_eq!(moves.count_branches(), 2);
        moves.add(15, 10);
        moves.note_message(16);
        assert_eq!(moves.count_branches(), 3);
    }
}
