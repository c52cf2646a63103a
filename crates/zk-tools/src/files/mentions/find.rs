/// Maximum number of examined mentions in a text: a pasted log may contain many.
const MAX_MENTIONS: usize = 200;

/// Characters after a mention that belong to the sentence, unless a file has such a name.
const PUNCTUATION: &[char] = &['.', ',', ';', ':', '!', '?', ')', ']', '}', '>', '\'', '"', '`', '…'];

/// A file that a text may name, as one of the readings of an `@` in it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Mention {
    pub(super) path: String,
    /// First and last requested line; all lines if `None`.
    pub(super) lines: Option<(u64, u64)>,
}

impl Mention {
    fn whole(path: &str) -> Self {
        Self { path: path.to_owned(), lines: None }
    }

    /// The mention as a person writes it.
    pub(super) fn label(&self, shown: &str) -> String {
        match self.lines {
            Some((first, last)) if first == last => format!("{shown}:{first}"),
            Some((first, last)) => format!("{shown}:{first}-{last}"),
            None => shown.to_owned(),
        }
    }
}

/// The `@` signs of a text that may name a file, in order: the readings of each, the longest name first.
pub(super) fn mentions(text: &str) -> Vec<Vec<Mention>> {
    let mut found = Vec::new();
    let mut before = None;
    for (at, c) in text.char_indices() {
        let begins = c == '@' && before.is_none_or(|c: char| c.is_whitespace() || matches!(c, '(' | '['));
        before = Some(c);
        let Some(rest) = text.get(at + 1..).filter(|_| begins) else { continue };
        let readings = match rest.strip_prefix('"') {
            Some(quoted) => in_quotes(quoted).into_iter().collect(),
            None => readings(rest.split(char::is_whitespace).next().unwrap_or_default()),
        };
        if !readings.is_empty() {
            found.push(readings);
        }
        if found.len() == MAX_MENTIONS {
            break;
        }
    }
    found
}

/// The mention of a name in quotes, behind the first of them.
fn in_quotes(text: &str) -> Option<Mention> {
    let (path, rest) = text.split_once('"')?;
    if path.is_empty() || path.contains('\n') {
        return None;
    }
    let lines = rest.split(char::is_whitespace).next().unwrap_or_default().trim_end_matches(PUNCTUATION);
    let lines = lines.strip_prefix(':').and_then(lines_of);
    Some(Mention { path: path.to_owned(), lines })
}

/// Interpretations of a word: a name, a name with lines, or either without trailing punctuation.
fn readings(word: &str) -> Vec<Mention> {
    let bare = word.trim_end_matches(PUNCTUATION);
    let mut all = Vec::new();
    for word in std::iter::once(word).chain((bare != word).then_some(bare)) {
        let with_lines = word
            .rsplit_once(':')
            .and_then(|(path, lines)| Some(Mention { path: path.to_owned(), lines: Some(lines_of(lines)?) }));
        all.extend([Some(Mention::whole(word)), with_lines].into_iter().flatten());
    }
    // `@@` begins a part of a diff, and a path that begins with it would be another one.
    all.retain(|mention| !mention.path.starts_with('@') && !mention.path.trim_matches(['.', '/']).is_empty());
    all
}

/// Lines as `10` or `10-40`.
fn lines_of(text: &str) -> Option<(u64, u64)> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (first > 0 && first <= last).then_some((first, last))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first_readings(text: &str) -> Vec<Vec<String>> {
        let label = |mention: &Mention| mention.label(&mention.path);
        mentions(text).iter().map(|readings| readings.iter().map(label).collect()).collect()
    }

    #[test]
    fn an_at_sign_before_a_word_may_name_a_file_and_its_lines() {
        for (text, expected) in [
            ("look at @cart.py", vec![vec!["cart.py"]]),
            (
                "@src/a.rs:10-40 and @b.rs:7",
                vec![vec!["src/a.rs:10-40", "src/a.rs:10-40"], vec!["b.rs:7", "b.rs:7"]],
            ),
            ("(see @cart.py).", vec![vec!["cart.py).", "cart.py"]]),
            ("@\"a b.txt\":3-4, please", vec![vec!["a b.txt:3-4"]]),
            ("mail me@cart.py @ home, @\"open", vec![]),
            ("@@ -1,4 +1,6 @@ @.. @/ @./", vec![]),
            ("@src/ and more", vec![vec!["src/"]]),
        ] {
            assert_eq!(first_readings(text), expected, "{text}");
        }
        assert_eq!(lines_of("0-3"), None);
        assert_eq!(lines_of("9-3"), None);
        assert_eq!(mentions(&"@x ".repeat(1000)).len(), MAX_MENTIONS);
    }
}
