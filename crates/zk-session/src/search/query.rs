/// Part of a search: words that follow one another.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Phrase {
    text: String,
    /// Whether the last word is only the beginning of a word.
    is_prefix: bool,
}

/// Converts what a person typed to a query of FTS5, for which any text is valid: words that all have to be in a text,
/// `"quoted phrases"`, and beginnings of words with a `*`. `None` if there is no letter and no digit in it.
pub(super) fn to_fts(typed: &str) -> Option<String> {
    let parts: Vec<String> = phrases(typed)
        .into_iter()
        .filter(|phrase| phrase.text.chars().any(char::is_alphanumeric))
        .map(|phrase| {
            // A quote inside of a string is doubled; phrases from here contain none.
            format!("\"{}\"{}", phrase.text.replace('"', "\"\""), if phrase.is_prefix { " *" } else { "" })
        })
        .collect();
    (!parts.is_empty()).then(|| parts.join(" "))
}

fn phrases(typed: &str) -> Vec<Phrase> {
    let mut phrases: Vec<Phrase> = Vec::new();
    for (at, part) in typed.split('"').enumerate() {
        let is_quoted = at % 2 == 1;
        if is_quoted {
            phrases.push(Phrase { text: part.replace('\0', " "), is_prefix: false });
            continue;
        }
        // A star right after a quote belongs to the phrase.
        let part = match (part.strip_prefix('*'), phrases.last_mut()) {
            (Some(rest), Some(last)) if at > 0 => {
                last.is_prefix = true;
                rest
            }
            _ => part,
        };
        for word in part.split(|c: char| c.is_whitespace() || c == '\0').filter(|word| !word.is_empty()) {
            let text = word.trim_end_matches('*');
            phrases.push(Phrase { text: text.to_owned(), is_prefix: text.len() < word.len() });
        }
    }
    phrases
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rusqlite::Connection;

    use super::*;

    #[test]
    fn words_phrases_and_beginnings_are_as_typed() {
        for (typed, query) in [
            ("full disk", r#""full" "disk""#),
            (r#""full disk" wal"#, r#""full disk" "wal""#),
            ("frobn*", r#""frobn" *"#),
            (r#""full di"* x"#, r#""full di" * "x""#),
            (r#"an "open quote"#, r#""an" "open quote""#),
            ("NOT (a OR b) AND c:d NEAR", r#""NOT" "(a" "OR" "b)" "AND" "c:d" "NEAR""#),
            ("-- ** foo", r#""foo""#),
        ] {
            assert_eq!(to_fts(typed).as_deref(), Some(query), "{typed}");
        }
        for nothing in ["", "  ", "\"\"", "*", "-- ++ \"!\""] {
            assert_eq!(to_fts(nothing), None, "{nothing}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_valid_query(typed in r#"[a-z"*(): \-+^{}ANDORNT\x00é漢]{0,40}|\PC{0,30}"#) {
            let conn = Connection::open_in_memory().unwrap();
            conn.execute_batch("CREATE VIRTUAL TABLE t USING fts5(text)").unwrap();
            if let Some(query) = to_fts(&typed) {
                let found: rusqlite::Result<i64> =
                    conn.query_row("SELECT count(*) FROM t WHERE t MATCH ?1", [query], |row| row.get(0));
                prop_assert_eq!(found.unwrap(), 0);
            }
        }
    }
}
