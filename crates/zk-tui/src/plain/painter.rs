use std::collections::{HashMap, HashSet};
use std::mem::Discriminant;

use tokio::task::JoinHandle;
use zk_core::model::CheckState;
use zk_view::{
    Activity, AnswerEnd, Block, BlockId, CallState, CheckRow, Content, Drained, Patch, Status, View,
    ViewDriver,
};

use super::lines;
use super::screen::Screen;
use super::shared_screen::SharedScreen;
use super::status_line::StatusLine;
use crate::row::Style;
use crate::view::attached::{folded_row, is_notice};

/// Printer of a conversation in lines: streamed answers, calls and results, and the activity in a status
/// line.
struct Painter {
    screen: SharedScreen,
    /// Blocks that may still change, with the part of each that is printed.
    open: HashMap<BlockId, Drawn>,
    /// Ids of the blocks that are printed in their final form.
    done: HashSet<BlockId>,
    status: Status,
    /// Kind of the last known activity.
    said: Discriminant<Activity>,
    /// Waits already reported.
    waits: lines::ToldWaits,
    line: Option<StatusLine>,
    /// Last printed to-do list.
    listed: Vec<CheckRow>,
    /// Number of the session it draws: see [`zk_view::View::switches`].
    switches: u64,
}

/// Printed part of a block.
#[derive(Default)]
struct Drawn {
    /// Printed bytes of an answer; `None` for other blocks.
    written: Option<usize>,
    /// Whether the first line of the block is printed.
    announced: bool,
}

/// Task of a painter, aborted on drop.
#[derive(Debug)]
pub struct Painting {
    drained: Drained,
    task: JoinHandle<()>,
}

impl Drop for Painting {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Painting {
    /// Starts a painter for the later events of a view.
    pub fn begin(view: &ViewDriver, screen: &SharedScreen) -> Self {
        let mut reader = view.reader();
        let drained = reader.drained();
        let now = view.view();
        let mut painter = Painter {
            screen: screen.clone(),
            open: HashMap::new(),
            done: block_ids(&now),
            listed: now.checklist.clone(),
            switches: now.switches,
            status: Status::default(),
            said: std::mem::discriminant(&Activity::Idle),
            waits: lines::ToldWaits::default(),
            line: None,
        };
        let task = tokio::spawn(async move {
            while let Some(patches) = reader.next().await {
                patches.iter().for_each(|patch| painter.apply_patch(patch));
                painter.show_status();
            }
        });
        Self { drained, task }
    }

    /// A handle to wait for the painter.
    pub fn drained(&self) -> Drained {
        self.drained.clone()
    }

    /// Waits until everything that happened is drawn.
    pub async fn flush(&self) {
        self.drained.wait().await;
    }
}

/// Minimum duration in milliseconds of a run whose end rings the bell, since the person may be away. Plain
/// lines get no focus reports.
const LONG_RUN_MS: u64 = 10_000;

/// Whether the run was long enough to ring the bell at its end.
fn is_long(status: &Status) -> bool {
    status.run_ms.is_some_and(|ms| ms >= LONG_RUN_MS)
}

/// The ids of all blocks.
fn block_ids(view: &View) -> HashSet<BlockId> {
    view.blocks.iter().map(|block| block.id.clone()).collect()
}

/// Prints a piece of an answer. On a labelled screen, the first piece follows the speaker's label.
fn print_answer_piece(screen: &mut Screen, begins: bool, piece: &str) {
    if begins && !piece.is_empty() && screen.is_labelled() {
        screen.end_line();
        screen.stream_words("zk: ");
    }
    screen.stream_words(piece);
}

impl Painter {
    fn apply_patch(&mut self, patch: &Patch) {
        match patch {
            Patch::Reset { view } => {
                if std::mem::replace(&mut self.switches, view.switches) != view.switches {
                    // The command that switched sessions prints what matters of the stored session.
                    (self.open, self.done) = (HashMap::new(), block_ids(view));
                }
                view.blocks.iter().for_each(|block| self.print_block(block));
                self.status = view.status.clone();
            }
            Patch::Open { block } | Patch::Change { block } | Patch::Close { block } => {
                self.print_block(block)
            }
            Patch::Grow { id, delta } => {
                if let Some(written) = self.open.get_mut(id).and_then(|drawn| drawn.written.as_mut()) {
                    let begins = *written == 0;
                    *written += delta.as_str().len();
                    print_answer_piece(&mut self.screen.lock(), begins, delta.as_str());
                }
            }
            Patch::Remove { id } => drop(self.open.remove(id)),
            Patch::Body { lines, .. } => {
                lines.iter().for_each(|line| self.screen.line(Style::PLAIN, line.as_str()));
            }
            Patch::Status { status } => {
                if is_long(&self.status) && status.run_ms.is_none() {
                    self.screen.lock().ring();
                }
                self.status = status.clone();
            }
            Patch::Checklist { items } => self.print_changed_items(items),
            Patch::Ask { .. } if is_long(&self.status) => self.screen.lock().ring(),
            Patch::Ask { .. }
            | Patch::Answered { .. }
            | Patch::Queue { .. }
            | Patch::Agents { .. }
            | Patch::Jobs { .. } => {}
        }
    }

