use super::{NotUnderstood, Obstacle};

/// Longest text that is judged, in bytes.
pub(crate) const MAX_SCRIPT_BYTES: usize = 4_096;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) at: usize,
    pub(super) kind: TokenKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TokenKind {
    Word(Word),
    /// `;` or a line end; true for a line end.
    Separator(bool),
    And,
    Or,
    Pipe,
    /// `<`, `>` or `>>`; the next word is the path.
    Redirect(Direction),
    /// Complete duplication such as `>&1`.
    Duplicate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Read,
    Write,
    Append,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Word {
    pub(crate) text: String,
    /// Whether a part of the word was quoted.
    pub(crate) is_quoted: bool,
    /// Bytes of `text` before the first quoted character.
    pub(super) bare: usize,
}

/// Refuses characters that make a text look different from its meaning.
fn check_characters(text: &str) -> Result<(), NotUnderstood> {
    if text.len() > MAX_SCRIPT_BYTES {
        return Err(NotUnderstood { at: MAX_SCRIPT_BYTES, what: Obstacle::TooLong });
    }
    for (at, found) in text.char_indices() {
        let what = match found {
            '\n' | '\t' => continue,
            found if found.is_control() => Obstacle::Control(found),
            found if !found.is_ascii() && is_invisible(found) => Obstacle::Invisible(found),
            _ => continue,
        };
        return Err(NotUnderstood { at, what });
    }
    Ok(())
}

/// Non-ASCII blanks, zero-width characters, and characters that change the text's direction.
fn is_invisible(found: char) -> bool {
    found.is_whitespace()
        || matches!(found,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// Placeholder for `*` as a file name pattern.
pub(crate) const ANY_TEXT: char = '\u{e000}';

/// Placeholder for `?` as a file name pattern.
pub(crate) const ANY_CHARACTER: char = '\u{e001}';

pub(super) fn tokens(text: &str, has_patterns: bool) -> Result<Vec<Token>, NotUnderstood> {
    check_characters(text)?;
    if let Some(at) = text.find([ANY_TEXT, ANY_CHARACTER]).filter(|_| has_patterns) {
        return Err(NotUnderstood { at, what: Obstacle::Invisible(ANY_TEXT) });
    }
    let mut lexer = Lexer { text, at: 0, tokens: Vec::new(), has_stars: false, has_patterns };
    while lexer.next()? {}
    Ok(lexer.tokens)
}

/// Words of a command pattern, with unquoted `*` and `**` as separate words.
pub(crate) fn pattern_words(text: &str) -> Result<Vec<Word>, NotUnderstood> {
    check_characters(text)?;
    let mut lexer = Lexer { text, at: 0, tokens: Vec::new(), has_stars: true, has_patterns: false };
    while lexer.next()? {}
    let word = |token: Token| match token.kind {
        TokenKind::Word(word) => Ok(word),
        _ => Err(NotUnderstood { at: token.at, what: Obstacle::Operator }),
    };
    lexer.tokens.into_iter().map(word).collect()
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    tokens: Vec<Token>,
    /// Whether `*` and `**` are separate words.
    has_stars: bool,
    /// Whether unquoted `*` and `?` are file name patterns.
    has_patterns: bool,
}

impl Lexer<'_> {
    fn peek(&self) -> Option<char> {
        self.text.get(self.at..)?.chars().next()
    }

    fn take(&mut self) -> Option<char> {
        let found = self.peek()?;
        self.at += found.len_utf8();
        Some(found)
    }

    fn take_if(&mut self, wanted: char) -> bool {
        let is_there = self.peek() == Some(wanted);
        if is_there {
            self.at += wanted.len_utf8();
        }
        is_there
    }

    fn push(&mut self, at: usize, kind: TokenKind) {
        self.tokens.push(Token { at, kind });
    }

    /// Reads one token; returns false at the end.
    fn next(&mut self) -> Result<bool, NotUnderstood> {
        while self.peek().is_some_and(|found| matches!(found, ' ' | '\t')) {
            self.take();
        }
        let at = self.at;
        let refuse = |what| Err(NotUnderstood { at, what });
        let Some(found) = self.peek() else { return Ok(false) };
        match found {
            '#' => {
                while self.peek().is_some_and(|found| found != '\n') {
                    self.take();
                }
            }
            '\n' => {
                self.take();
                self.push(at, TokenKind::Separator(true));
            }
            ';' => {
                self.take();
                if self.peek().is_some_and(|found| matches!(found, ';' | '&')) {
                    return refuse(Obstacle::Operator);
                }
                self.push(at, TokenKind::Separator(false));
            }
            '&' => {
                self.take();
                if !self.take_if('&') {
                    let is_redirect = self.peek() == Some('>');
                    return refuse(if is_redirect { Obstacle::Operator } else { Obstacle::Background });
                }
                self.push(at, TokenKind::And);
            }
            '|' => {
                self.take();
                if self.take_if('|') {
                    self.push(at, TokenKind::Or);
                } else if self.peek() == Some('&') {
                    return refuse(Obstacle::Operator);
                } else {
                    self.push(at, TokenKind::Pipe);
                }
            }
            '<' | '>' => self.read_redirect()?,
            _ => self.read_word()?,
        }
        Ok(true)
    }

    fn read_redirect(&mut self) -> Result<(), NotUnderstood> {
        let at = self.at;
        let refuse = |what| Err(NotUnderstood { at, what });
        let is_read = self.take() == Some('<');
        match (is_read, self.peek()) {
            (true, Some('<')) => refuse(Obstacle::HereDocument),
            (_, Some('(')) => refuse(Obstacle::Parenthesis('(')),
            (true, Some('&' | '>')) | (false, Some('|' | '<')) => refuse(Obstacle::Operator),
            (true, _) => {
                self.push(at, TokenKind::Redirect(Direction::Read));
                Ok(())
            }
            (false, Some('>')) => {
                self.take();
                if self.peek().is_some_and(|found| matches!(found, '&' | '|' | '>' | '<' | '(')) {
                    return refuse(Obstacle::Operator);
                }
                self.push(at, TokenKind::Redirect(Direction::Append));
                Ok(())
            }
            (false, Some('&')) => {
                self.take();
                let is_standard = self.take().is_some_and(|found| matches!(found, '1' | '2'));
                let ends =
                    self.peek().is_none_or(|found| matches!(found, ' ' | '\t' | '\n' | ';' | '|' | '&'));
                if !is_standard || !ends {
                    return refuse(Obstacle::Redirection);
                }
                self.push(at, TokenKind::Duplicate);
                Ok(())
            }
            (false, _) => {
                self.push(at, TokenKind::Redirect(Direction::Write));
                Ok(())
            }
        }
    }

    fn read_word(&mut self) -> Result<(), NotUnderstood> {
        let at = self.at;
        let mut word = Word::default();
        while let Some(found) = self.peek() {
            let here = self.at;
            let refuse = |what| Err(NotUnderstood { at: here, what });
            match found {
                ' ' | '\t' | '\n' | ';' | '&' | '|' => break,
                '<' | '>' => {
                    // Digits directly before a redirection are a file descriptor.
                    if !word.is_quoted
                        && !word.text.is_empty()
                        && word.text.bytes().all(|byte| byte.is_ascii_digit())
                    {
                        return match (word.text.as_str(), found) {
                            ("0", '<') | ("1" | "2", '>') => self.read_redirect(),
                            _ => refuse(Obstacle::Redirection),
                        };
                    }
                    break;
                }
                '\'' => {
                    self.take();
                    word.is_quoted = true;
                    self.read_single_quotes(here, &mut word)?;
                }
                '"' => {
                    self.take();
                    word.is_quoted = true;
                    self.read_double_quotes(here, &mut word)?;
                }
                '\\' => {
                    self.take();
                    word.is_quoted = true;
                    match self.take() {
                        Some(escaped) if escaped.is_ascii_graphic() || matches!(escaped, ' ' | '\t') => {
                            word.text.push(escaped);
                        }
                        _ => return refuse(Obstacle::Backslash),
                    }
                }
                '$' | '`' => return refuse(Obstacle::Expansion(found)),
                '(' | ')' => return refuse(Obstacle::Parenthesis(found)),
                '[' if here == at && self.is_lone_bracket() => self.read_bare(&mut word),
                '*' if self.has_stars && here == at => {
                    self.read_bare(&mut word);
                    if self.peek() == Some('*') {
                        self.read_bare(&mut word);
                    }
                    if self.peek().is_some_and(|next| !matches!(next, ' ' | '\t')) {
                        return refuse(Obstacle::Glob('*'));
                    }
                }
                '*' | '?' if self.has_patterns => {
                    self.take();
                    word.text.push(if found == '*' { ANY_TEXT } else { ANY_CHARACTER });
                }
                '*' | '?' | '[' => return refuse(Obstacle::Glob(found)),
                '{' if self.text.get(here..).is_some_and(|rest| rest.starts_with("{}")) => {
                    self.read_bare(&mut word);
                    self.read_bare(&mut word);
                }
                // `stash@{0}`: braces without a comma or dots are literal. At the beginning of a word they
                // could be a variable.
                '{' if !word.text.is_empty() && self.literal_braces(here).is_some() => {
                    for _ in 0..self.literal_braces(here).unwrap_or_default() {
                        self.read_bare(&mut word);
                    }
                }
                '{' | '}' => return refuse(Obstacle::Brace(found)),
                '~' if word.text.is_empty() || word.text.ends_with(['=', ':']) => {
                    return refuse(Obstacle::Tilde);
                }
                found if !found.is_ascii() => return refuse(Obstacle::NotAscii(found)),
                _ => self.read_bare(&mut word),
            }
        }
        self.push(at, TokenKind::Word(word));
        Ok(())
    }

    /// Number of characters of a literal name in braces, braces included; `None` for other braces.
    fn literal_braces(&self, here: usize) -> Option<usize> {
        let (name, _) = self.text.get(here..)?.strip_prefix('{')?.split_once('}')?;
        let is_name =
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        is_name.then_some(name.len() + 2)
    }

    /// Reads an unquoted character.
    fn read_bare(&mut self, word: &mut Word) {
        if let Some(found) = self.take() {
            word.text.push(found);
            if !word.is_quoted {
                word.bare = word.text.len();
            }
        }
    }

    /// Whether a bracket is a separate word, which no shell takes for a pattern.
    fn is_lone_bracket(&self) -> bool {
        let next = self.text.get(self.at + 1..).and_then(|rest| rest.chars().next());
        next.is_none_or(|found| matches!(found, ' ' | '\t' | '\n'))
    }

    fn read_single_quotes(&mut self, opened: usize, word: &mut Word) -> Result<(), NotUnderstood> {
        while let Some(found) = self.take() {
            if found == '\'' {
                return Ok(());
            }
            word.text.push(found);
        }
        Err(NotUnderstood { at: opened, what: Obstacle::OpenQuote('\'') })
    }

    fn read_double_quotes(&mut self, opened: usize, word: &mut Word) -> Result<(), NotUnderstood> {
        while let Some(found) = self.take() {
            let at = self.at - found.len_utf8();
            match found {
                '"' => return Ok(()),
                '$' | '`' => return Err(NotUnderstood { at, what: Obstacle::Expansion(found) }),
                // In some East Asian encodings the second byte of a character is a backslash.
                '\\' if word.text.ends_with(|before: char| !before.is_ascii()) => {
                    return Err(NotUnderstood { at, what: Obstacle::Backslash });
                }
                '\\' => match self.take() {
                    Some(escaped @ ('$' | '`' | '"' | '\\')) => word.text.push(escaped),
                    Some('\n') | None => return Err(NotUnderstood { at, what: Obstacle::Backslash }),
                    Some(other) => {
                        word.text.push('\\');
                        word.text.push(other);
                    }
                },
                found => word.text.push(found),
            }
        }
        Err(NotUnderstood { at: opened, what: Obstacle::OpenQuote('"') })
    }
}
