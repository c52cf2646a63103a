//! Placeholders for arguments in the text of a command or skill.

use std::iter::Peekable;
use std::str::CharIndices;

/// Splits a line into words; quotes keep words together.
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

/// Arguments of a call: the line and its words.
pub(crate) struct Arguments<'a> {
    line: &'a str,
    words: Vec<String>,
    /// Whether `$0` is the first word, and a placeholder without a word is left unchanged.
    is_from_zero: bool,
}

/// Value of a placeholder.
enum Value<'a> {
    Line(&'a str),
    Words(&'a [String]),
}

/// Error: a placeholder in a command is at a position where quoting cannot be made safe.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("an argument stands where quotes cannot keep it apart from the command; give it a plain place")]
pub(crate) struct UnclearPlace;

impl<'a> Arguments<'a> {
    pub(crate) fn new(line: &'a str) -> Self {
        Self { line: line.trim(), words: words(line), is_from_zero: false }
    }

    /// Arguments for a text of a bundle: `$0` and `$ARGUMENTS[0]` are the first word, `$@` is no placeholder.
    pub(crate) fn from_zero(line: &'a str) -> Self {
        Self { is_from_zero: true, ..Self::new(line) }
    }

    /// Replaces the placeholders in `text`: `$ARGUMENTS` and `$@` by all arguments, `$1` to `$9` by one,
    /// `${@:2}` by those from the second on and `${@:2:3}` by three of them. `$$` stays unchanged.
    ///
    /// Also returns whether there was a placeholder.
    pub(crate) fn substitute(&self, text: &str) -> (String, bool) {
        let mut out = String::with_capacity(text.len() + self.line.len());
        let (mut rest, mut used) = (text, false);
        while let Some(at) = rest.find('$') {
            let (before, from) = rest.split_at(at);
            out.push_str(before);
            match self.parse_placeholder(from) {
                Some((value, length)) => {
                    used = true;
                    out.push_str(&value.text());
                    rest = from.get(length..).unwrap_or_default();
                }
                None => {
                    // `$$` is never a placeholder.
                    let length = if from.starts_with("$$") { 2 } else { 1 };
                    out.push_str(from.get(..length).unwrap_or_default());
                    rest = from.get(length..).unwrap_or_default();
                }
            }
        }
        out.push_str(rest);
        (out, used)
    }

    /// Replaces placeholders in a shell command, where each argument has to be a word and never code.
    ///
    /// # Errors
    /// [`UnclearPlace`].
    pub(crate) fn substitute_quoted(&self, command: &str) -> Result<(String, bool), UnclearPlace> {
        let mut out = String::with_capacity(command.len() + self.line.len());
        let (mut quotes, mut used) = (Quotes::new(command), false);
        let mut chars = command.char_indices().peekable();
        while let Some((at, c)) = chars.next() {
            let place =
                if c == '$' { self.parse_placeholder(command.get(at..).unwrap_or_default()) } else { None };
            if let Some((value, length)) = place {
                if quotes.is_unclear {
                    return Err(UnclearPlace);
                }
                used = true;
                out.push_str(&quotes.quote_here(&value));
                while chars.next_if(|(next, _)| *next < at + length).is_some() {}
                quotes.before = None;
                continue;
            }
            out.push(c);
            if quotes.skips_next(c) || (c == '$' && chars.peek().is_some_and(|(_, next)| *next == '$')) {
                out.extend(next(&mut chars));
                quotes.before = None;
            } else {
                quotes.read_char(c);
            }
        }
        Ok((out, used))
    }

    /// Parses the placeholder at the beginning of `text`; returns its value and length.
    fn parse_placeholder(&self, text: &str) -> Option<(Value<'_>, usize)> {
        if self.is_from_zero {
            return self.parse_from_zero(text);
        }
        if text.starts_with("$ARGUMENTS") {
            return Some((Value::Line(self.line), "$ARGUMENTS".len()));
        }
        if text.starts_with("$@") {
            return Some((Value::Words(&self.words), 2));
        }
        let from = |from: usize, count: usize| {
            let begin = (from.max(1) - 1).min(self.words.len());
            let end = begin.saturating_add(count).min(self.words.len());
            Value::Words(self.words.get(begin..end).unwrap_or_default())
        };
        if let Some(rest) = text.strip_prefix("${@:") {
            let (inner, _) = rest.split_once('}')?;
            let (first, count) = match inner.split_once(':') {
                Some((first, count)) => (first.parse::<usize>().ok()?, count.parse::<usize>().ok()?),
                None => (inner.parse::<usize>().ok()?, usize::MAX),
            };
            return Some((from(first, count), "${@:".len() + inner.len() + 1));
        }
        let mut digits = text.chars().skip(1);
        let number = digits.next()?.to_digit(10).filter(|number| *number > 0)?;
        // `$10`, and prices such as `$100`, are no placeholders.
        if digits.next().is_some_and(|c| c.is_ascii_digit()) {
            return None;
        }
        Some((from(number as usize, 1), 2))
    }
}

impl Arguments<'_> {
    fn parse_from_zero(&self, text: &str) -> Option<(Value<'_>, usize)> {
        let word = |at: usize| self.words.get(at..at.checked_add(1)?).map(Value::Words);
        if let Some(rest) = text.strip_prefix("$ARGUMENTS") {
            let index = rest.strip_prefix('[').and_then(|rest| rest.split_once(']'));
            let index = index.and_then(|(digits, _)| Some((digits.parse::<usize>().ok()?, digits.len() + 2)));
            return match index {
                Some((at, length)) => Some((word(at)?, "$ARGUMENTS".len() + length)),
                None => Some((Value::Line(self.line), "$ARGUMENTS".len())),
            };
        }
        let mut digits = text.chars().skip(1);
        let number = digits.next()?.to_digit(10)?;
        if digits.next().is_some_and(|c| c.is_ascii_digit()) {
            return None;
        }
        Some((word(number as usize)?, 2))
    }
}

