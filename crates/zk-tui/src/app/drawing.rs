use std::time::Duration;

use zk_view::sanitise;

use super::focus::{Aid, Focus, Search};
use super::layout::{Parts, Rooms, live_rows, picker_rows, placeholder, queue_room};
use super::{App, FRAME_INTERVAL, MAX_FRAMES_PER_SECOND, RESIZE_PAUSE, SIZE_ANSWER_WAIT, TMUX_RESIZE_PAUSE};
use crate::inline::{Caret, Size};
use crate::question::CardState;
use crate::row::{Row, Style};
use crate::text::{folded, wrap};
use crate::view::{MARGIN, agent_rows, checklist_rows, job_rows, queue_rows, runs_long_command, status_row};

/// Maximum number of hits that a history search shows.
const MAX_HIT_ROWS: usize = 8;

/// Help for the keys of the history search.
const HIT_KEYS: &str = "typed before · ↑↓ choose · Enter takes it · Esc closes";

/// Rows of a printed line. Plain text may be code, which is not wrapped: a selection in the terminal copies
/// whole lines.
fn printed_rows(style: Style, line: &str, width: usize) -> Vec<Row> {
    if style == Style::PLAIN || line.is_empty() {
        return vec![Row::of(style, line)];
    }
    let indent = line.len() - line.trim_start_matches(' ').len();
    let margin = Row::of(Style::PLAIN, &" ".repeat(indent.max(MARGIN.len())));
    wrap(&Row::of(style, line.trim_start_matches(' ')), &margin, &margin, width)
}

/// Frames of the screen.
impl App {
    /// Prints a line that was typed, above the rows that it led to.
    pub fn echo(&mut self, typed: &str) {
        let width = self.screen.size().width;
        let row = |line| wrap(&Row::of(Style::BOLD, line), &Row::default(), &Row::default(), width);
        self.transcript.echo(sanitise(&format!("› {typed}")).lines().flat_map(row).collect());
        self.output.is_dirty = true;
    }

    /// Prints text of the program that is no code at the margin: wrapped at words, columns of a table kept.
    pub fn print_words(&mut self, style: Style, text: &str) {
        let room = self.screen.size().width.saturating_sub(MARGIN.len());
        // Masked before the text is wrapped, so that no line end can split a secret.
        let masked = |line: &str| (self.host.mask)(line).unwrap_or_else(|| line.to_owned());
        let lines = |line| folded(&masked(line), room);
        let row = |line: String| match line.is_empty() {
            true => Row::default(),
            false => Row::of(style, &format!("{MARGIN}{line}")),
        };
        let rows = sanitise(text).lines().flat_map(lines).map(row).collect();
        self.transcript.print(rows);
        self.output.is_dirty = true;
    }

    /// Prints permanent rows of the program: notices at the margin, and plain text as it is.
    pub fn print(&mut self, style: Style, text: &str) {
        let width = self.screen.size().width;
        // Masked as a whole, since an escape sequence may span lines.
        let rows = sanitise(text).lines().flat_map(|line| printed_rows(style, line, width)).collect();
        self.transcript.print(rows);
        self.output.is_dirty = true;
    }

    /// Bytes to write now: empty if nothing changed or the last frame was too recent.
    #[must_use]
    pub fn frame(&mut self, now: Duration) -> String {
        let is_early = self.is_resting(now) || self.earliest_frame().is_some_and(|until| now < until);
        if !self.output.is_dirty || is_early || self.output.is_left {
            return String::new();
        }
        (self.output.is_dirty, self.timing.is_pressed, self.timing.drawn) = (false, false, Some(now));
        if self.timing.frames.len() >= MAX_FRAMES_PER_SECOND {
            self.timing.frames.pop_front();
        }
        self.timing.frames.push_back(now);
        self.update_title();
        let change = std::mem::take(&mut self.output.pending) + &self.switch_screens();
        if self.alternate.screen.is_some() {
            return change + &self.alternate_frame();
        }
        let size = self.screen.size();
        let mut parts = self.parts(size);
        let room = Rooms::of(&parts, size).open;
        let closed = self.transcript.take_closed(room);
        let closed = self.masked(closed);
        parts.open = self.masked(self.transcript.open_rows());
        // The question itself is not masked: the person approves exactly what is shown.
        parts.queue = self.masked(parts.queue);
        parts.status = parts.status.map(|row| self.masked_row(row));
        let (rows, caret) = live_rows(&parts, size);
        change + &self.screen.frame(&closed, &rows, caret)
    }

    /// Whether the last frame was too recent, so that changes are drawn at [`App::next_tick`].
    #[must_use]
    pub fn is_resting(&self, now: Duration) -> bool {
        self.output.is_dirty
            && !self.output.is_left
            && !self.may_draw_key(now)
            && self.timing.drawn.is_some_and(|drawn| now < drawn + FRAME_INTERVAL)
    }

    /// Whether a frame for a key is allowed at once, within the maximum number of frames per second.
    fn may_draw_key(&self, now: Duration) -> bool {
        let is_left = || {
            let first =
                self.timing.frames.front().filter(|_| self.timing.frames.len() >= MAX_FRAMES_PER_SECOND);
            first.is_none_or(|first| now >= *first + Duration::from_secs(1))
        };
        self.timing.is_pressed && is_left()
    }

    /// Earliest time of the next frame after a resize.
    pub(super) fn earliest_frame(&self) -> Option<Duration> {
        let asked = self.timing.asked?;
        if self.screen.is_asking() {
            Some(asked + SIZE_ANSWER_WAIT)
        } else {
            let settled = if self.screen.abilities().tmux { TMUX_RESIZE_PAUSE } else { RESIZE_PAUSE };
            self.screen.is_settling().then(|| asked + settled)
        }
    }

