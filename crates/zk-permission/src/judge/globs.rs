use crate::shell::{ANY_CHARACTER, ANY_TEXT};

/// Whether a word contains a file name pattern.
pub(super) fn has_pattern(word: &str) -> bool {
    word.contains([ANY_TEXT, ANY_CHARACTER])
}

/// Whether a name may match: both wildcards match any text, so that the encoding does not matter.
pub(super) fn is_match(pattern: &str, name: &str) -> bool {
    if name.starts_with('.') && !pattern.starts_with('.') {
        return false;
    }
    let mut pieces = pattern.split([ANY_TEXT, ANY_CHARACTER]);
    let first = pieces.next().unwrap_or_default();
    let last = pieces.next_back().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first).and_then(|rest| rest.strip_suffix(last)) else {
        return false;
    };
    pieces.all(|piece| match rest.split_once(piece) {
        Some((_, behind)) => {
            rest = behind;
            true
        }
        None => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches_all_that_bash_matches() {
        let pattern =
            |text: &str| text.replace('*', &ANY_TEXT.to_string()).replace('?', &ANY_CHARACTER.to_string());
        for (text, name, matches) in [
            ("*", "a", true),
            ("*", ".env", false),
            (".*", ".env", true),
            (".*", "..", true),
            ("*.rs", "a.rs", true),
            ("*.rs", "a.rst", false),
            ("a?c", "abc", true),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "acb", false),
            ("ab*ba", "aba", false),
            ("", "", true),
        ] {
            assert_eq!(is_match(&pattern(text), name), matches, "{text} {name}");
        }
    }
}