fn next(chars: &mut Peekable<CharIndices<'_>>) -> Option<char> {
    chars.next().map(|(_, c)| c)
}

impl Value<'_> {
    fn text(&self) -> String {
        match self {
            Self::Line(line) => (*line).to_owned(),
            Self::Words(words) => words.join(" "),
        }
    }
}

/// Quotes that are open at a position of a shell command.
struct Quotes {
    /// Open quotes, the innermost last: `'`, `"`, and `(` for a command substitution.
    open: Vec<char>,
    /// Previous character, unless it was quoted.
    before: Option<char>,
    /// Whether the command has syntax whose quoting is not supported.
    is_unclear: bool,
}

impl Quotes {
    fn new(command: &str) -> Self {
        // Branches of a `case` have unpaired parentheses.
        let has_case = command.split(|c: char| !c.is_alphanumeric()).any(|word| word == "case");
        Self { open: Vec::new(), before: Some(' '), is_unclear: has_case }
    }

    /// Whether the shell takes the next character literally.
    fn skips_next(&self, c: char) -> bool {
        c == '\\' && self.open.last() != Some(&'\'')
    }

    fn read_char(&mut self, c: char) {
        let before = self.before.replace(c);
        match (self.open.last().copied(), c) {
            (Some('\''), '\'') | (Some('"'), '"') | (Some('('), ')') => {
                self.open.pop();
            }
            (Some('\''), _) => {}
            // `${x:-…}` or arithmetic.
            (_, '{' | '[') if before == Some('$') => self.is_unclear = true,
            (Some('"'), '(') if before == Some('$') => self.open.push(c),
            (Some('"'), _) => {}
            (_, '(') => {
                // `((` begins arithmetic.
                self.is_unclear |= before == Some('(');
                self.open.push(c);
            }
            (_, '"') => self.open.push(c),
            (_, '\'') => {
                // `$'…'` has escapes.
                self.is_unclear |= before == Some('$');
                self.open.push(c);
            }
            (_, ')') => self.is_unclear = true,
            // Here document.
            (_, '<') => self.is_unclear |= before == Some('<'),
            // Comment, in which quotes have no meaning.
            (_, '#') => {
                self.is_unclear |= before.is_none_or(|c| c.is_whitespace() || ";&|()<>".contains(c));
            }
            _ => {}
        }
    }

