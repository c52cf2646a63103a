mod last_row;

use std::io::ErrorKind;

use tokio::sync::mpsc::UnboundedSender;
use zk_view::{Sanitiser, sanitise};

use super::backlog::Backlog;
use super::flow::Flow;
use crate::row::{Style, Theme};
use crate::term::{Modes, Reader, SafeText, StdStream, TerminalEnv, TerminalError, redacted};
use crate::text::folded;
use crate::view::MARGIN;
use last_row::status_and_draft;

/// Control sequence that returns to the start of the line and erases it.
const ERASE: &str = "\r\u{1b}[K";

/// Control sequence that makes sure that there is a line below, and moves to it; [`BACK`] returns.
const BELOW: &str = "\u{1b}D\u{1b}[A\u{1b}7\u{1b}D";
const BACK: &str = "\u{1b}8";

const RESET: &str = "\u{1b}[0m";

/// Output for a person. If it is not a terminal, text is written unchanged and without colours.
#[derive(Debug)]
pub struct Screen {
    place: StdStream,
    reader: Reader,
    colours: bool,
    /// Whether the terminal can erase.
    is_capable: bool,
    /// Whether lines are erased: not for a screen reader, which reads every line once.
    erases: bool,
    theme: Theme,
    answer: Sanitiser,
    /// Word wrapping of streamed text.
    flow: Flow,
    /// Whether the cursor is at the beginning of a line.
    fresh: bool,
    /// Present status line.
    status: Option<StatusId>,
    status_text: String,
    /// Text typed during a run.
    draft: String,
    /// Position of the drawn status line, if it is drawn.
    drawn: Option<Drawn>,
    /// Column of the cursor, with wide characters counted as one.
    column: usize,
    /// Number of writes of permanent text.
    written: u64,
    /// Number of status lines so far.
    statuses: u64,
    /// Receiver of all output, if another front end draws it.
    sink: Option<Sink>,
    /// Text held back while the terminal is used for a line.
    held: Option<SafeText>,
    /// First write error, after which nothing is written.
    broken: Option<std::io::Error>,
    /// Left margin of wrapped text, as spaces; empty on plain lines.
    margin: &'static str,
}

/// Output for a front end that draws it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Printed {
    /// Piece of text, which need not be a line.
    Text(Style, String),
    /// Line of the program that is no code, to be wrapped at words.
    Words(Style, String),
    /// Line that a person typed, above the text that it led to.
    Echo(String),
}

/// Receiver of output.
#[derive(Debug)]
pub struct Sink {
    /// Channel to the front end.
    pub sender: UnboundedSender<Printed>,
    /// Backlog of text that was sent and is not drawn.
    pub backlog: Backlog,
}

impl Sink {
    fn send(&self, style: Style, text: String) {
        self.backlog.add(text.len());
        // The front end may be gone.
        let _ = self.sender.send(Printed::Text(style, text));
    }
}

/// Position of a drawn status line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Drawn {
    /// In the line of the cursor.
    Here,
    /// In the lines below the cursor's line.
    Below,
}

/// Id of a status line, which lasts until the next write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StatusId(u64);

impl Screen {
    /// Standard output.
    pub fn stdout(env: &TerminalEnv) -> Self {
        Self::for_stream(StdStream::Stdout, env)
    }

    /// Standard error.
    pub fn stderr(env: &TerminalEnv) -> Self {
        Self::for_stream(StdStream::Stderr, env)
    }

    /// Creates a screen whose output is drawn by a front end.
    pub fn drawn_by(sink: Sink, env: &TerminalEnv) -> Self {
        Self { sink: Some(sink), colours: false, is_capable: false, erases: false, ..Self::stdout(env) }
    }

    /// Backlog of the front end that draws, if there is one.
    pub fn backlog(&self) -> Option<Backlog> {
        self.sink.as_ref().map(|sink| sink.backlog.clone())
    }

    fn for_stream(place: StdStream, env: &TerminalEnv) -> Self {
        let reader = place.reader();
        let is_capable = reader == Reader::Terminal && !env.is_dumb();
        Self {
            place,
            reader,
            colours: is_capable && !env.is_colourless(),
            is_capable,
            erases: is_capable && !env.is_accessible(),
            theme: Theme::Dark,
            answer: Sanitiser::default(),
            flow: Flow::default(),
            fresh: true,
            status: None,
            status_text: String::new(),
            draft: String::new(),
            drawn: None,
            column: 0,
            written: 0,
            statuses: 0,
            sink: None,
            held: None,
            broken: None,
            margin: "",
        }
    }

    /// Writes prose at the margin of a drawn screen, which this one stands in for.
    pub fn with_margin(self) -> Self {
        Self { margin: MARGIN, ..self }
    }

    /// Sets the colours of a theme.
    pub fn with_theme(self, theme: Theme) -> Self {
        Self { theme, ..self }
    }