    fn print_block(&mut self, block: &Block) {
        if self.done.contains(&block.id) {
            return;
        }
        let drawn = self.open.entry(block.id.clone()).or_default();
        if let Content::Answer { text, end: AnswerEnd::SentAgain } = &block.content {
            // The answer that broke off was printed as it arrived.
            drawn.written = Some(text.as_str().len());
        }
        let is_own = block.agent.is_none();
        match &block.content {
            Content::Answer { text, end } if is_own => {
                let written = drawn.written.get_or_insert_default();
                let rest = text.as_str().get(*written..).unwrap_or_default();
                let begins = *written == 0;
                *written += rest.len();
                let mut screen = self.screen.lock();
                print_answer_piece(&mut screen, begins, rest);
                if block.closed {
                    screen.end_line();
                    if let (AnswerEnd::SentAgain, Some(remark)) = (end, end.remark()) {
                        screen.line(Style::YELLOW, &format!("({remark})"));
                    }
                }
            }
            Content::Thinking { .. } if is_own => {
                if !std::mem::replace(&mut drawn.announced, true) {
                    self.screen.line(Style::DIM, "thinking …");
                }
            }
            Content::Call(call) if is_own => {
                // A refused call never runs.
                let is_due = call.state == CallState::Running || block.closed;
                if is_due && !std::mem::replace(&mut drawn.announced, true) {
                    self.screen.line(Style::CYAN, &format!("● {}", call.headline()));
                }
                if block.closed {
                    self.print_lines(&lines::call(call));
                }
            }
            Content::Provider { .. } if is_own && block.closed => self.print_lines(&lines::block(block)),
            Content::Injected { by, text }
                if is_own && block.closed && (is_notice(by) || folded_row(by, text).is_some()) =>
            {
                self.print_lines(&lines::block(block));
            }
            Content::Plugin(_) | Content::Note { .. } | Content::Summary { .. } if is_own && block.closed => {
                self.print_lines(&lines::block(block))
            }
            Content::Answer { .. }
            | Content::Call(_)
            | Content::Thinking { .. }
            | Content::Provider { .. }
            | Content::Plugin(_)
            | Content::Note { .. }
            | Content::User { .. }
            | Content::Injected { .. }
            | Content::Summary { .. }
            | Content::End(_) => {}
        }
        if block.closed {
            self.open.remove(&block.id);
            self.done.insert(block.id.clone());
        }
    }

    /// Prints the to-do items whose state changed; a list with new items is printed by its call.
    fn print_changed_items(&mut self, items: &[CheckRow]) {
        let before = std::mem::replace(&mut self.listed, items.to_vec());
        let texts = |items: &[CheckRow]| items.iter().map(|item| item.text.clone()).collect::<Vec<_>>();
        if texts(&before) != texts(items) {
            return;
        }
        for (item, _) in items.iter().zip(&before).filter(|(item, before)| item.state != before.state) {
            let state = match item.state {
                CheckState::Open => "to do",
                CheckState::Current => "now",
                CheckState::Done => "done",
            };
            self.screen.line(Style::DIM, &format!("  {state}: {}", item.text));
        }
    }

    fn print_lines(&self, lines: &[(Style, String)]) {
        let mut screen = self.screen.lock();
        lines.iter().for_each(|(style, line)| screen.line(*style, line));
    }

    /// Prints a line for a wait that is not reported yet, on a screen that cannot erase.
    fn print_wait(&mut self) {
        if let Some(line) = self.waits.line(&self.status) {
            self.screen.line(Style::YELLOW, &line);
        }
        let is_wait = matches!(
            self.status.activity,
            Activity::Silent { .. } | Activity::Compacting { .. } | Activity::Stopping
        );
        let kind = std::mem::discriminant(&self.status.activity);
        if std::mem::replace(&mut self.said, kind) == kind || !is_wait {
            return;
        }
        let stops = if self.screen.has_keys() { "Esc" } else { "Ctrl-C" };
        let is_labelled = self.screen.lock().is_labelled();
        let text = lines::status(&self.status, stops, self.screen.has_keys()).filter(|_| is_labelled);
        if let Some(text) = text {
            self.screen.line(Style::DIM, &text);
        }
    }

    /// Shows the activity on a screen that can erase.
    fn show_status(&mut self) {
        if !self.screen.lock().erases() {
            self.print_wait();
            return;
        }
        let stops = if self.screen.has_keys() { "Esc" } else { "Ctrl-C" };
        match lines::status(&self.status, stops, self.screen.has_keys()) {
            None => drop(self.line.take().map(StatusLine::clear)),
            Some(text) => {
                if !self.line.as_ref().is_some_and(|line| line.update(&text)) {
                    self.line = Some(StatusLine::show_below(&self.screen, &text));
                }
            }
        }
    }
}
