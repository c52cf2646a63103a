use std::collections::{HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

use super::definitions::Definitions;

/// Most commands whose definitions are kept between the question and the call, since several calls may wait at once.
const MAX_SHOWN: usize = 32;

/// Definitions on the cards of commands whose calls have not run yet.
#[derive(Debug, Default)]
pub(super) struct ShownDefinitions {
    /// Commands with their definitions, the newest last.
    kept: VecDeque<(String, Definitions)>,
    /// Hashes of the commands whose definitions were dropped.
    dropped: HashSet<u64>,
}

/// Definitions on the card of one command.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Shown {
    /// No card was shown.
    Nothing,
    /// Definitions on the newest card.
    Definitions(Definitions),
    /// A card was shown, and its definitions were dropped.
    Forgotten,
}

impl ShownDefinitions {
    /// Keeps the definitions on the card of a command.
    pub(super) fn keep(&mut self, command: &str, definitions: Definitions) {
        self.kept.push_back((command.to_owned(), definitions));
        if self.kept.len() > MAX_SHOWN
            && let Some((command, _)) = self.kept.pop_front()
        {
            self.dropped.insert(hash(&command));
        }
    }

    /// Takes the definitions on the newest card of a command.
    pub(super) fn take(&mut self, command: &str) -> Shown {
        let at = self.kept.iter().rposition(|(kept, _)| kept == command);
        match at.and_then(|at| self.kept.remove(at)) {
            Some((_, definitions)) => Shown::Definitions(definitions),
            None if self.dropped.remove(&hash(command)) => Shown::Forgotten,
            None => Shown::Nothing,
        }
    }
}

fn hash(command: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    command.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_that_was_dropped_is_no_card_that_never_was() {
        let known = |text: &str| Definitions::Known { text: text.to_owned(), is_complete: true };
        let mut shown = ShownDefinitions::default();
        assert_eq!(shown.take("make"), Shown::Nothing);
        shown.keep("make", known("old"));
        shown.keep("make", known("new"));
        assert_eq!(shown.take("make"), Shown::Definitions(known("new")));
        for n in 0..MAX_SHOWN {
            shown.keep(&format!("other {n}"), Definitions::Unknown);
        }
        assert_eq!(shown.take("make"), Shown::Forgotten);
        assert_eq!(shown.take("make"), Shown::Nothing, "refused once; the next card is compared again");
        assert_eq!(shown.take("other 0"), Shown::Definitions(Definitions::Unknown));
    }
}
