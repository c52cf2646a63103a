use std::io::{ErrorKind, IsTerminal, Write};

use super::{Sanitiser, clean};
use crate::env::Env;
use crate::exit::{Failure, Outcome};

/// Back to the beginning of the line, which is empty then.
const ERASE: &str = "\r\u{1b}[K";

/// Our own colours; text of others never brings any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    Plain,
    Dim,
    Bold,
    Red,
    Green,
    Yellow,
    Cyan,
}

impl Style {
    fn code(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Dim => "\u{1b}[2m",
            Self::Bold => "\u{1b}[1m",
            Self::Red => "\u{1b}[31m",
            Self::Green => "\u{1b}[32m",
            Self::Yellow => "\u{1b}[33m",
            Self::Cyan => "\u{1b}[36m",
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Place {
    Stdout,
    Stderr,
}

/// An output as a person reads it. When it is no terminal, text passes unchanged and without colours.
#[derive(Debug)]
pub(crate) struct Screen {
    place: Place,
    terminal: bool,
    colours: bool,
    /// Whether what was written can be taken back.
    erases: bool,
    answer: Sanitiser,
    /// Whether the cursor is at the beginning of a line.
    fresh: bool,
    /// The passing line the cursor is in.
    passing: Option<Passing>,
    /// How many passing lines there were.
    passed: u64,
    /// Why nothing can be written any more.
    broken: Option<std::io::Error>,
}

/// A line that stands only until something else is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Passing(u64);

impl Screen {
    /// Standard output.
    pub(crate) fn new(env: &Env) -> Self {
        Self::at(Place::Stdout, std::io::stdout().is_terminal(), env)
    }

    /// Standard error.
    pub(crate) fn stderr(env: &Env) -> Self {
        Self::at(Place::Stderr, std::io::stderr().is_terminal(), env)
    }

    fn at(place: Place, terminal: bool, env: &Env) -> Self {
        let erases = terminal && env.text("TERM") != Some("dumb");
        Self {
            place,
            terminal,
            colours: erases && env.get("NO_COLOR").is_none(),
            erases,
            answer: Sanitiser::default(),
            fresh: true,
            passing: None,
            passed: 0,
            broken: None,
        }
    }

    /// A piece of an answer as it streams.
    pub(crate) fn stream(&mut self, delta: &str) {
        if self.terminal {
            let mut out = String::with_capacity(delta.len());
            self.answer.push(delta, &mut out);
            self.raw(&out);
        } else {
            self.raw(delta);
        }
    }

    /// Begins a new line, unless the cursor is at the beginning of one, and forgets an open sequence.
    pub(crate) fn settle(&mut self) {
        self.answer = Sanitiser::default();
        self.erase();
        if !self.fresh {
            self.raw("\n");
        }
    }

    /// One whole line.
    pub(crate) fn line(&mut self, style: Style, text: &str) {
        self.settle();
        let text = if self.terminal { clean(text) } else { text.into() };
        if self.colours && style != Style::Plain {
            self.raw(&format!("{}{text}\u{1b}[0m\n", style.code()));
        } else {
            self.raw(&format!("{text}\n"));
        }
    }

    /// Somebody else left the cursor of this terminal within a line.
    pub(crate) fn within_line(&mut self) {
        self.fresh &= !self.terminal;
    }

    /// Whether lines can be taken back.
    pub(crate) fn erases(&self) -> bool {
        self.erases
    }

    /// Begins a passing line, for a screen that [erases](Self::erases).
    pub(crate) fn pass(&mut self) -> Passing {
        self.settle();
        self.passed += 1;
        let line = Passing(self.passed);
        self.passing = Some(line);
        line
    }

    /// What a passing line says from now on, in less than the width of a terminal; false once it is gone.
    pub(crate) fn passing(&mut self, line: Passing, text: &str) -> bool {
        if self.passing != Some(line) || self.broken.is_some() {
            return false;
        }
        let (begin, end) = if self.colours { (Style::Dim.code(), "\u{1b}[0m") } else { ("", "") };
        self.write(&format!("{ERASE}{begin}{}{end}", clean(text)));
        true
    }

    /// Takes a passing line back, unless it is gone.
    pub(crate) fn gone(&mut self, line: Passing) {
        if self.passing == Some(line) {
            self.erase();
        }
    }

    /// Whether everything was written, or nobody wants to read it any more.
    pub(crate) fn finish(self) -> Outcome<()> {
        match self.broken {
            Some(error) if error.kind() != ErrorKind::BrokenPipe => {
                Err(Failure::failed(format!("cannot write the output: {error}")))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Takes any passing line back.
    pub(crate) fn clear(&mut self) {
        self.erase();
    }

    fn erase(&mut self) {
        if self.passing.take().is_some() {
            self.write(ERASE);
            self.fresh = true;
        }
    }

    fn raw(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        self.erase();
        self.write(text);
        self.fresh = text.ends_with('\n');
    }

    fn write(&mut self, text: &str) {
        if self.broken.is_some() {
            return;
        }
        let (mut stdout, mut stderr);
        let out: &mut dyn Write = match self.place {
            Place::Stdout => {
                stdout = std::io::stdout().lock();
                &mut stdout
            }
            Place::Stderr => {
                stderr = std::io::stderr().lock();
                &mut stderr
            }
        };
        self.broken = out.write_all(text.as_bytes()).and_then(|()| out.flush()).err();
    }
}

/// One line on standard error: warnings, errors, and what -v shows.
pub(crate) fn tell(text: &str) {
    let mut out = std::io::stderr().lock();
    let text = if out.is_terminal() { clean(text) } else { text.into() };
    // With standard error closed there is nobody left to tell.
    let _ = writeln!(out, "{}", text.trim_end());
}