    /// Quotes a value for this position.
    fn quote_here(&self, value: &Value<'_>) -> String {
        let all = |words: &[String]| words.iter().map(|word| in_quotes(word)).collect::<Vec<_>>().join(" ");
        match (self.open.last(), value) {
            (Some('\''), value) => value.text().replace('\'', r"'\''"),
            (Some('"'), Value::Line(line)) => format!("\"{}\"", in_quotes(line)),
            (Some('"'), Value::Words(words)) => format!("\"{}\"", all(words)),
            (_, Value::Line(line)) => all(&words(line)),
            (_, Value::Words(words)) => all(words),
        }
    }
}

fn in_quotes(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
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
    fn placeholders_are_replaced_by_arguments() {
        let given = Arguments::new(r#"a "b c" d"#);
        for (text, wanted) in [
            ("do $1 then $2.", "do a then b c."),
            ("all: $ARGUMENTS", r#"all: a "b c" d"#),
            ("all: $@", "all: a b c d"),
            ("from 2: ${@:2}", "from 2: b c d"),
            ("one from 2: ${@:2:1}!", "one from 2: b c!"),
            ("none: $9", "none: "),
            ("costs $100, $$1, $x ${@:z}", "costs $100, $$1, $x ${@:z}"),
        ] {
            assert_eq!(given.substitute(text).0, wanted);
        }
        assert!(!Arguments::new("a").substitute("nothing here: $100").1);
        assert!(Arguments::new("").substitute("$1").1);
    }

    #[test]
    fn arguments_of_a_bundles_text_are_counted_from_zero() {
        let given = Arguments::from_zero(r#"a "b c""#);
        for (text, wanted) in [
            ("$0, then $1.", "a, then b c."),
            ("all: $ARGUMENTS", r#"all: a "b c""#),
            ("$ARGUMENTS[1]|$ARGUMENTS[0]", "b c|a"),
            ("$2 $ARGUMENTS[7] $100 $@", "$2 $ARGUMENTS[7] $100 $@"),
        ] {
            assert_eq!(given.substitute(text).0, wanted);
        }
    }

    #[test]
    fn a_shell_reads_arguments_in_a_command_as_words_whatever_they_are() {
        let evil = "'; echo 1; $(echo 2) \"`echo 3`\" \\";
        let line = format!("\"{}\" b", evil.replace('"', ""));
        let given = Arguments::new(&line);
        let word = evil.replace('"', "");
        for (command, wanted) in [
            ("printf '[%s]' $1", format!("[{word}]")),
            ("printf '[%s]' \"$1\"", format!("[{word}]")),
            ("printf '[%s]' 'x$1'y", format!("[x{word}y]")),
            ("printf '[%s]' \"$@\" \\$1 $9", format!("[{word}][b][$1]")),
            ("printf '[%s]' \"$(printf %s \"<$1>\")\"", format!("[<{word}>]")),
            ("printf '[%s]' \"$ARGUMENTS\"", format!("[{line}]")),
            ("printf '[%s]' ${@:2}", "[b]".to_owned()),
        ] {
            let (command, used) = given.substitute_quoted(command).unwrap();
            #[expect(clippy::disallowed_methods, reason = "the shell itself says how it reads a line")]
            let ran = std::process::Command::new("/bin/sh").args(["-c", &command]).output().unwrap();
            assert_eq!(String::from_utf8_lossy(&ran.stdout), wanted, "{command}");
            assert!(used && ran.stderr.is_empty(), "{command}: {ran:?}");
        }
        for command in [
            "echo x # $1",
            "echo $'a' $1",
            "echo \"${x:-$1}\"",
            "echo $(($1))",
            "cat <<x $1",
            "case x in y) echo $1;; esac",
        ] {
            assert_eq!(given.substitute_quoted(command), Err(UnclearPlace), "{command}");
        }
        assert_eq!(given.substitute_quoted("echo $x ${y}").unwrap(), ("echo $x ${y}".to_owned(), false));
    }
}