    /// Writes a piece of streamed text.
    pub fn stream(&mut self, delta: &str) {
        let piece = SafeText::piece(delta, &mut self.answer, self.reader);
        self.write_permanent(&piece);
    }

    /// Writes a piece of a streamed answer, wrapped at words on a terminal.
    pub fn stream_words(&mut self, delta: &str) {
        if self.reader != Reader::Terminal || self.sink.is_some() {
            return self.stream(delta);
        }
        let piece = SafeText::piece(delta, &mut self.answer, self.reader);
        let text = self.flow.push(piece.as_str(), Modes::size().width);
        self.write_permanent(&SafeText::exact(&text, self.reader));
    }

    /// Starts a new line, unless the cursor is at the start of one, and drops an open escape sequence.
    pub fn end_line(&mut self) {
        self.answer = Sanitiser::default();
        let rest = self.flow.finish(Modes::size().width);
        if !rest.is_empty() {
            self.write_permanent(&SafeText::exact(&rest, self.reader));
        }
        if self.fresh {
            self.erase_status();
        } else {
            self.write_permanent(&SafeText::own("\n"));
        }
    }

    /// Writes a line.
    pub fn line(&mut self, style: Style, text: &str) {
        self.exact_line(style, &redacted(text));
    }

    /// Writes a line that a person typed, above the text that it led to.
    pub fn echo(&mut self, typed: &str) {
        self.end_line();
        let Some(sink) = &self.sink else { return self.line(Style::BOLD, &format!("› {typed}")) };
        let typed = redacted(typed).into_owned();
        sink.backlog.add(typed.len());
        // The front end may be gone.
        let _ = sink.sender.send(Printed::Echo(typed));
    }

    /// Writes a line that a front end wraps at words if it draws the screen.
    pub fn write_wrapped_line(&mut self, style: Style, text: &str) {
        self.end_line();
        let Some(sink) = &self.sink else { return self.line(style, text) };
        let text = redacted(text).into_owned();
        sink.backlog.add(text.len());
        // The front end may be gone.
        let _ = sink.sender.send(Printed::Words(style, text));
    }

    /// Writes a line of prose, wrapped at words on a terminal with a hanging indent.
    pub fn prose(&mut self, style: Style, text: &str) {
        if self.reader != Reader::Terminal || self.sink.is_some() {
            return self.line(style, text);
        }
        let text = redacted(text);
        let room = Modes::size().width.saturating_sub(self.margin.len());
        for line in folded(&sanitise(&text), room) {
            self.exact_line(style, &format!("{}{line}", self.margin));
        }
    }

    /// Writes a line unmasked, secrets included, for a person's approval.
    pub fn exact_line(&mut self, style: Style, text: &str) {
        self.end_line();
        let text = SafeText::exact(text, self.reader);
        if let Some(sink) = &self.sink {
            sink.send(style, format!("{}\n", text.as_str()));
            return;
        }
        let line = if self.colours && style != Style::PLAIN {
            SafeText::style(style, self.theme).append(&text).append(&SafeText::own(RESET))
        } else {
            text
        };
        self.write_permanent(&line.append(&SafeText::own("\n")));
    }

    /// Number of permanent writes, without status lines and the draft.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// Whether the terminal can take lines back, and move its cursor.
    pub fn is_capable(&self) -> bool {
        self.is_capable
    }

    /// Whether every line is labelled with its speaker: for a screen reader or a simple terminal.
    pub fn is_labelled(&self) -> bool {
        self.reader == Reader::Terminal && !self.erases && self.sink.is_none()
    }

    /// Whether lines are erased.
    pub fn erases(&self) -> bool {
        self.erases
    }

    /// Shows a status line in place of the one before, until the next line. A screen that does not
    /// [erase](Self::erases) shows none.
    pub fn show_status(&mut self, text: &str) {
        let status = match self.status {
            Some(status) => status,
            None => self.begin_status(),
        };
        self.update_status(status, text);
    }

    /// Begins a status line, for a screen that [erases](Self::erases).
    pub(crate) fn begin_status(&mut self) -> StatusId {
        self.end_line();
        self.next_status()
    }

    /// Starts a status line below the cursor's line.
    pub(crate) fn begin_status_below(&mut self) -> StatusId {
        self.erase_status();
        self.next_status()
    }

    fn next_status(&mut self) -> StatusId {
        self.statuses += 1;
        let status = StatusId(self.statuses);
        self.status = Some(status);
        status
    }

    /// Replaces the text of a status line; returns false if the line is gone.
    pub(crate) fn update_status(&mut self, status: StatusId, text: &str) -> bool {
        if self.status != Some(status) || self.broken.is_some() {
            return false;
        }
        if !self.erases {
            return true;
        }
        let text = redacted(text);
        if self.status_text != *text {
            text.as_ref().clone_into(&mut self.status_text);
            self.draw_status();
        }
        true
    }

