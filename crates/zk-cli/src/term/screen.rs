use std::io::{ErrorKind, IsTerminal, Write};

use super::{Sanitiser, clean};
use crate::env::Env;
use crate::exit::{Failure, Outcome};

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

/// Standard output as a person reads it. When it is no terminal, text passes unchanged and without colours.
#[derive(Debug)]
pub(crate) struct Screen {
    terminal: bool,
    colours: bool,
    answer: Sanitiser,
    /// Whether the cursor is at the beginning of a line.
    fresh: bool,
    /// Why nothing can be written any more.
    broken: Option<std::io::Error>,
}

impl Screen {
    pub(crate) fn new(env: &Env) -> Self {
        let terminal = std::io::stdout().is_terminal();
        let colours = terminal && env.get("NO_COLOR").is_none() && env.text("TERM") != Some("dumb");
        Self { terminal, colours, answer: Sanitiser::default(), fresh: true, broken: None }
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

    /// Whether everything was written, or nobody wants to read it any more.
    pub(crate) fn finish(self) -> Outcome<()> {
        match self.broken {
            Some(error) if error.kind() != ErrorKind::BrokenPipe => {
                Err(Failure::failed(format!("cannot write the output: {error}")))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn raw(&mut self, text: &str) {
        if text.is_empty() || self.broken.is_some() {
            return;
        }
        let mut out = std::io::stdout().lock();
        self.broken = out.write_all(text.as_bytes()).and_then(|()| out.flush()).err();
        self.fresh = text.ends_with('\n');
    }
}

/// One line on standard error: warnings, errors, and what -v shows.
pub(crate) fn tell(text: &str) {
    let mut out = std::io::stderr().lock();
    let text = if out.is_terminal() { clean(text) } else { text.into() };
    // With standard error closed there is nobody left to tell.
    let _ = writeln!(out, "{}", text.trim_end());
}
