use super::lexer::{Direction, Token, TokenKind, Word, tokens};
use super::{Assignment, Command, Connector, MAX_COMMANDS, NotUnderstood, Obstacle, Redirect, Script};

/// Reserved words at the start of a command. `time` is missing since it is judged like the program of that
/// name.
const RESERVED: [&str; 20] = [
    "!", "[[", "]]", "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if",
    "in", "select", "then", "until", "while", "{}",
];

pub(super) fn parse(text: &str, has_patterns: bool) -> Result<Script, NotUnderstood> {
    let mut parser = Parser { commands: Vec::new(), open: None, connector: Connector::First, operator: None };
    let mut tokens = tokens(text, has_patterns)?.into_iter();
    while let Some(token) = tokens.next() {
        parser.accept(token, &mut tokens)?;
    }
    parser.end_command()?;
    if let Some(at) = parser.operator {
        return Err(NotUnderstood { at, what: Obstacle::Unfinished });
    }
    if parser.commands.is_empty() {
        return Err(NotUnderstood { at: 0, what: Obstacle::Empty });
    }
    Ok(Script { commands: parser.commands })
}

struct Parser {
    commands: Vec<Command>,
    open: Option<Command>,
    /// Connector for the next command.
    connector: Connector,
    /// Position of an operator that still needs a command after it.
    operator: Option<usize>,
}

impl Parser {
    fn accept(&mut self, token: Token, rest: &mut impl Iterator<Item = Token>) -> Result<(), NotUnderstood> {
        let at = token.at;
        match token.kind {
            TokenKind::Word(word) => self.word(at, word),
            TokenKind::Separator(is_line_end) => {
                let had_command = self.open.is_some();
                self.end_command()?;
                // After `&&`, `||` and `|` the command may begin on a later line; a `;` needs a command
                // before it.
                if !had_command && !is_line_end {
                    return Err(NotUnderstood { at, what: Obstacle::Unfinished });
                }
                if self.operator.is_none() && !self.commands.is_empty() {
                    self.connector = Connector::Then;
                }
                Ok(())
            }
            TokenKind::And => self.operator(at, Connector::And),
            TokenKind::Or => self.operator(at, Connector::Or),
            TokenKind::Pipe => self.operator(at, Connector::Pipe),
            TokenKind::Duplicate => {
                self.command(at)?.redirects.push(Redirect::Duplicate);
                Ok(())
            }
            TokenKind::Redirect(direction) => {
                let target = rest.next().map(|token| token.kind);
                let Some(TokenKind::Word(Word { text: path, .. })) = target else {
                    return Err(NotUnderstood { at, what: Obstacle::Redirection });
                };
                if path.is_empty() {
                    return Err(NotUnderstood { at, what: Obstacle::Redirection });
                }
                if path.starts_with("/dev/tcp/") || path.starts_with("/dev/udp/") {
                    return Err(NotUnderstood { at, what: Obstacle::NetworkFile });
                }
                self.command(at)?.redirects.push(match direction {
                    Direction::Read => Redirect::Read { path },
                    Direction::Write => Redirect::Write { path, appends: false },
                    Direction::Append => Redirect::Write { path, appends: true },
                });
                Ok(())
            }
        }
    }

    fn word(&mut self, at: usize, word: Word) -> Result<(), NotUnderstood> {
        let command = self.command(at)?;
        if !command.words.is_empty() {
            command.words.push(word.text);
            return Ok(());
        }
        if !word.is_quoted && RESERVED.contains(&word.text.as_str()) {
            return Err(NotUnderstood { at, what: Obstacle::Reserved });
        }
        match word.text.split_once('=') {
            Some((name, value)) if is_name(name) && name.len() < word.bare => {
                command.assignments.push(Assignment { name: name.to_owned(), value: value.to_owned() });
            }
            // `A+=b`, or a name that looks like an assignment because of its quotes.
            Some(_) => return Err(NotUnderstood { at, what: Obstacle::Assignment }),
            None => command.words.push(word.text),
        }
        Ok(())
    }

    /// Current command; begins a new one if there is none.
    fn command(&mut self, at: usize) -> Result<&mut Command, NotUnderstood> {
        if self.open.is_none() && self.commands.len() >= MAX_COMMANDS {
            return Err(NotUnderstood { at, what: Obstacle::TooManyCommands });
        }
        self.operator = None;
        let connector = self.connector;
        Ok(self.open.get_or_insert_with(|| Command {
            words: Vec::new(),
            assignments: Vec::new(),
            redirects: Vec::new(),
            connector,
            at,
        }))
    }

    fn end_command(&mut self) -> Result<(), NotUnderstood> {
        let Some(command) = self.open.take() else { return Ok(()) };
        if command.words.is_empty() {
            let what =
                if command.assignments.is_empty() { Obstacle::NoCommand } else { Obstacle::Assignment };
            return Err(NotUnderstood { at: command.at, what });
        }
        self.commands.push(command);
        Ok(())
    }

    fn operator(&mut self, at: usize, connector: Connector) -> Result<(), NotUnderstood> {
        if self.open.is_none() {
            return Err(NotUnderstood { at, what: Obstacle::Unfinished });
        }
        self.end_command()?;
        self.connector = connector;
        self.operator = Some(at);
        Ok(())
    }
}

/// Whether a text is a valid variable name.
pub(crate) fn is_name(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}