    /// Erases a status line, if it still exists.
    pub(crate) fn clear_status(&mut self, status: StatusId) {
        if self.status == Some(status) {
            self.erase_status();
        }
    }

    /// Shows the draft below everything else.
    pub(crate) fn set_draft(&mut self, text: &str) {
        if self.erases && self.draft != text {
            text.clone_into(&mut self.draft);
            self.draw_status();
        }
    }

    /// Rings the bell of a terminal.
    pub(crate) fn ring(&mut self) {
        if self.reader == Reader::Terminal && self.sink.is_none() {
            self.write_bytes(&SafeText::own("\u{7}"));
        }
    }

    /// Flushes the output. A closed pipe is not an error.
    pub fn finish(self) -> Result<(), TerminalError> {
        match self.broken {
            Some(error) if error.kind() != ErrorKind::BrokenPipe => Err(TerminalError::Write(error)),
            Some(_) | None => Ok(()),
        }
    }

    /// Erases any status line.
    pub(crate) fn erase_status(&mut self) {
        if self.status.take().is_some() {
            self.status_text.clear();
            self.draw_status();
        }
    }

    /// Redraws the status line and the draft.
    fn draw_status(&mut self) {
        let is_empty = self.status_text.is_empty() && self.draft.is_empty();
        if is_empty && self.drawn.is_none() {
            return;
        }
        let mut out = self.erase_sequence();
        let width = Modes::size().width;
        // After a full line the cursor waits at its end, which a terminal forgets when the cursor moves.
        let is_full = self.column > 0 && self.column.is_multiple_of(width);
        if !is_empty && (self.fresh || !is_full) {
            let line = SafeText::exact(&status_and_draft(&self.status_text, &self.draft, width), self.reader);
            let (begin, end) = match self.colours {
                true => (SafeText::style(Style::DIM, self.theme), RESET),
                false => (SafeText::default(), ""),
            };
            let line = SafeText::own(ERASE).append(&begin).append(&line).append(&SafeText::own(end));
            let (drawn, line) = match self.fresh {
                true => (Drawn::Here, line),
                false => (Drawn::Below, SafeText::own(BELOW).append(&line).append(&SafeText::own(BACK))),
            };
            self.drawn = Some(drawn);
            // A status line that is overwritten need not be erased first.
            if drawn == Drawn::Here {
                out.clear();
            }
            out = out.append(&line);
        }
        if !out.is_empty() {
            self.write_bytes(&out);
        }
    }

    /// The sequence that erases the status line and the draft.
    fn erase_sequence(&mut self) -> SafeText {
        match self.drawn.take() {
            None => SafeText::default(),
            Some(Drawn::Here) => SafeText::own(ERASE),
            Some(Drawn::Below) => {
                SafeText::own(BELOW).append(&SafeText::own(ERASE)).append(&SafeText::own(BACK))
            }
        }
    }

    /// Reader of the output.
    pub(super) fn output_reader(&self) -> Reader {
        self.reader
    }

    /// Theme of the colours, if there are any.
    pub(super) fn theme(&self) -> Option<Theme> {
        (self.colours && self.sink.is_none()).then_some(self.theme)
    }

    /// Writes permanent text, which replaces the status line.
    pub(super) fn write_permanent(&mut self, text: &SafeText) {
        if text.is_empty() {
            return;
        }
        if self.status.take().is_some() {
            self.status_text.clear();
        }
        self.written += 1;
        let back = self.erase_sequence();
        self.write_bytes(&back.append(text));
        let text = text.as_str();
        self.fresh = text.ends_with('\n');
        let (taken, rest) = text.rsplit_once('\n').map_or((self.column, text), |(_, rest)| (0, rest));
        self.column = taken + rest.chars().count();
        if !self.draft.is_empty() {
            self.draw_status();
        }
    }

    fn write_bytes(&mut self, text: &SafeText) {
        if let Some(sink) = &self.sink {
            sink.send(Style::PLAIN, text.as_str().to_owned());
            return;
        }
        if let Some(held) = &mut self.held {
            *held = std::mem::take(held).append(text);
            return;
        }
        if self.broken.is_none() {
            self.broken = self.place.write(text).err();
        }
    }

    /// Whether a write has failed.
    pub fn is_broken(&self) -> bool {
        self.broken.is_some()
    }

    /// Holds back output while the terminal is used for a line.
    pub fn hold(&mut self) {
        self.held.get_or_insert_default();
    }

    /// Writes the held-back output and stops holding back.
    pub fn release(&mut self) {
        if let Some(held) = self.held.take().filter(|held| !held.is_empty()) {
            self.write_bytes(&held);
        }
    }
}
