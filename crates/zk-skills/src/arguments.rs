//! Arguments in the text of a command or a skill.

/// The words of a line, where quotes hold words together.
pub(crate) fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let (mut word, mut quote) = (None::<String>, None::<char>);
    for c in line.chars() {
        match quote {
            Some(sign) if c == sign => quote = None,
            Some(_) => word.get_or_insert_default().push(c),
            None if c == '"' || c == '\'' => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            None if c.is_whitespace() => words.extend(word.take()),
            None => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

/// Puts `arguments` in the places that `text` has for them: `$ARGUMENTS` and `$@` for all of them, `$1` to `$9` for one,
/// `${@:2}` for those from the second on and `${@:2:3}` for three of them. `$$` stays as it is written.
///
/// Gives also whether there was a place for them.
pub(crate) fn substitute(text: &str, arguments: &str) -> (String, bool) {
    let given = words(arguments);
    let mut out = String::with_capacity(text.len() + arguments.len());
    let (mut rest, mut used) = (text, false);
    while let Some(at) = rest.find('$') {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        match place(from, arguments, &given) {
            Some((value, length)) => {
                used = true;
                out.push_str(&value);
                rest = from.get(length..).unwrap_or_default();
            }
            None => {
                // Two in a row are no place, whatever follows.
                let length = if from.starts_with("$$") { 2 } else { 1 };
                out.push_str(from.get(..length).unwrap_or_default());
                rest = from.get(length..).unwrap_or_default();
            }
        }
    }
    out.push_str(rest);
    (out, used)
}

/// The value of the place at the beginning of `text`, and its length.
fn place(text: &str, arguments: &str, given: &[String]) -> Option<(String, usize)> {
    if text.starts_with("$ARGUMENTS") {
        return Some((arguments.trim().to_owned(), "$ARGUMENTS".len()));
    }
    if text.starts_with("$@") {
        return Some((given.join(" "), 2));
    }
    if let Some(rest) = text.strip_prefix("${@:") {
        let (inner, _) = rest.split_once('}')?;
        let (from, count) = match inner.split_once(':') {
            Some((from, count)) => (from.parse::<usize>().ok()?, count.parse::<usize>().ok()?),
            None => (inner.parse::<usize>().ok()?, usize::MAX),
        };
        let slice: Vec<&str> = given.iter().skip(from.max(1) - 1).take(count).map(String::as_str).collect();
        return Some((slice.join(" "), "${@:".len() + inner.len() + 1));
    }
    let mut digits = text.chars().skip(1);
    let number = digits.next()?.to_digit(10).filter(|number| *number > 0)?;
    // `$10` and prices such as `$100` are none.
    if digits.next().is_some_and(|c| c.is_ascii_digit()) {
        return None;
    }
    Some((given.get(number as usize - 1).cloned().unwrap_or_default(), 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_hold_words_together() {
        assert_eq!(words(r#"a "b c" d'e f'g "" "#), ["a", "b c", "de fg", ""]);
        assert_eq!(words("  "), Vec::<String>::new());
    }

    #[test]
    fn arguments_come_to_their_places() {
        for (text, wanted) in [
            ("do $1 then $2.", "do a then b c."),
            ("all: $ARGUMENTS", r#"all: a "b c" d"#),
            ("all: $@", "all: a b c d"),
            ("from 2: ${@:2}", "from 2: b c d"),
            ("one from 2: ${@:2:1}!", "one from 2: b c!"),
            ("none: $9", "none: "),
            ("costs $100, $$1, $x ${@:z}", "costs $100, $$1, $x ${@:z}"),
        ] {
            assert_eq!(substitute(text, r#"a "b c" d"#).0, wanted);
        }
        assert!(!substitute("nothing here: $100", "a").1);
        assert!(substitute("$1", "").1);
    }
}