    pub(super) fn masked(&self, rows: Vec<Row>) -> Vec<Row> {
        rows.into_iter().map(|row| self.masked_row(row)).collect()
    }

    pub(super) fn masked_row(&self, row: Row) -> Row {
        match (self.host.mask)(&row.text()) {
            Some(masked) => Row::of(Style::PLAIN, &masked),
            None => row,
        }
    }

    /// Queued texts; the first row counts open questions.
    fn waiting_rows(&self) -> Vec<Row> {
        let view = self.transcript.view();
        let width = self.screen.size().width;
        let questions = match view.cards.len().saturating_sub(1) {
            0 => return queue_rows(&view.queue, self.is_running(), width),
            1 => Row::of(Style::YELLOW, "  1 more question waits"),
            more => Row::of(Style::YELLOW, &format!("  {more} more questions wait")),
        };
        let room = width.saturating_sub(questions.columns() + 1);
        let mut rows = queue_rows(&view.queue, self.is_running(), room);
        match rows.first_mut() {
            Some(first) => {
                let mut both = questions.with(Style::DIM, " · ");
                // The row is joined without its margin.
                both.append(&first.cut(2, first.text_len()));
                *first = both;
            }
            None => rows.push(questions),
        }
        rows
    }

    /// Hits of the history search around the chosen one, newest at the bottom.
    fn hit_rows(&self, words: &str, chosen: usize, size: Size) -> Vec<Row> {
        let room = (size.live_rows() / 3).saturating_sub(1).clamp(1, MAX_HIT_ROWS);
        let first = (chosen + 1).saturating_sub(room);
        let hits = self.history.matches(words).enumerate().skip(first).take(room);
        let row = |(at, text): (usize, &str)| {
            let mut lines = text.lines();
            let mut line = lines.next().unwrap_or_default().to_owned();
            if lines.next().is_some() {
                line.push_str(" …");
            }
            let is_chosen = at == chosen;
            let style = if is_chosen { Style::BOLD } else { Style::DIM };
            Row::of(Style::CYAN, if is_chosen { "❯ " } else { "  " }).with(style, &line)
        };
        let mut rows: Vec<Row> = hits.map(row).collect();
        rows.reverse();
        let foot =
            if rows.is_empty() { "nothing that was typed has these words · Esc closes" } else { HIT_KEYS };
        rows.push(Row::of(Style::DIM, foot));
        rows
    }

    pub(super) fn parts(&self, size: Size) -> Parts {
        let view = self.transcript.view();
        let can_leave = runs_long_command(view) && self.composer.is_empty();
        let mut status =
            status_row(&view.status, &self.model, self.transcript.spent(), can_leave, size.width);
        if status.is_none() && self.is_busy {
            status = Some(Row::of(Style::DIM, "  Esc stops"));
        }
        if let Some(offered) = &self.keyboard.offered {
            status = Some(Row::of(Style::YELLOW, &format!("  {offered}")));
        }
        if let Some(hint) = &self.hint {
            status = Some(Row::of(Style::DIM, &format!("  {hint}")));
        }
        let mut queue =
            self.focus.list().map(|list| list.rows(size.width, queue_room(size))).unwrap_or_default();
        let waiting = self.waiting_rows();
        // A question may leave room for only one row.
        if self.focus.card().is_some() {
            queue.splice(..0, waiting);
            queue.extend(agent_rows(view, size.width));
            queue.extend(job_rows(&view.jobs));
        } else {
            // On a screen without room for both, queued texts come before the agent's activity.
            let mut left = queue_room(size).saturating_sub(queue.len() + waiting.len());
            let mut fitting = |mut rows: Vec<Row>| {
                rows.truncate(left);
                left -= rows.len();
                rows
            };
            let jobs = fitting(job_rows(&view.jobs));
            let agents = fitting(agent_rows(view, size.width));
            queue.extend(fitting(checklist_rows(&view.checklist, self.has_run(), size.width)));
            queue.extend(agents);
            queue.extend(jobs);
            queue.extend(waiting);
        }
        let answer = self.focus.card().and_then(CardState::typed);
        let (composer, caret) = match (self.focus.aid(), answer) {
            (Aid::Search(Search { words, skip }), _) => {
                queue = self.hit_rows(words, *skip, size);
                let row = Row::of(Style::BOLD, "⌕ ").with(Style::PLAIN, words);
                let column = row.columns();
                (vec![row], Caret { row: 0, column })
            }
            (_, Some(answer)) => answer.rows("> ", size.width),
            (_, None) => {
                self.composer.rows(if self.keyboard.vim.is_normal() { "◆ " } else { "› " }, size.width)
            }
        };
        if let Focus::Picker(picker) = &self.focus {
            let (row, caret) = picker.query_row();
            let card = picker_rows(picker, size);
            return Parts {
                open: Vec::new(),
                card,
                queue: Vec::new(),
                status,
                composer: vec![row],
                caret: Some(caret),
                placeholder: None,
            };
        }
        let mut card = self.focus.card().map(CardState::rows).unwrap_or_default();
        if self.focus.card().is_none() && (self.shows_keys || matches!(self.composer.text(), "?" | "??")) {
            card = self.key_rows(size);
        }
        let says_what = card.is_empty()
            && self.composer.is_empty()
            && !self.is_running()
            && !self.keyboard.vim.is_normal()
            && matches!(self.focus, Focus::Composer(Aid::None | Aid::Awaited));
        let placeholder = composer.first().filter(|_| says_what).and_then(|row| placeholder(row, size.width));
        Parts { open: Vec::new(), card, queue, status, composer, caret: Some(caret), placeholder }
    }
}
