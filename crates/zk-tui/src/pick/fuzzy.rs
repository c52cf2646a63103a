use std::collections::HashSet;

/// Score of a name that starts with the query, or of a path whose file name does.
const PREFIX_BONUS: i32 = 4000;
const BEGINS_PART: i32 = 2000;

/// Fuzzy score of `name` for `query`, whose letters have to occur in order; higher is better. `None` without
/// a match. Case is ignored unless the query has capitals.
pub(super) fn score(query: &str, name: &str) -> Option<i32> {
    if query.is_empty() {
        return Some(0);
    }
    let with_case = query.bytes().any(|byte| byte.is_ascii_uppercase());
    let same = |a: char, b: char| a == b || (!with_case && a.eq_ignore_ascii_case(&b));
    // From the end: the file name counts most.
    let (mut wanted, mut score, mut run) = (query.chars().rev().peekable(), 0, 0);
    let mut letters = name.char_indices().rev().peekable();
    let last = name.trim_end_matches('/').rfind('/').map_or(0, |at| at + 1);
    while let Some((at, letter)) = letters.next() {
        let Some(next) = wanted.peek() else { break };
        if !same(*next, letter) {
            run = 0;
            continue;
        }
        wanted.next();
        run += 1;
        let begins = match letters.peek() {
            None => true,
            Some((_, before)) => {
                matches!(before, '/' | '_' | '-' | '.' | ' ' | '@')
                    || (before.is_lowercase() && letter.is_uppercase())
            }
        };
        score += 2 + 3 * (run - 1) + if begins { 6 } else { 0 } + if at >= last { 3 } else { 0 };
    }
    if wanted.peek().is_some() {
        return None;
    }
    // A name that starts with the query comes first.
    let begins = |part: &str| {
        part.get(..query.len()).is_some_and(|start| start.chars().zip(query.chars()).all(|(a, b)| same(a, b)))
    };
    let part = name.get(last..).unwrap_or_default();
    score += if begins(name) {
        PREFIX_BONUS
    } else if begins(part) {
        BEGINS_PART
    } else {
        0
    };
    // Of equally good matches, the shorter one ranks higher.
    let length = i32::try_from(name.len()).unwrap_or(i32::MAX).min(1000);
    Some(score * 16 - length)
}

/// Indexes of the `most` best matches, best first; equally good ones keep their order.
pub(crate) fn best_matches(query: &str, names: &[String], most: usize) -> Vec<usize> {
    let mut found: Vec<(i32, usize)> =
        names.iter().enumerate().filter_map(|(at, name)| Some((score(query, name)?, at))).collect();
    if query.is_empty() {
        found.truncate(most);
    } else {
        let order = |a: &(i32, usize), b: &(i32, usize)| b.0.cmp(&a.0).then(a.1.cmp(&b.1));
        if found.len() > most {
            found.select_nth_unstable_by(most, order);
            found.truncate(most);
        }
        found.sort_unstable_by(order);
    }
    found.into_iter().map(|(_, at)| at).collect()
}

/// Indexes of the best matches, then of other names whose content, in lower case, has each word of the query.
pub(super) fn matches_with_contents(
    query: &str,
    names: &[String],
    contents: &[String],
    most: usize,
) -> Vec<usize> {
    let mut found = best_matches(query, names, most);
    let query = query.to_lowercase();
    let words: Vec<&str> = query.split_whitespace().collect();
    if !words.is_empty() {
        let known: HashSet<usize> = found.iter().copied().collect();
        let has_words = |content: &String| words.iter().all(|word| content.contains(word));
        let others =
            contents.iter().enumerate().filter(|(at, content)| !known.contains(at) && has_words(content));
        found.extend(others.map(|(at, _)| at).take(most.saturating_sub(known.len())));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_contents_are_found_behind_matching_names() {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<String>>();
        let names = texts(&["fix the parser", "write notes", "release"]);
        let contents = texts(&["a loop over tokens", "the parser has a loop", "of tokens only"]);
        assert_eq!(matches_with_contents("parser", &names, &contents, 10), [0, 1]);
        assert_eq!(matches_with_contents("LOOP tokens", &names, &contents, 10), [0]);
        assert_eq!(matches_with_contents("", &names, &contents, 2), [0, 1]);
        assert_eq!(matches_with_contents("tokens", &names, &[], 10), Vec::<usize>::new());
        assert_eq!(matches_with_contents("parser", &names, &contents, 1), [0]);
    }

    #[test]
    fn the_best_match_is_first_and_others_are_left_out() {
        let names: Vec<String> = [
            "crates/zk-tui/src/app/mod.rs",
            "crates/zk-cli/src/main.rs",
            "docs/map.md",
            "crates/zk-core/src/model/message.rs",
            "src/main_test.rs",
        ]
        .map(str::to_owned)
        .into();
        let best = |query: &str| {
            best_matches(query, &names, 3).iter().map(|at| names[*at].as_str()).collect::<Vec<_>>()
        };
        assert_eq!(best("main.rs").first(), Some(&"crates/zk-cli/src/main.rs"));
        assert_eq!(best("tuiapp").first(), Some(&"crates/zk-tui/src/app/mod.rs"));
        assert_eq!(best("map"), ["docs/map.md"]);
        assert_eq!(best("MAP"), Vec::<&str>::new());
        assert_eq!(best("xyz"), Vec::<&str>::new());
        assert_eq!(best("").len(), 3);
    }

    #[test]
    fn names_that_begin_with_what_is_typed_come_first() {
        let names: Vec<String> =
            ["a/model/x.rs", "crates/models.rs", "model", "remodel", "models/"].map(str::to_owned).into();
        let best: Vec<&str> = best_matches("model", &names, 9).iter().map(|at| names[*at].as_str()).collect();
        assert_eq!(best[..3], ["model", "models/", "crates/models.rs"]);
    }

    #[test]
    fn any_query_can_be_scored_against_any_name() {
        for query in ["", "漢", "é/", "\u{200d}", "AaA"] {
            for name in ["", "漢字/é", "👩\u{200d}🚀", "aaa"] {
                let fits = score(query, name).is_some();
                assert!(fits || !query.is_empty(), "{query} in {name}");
            }
        }
    }
}
