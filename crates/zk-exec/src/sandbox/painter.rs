use std::collections::{HashMap, HashSet};

use tokio::task::JoinHandle;
use zk_view::{Block, BlockId, Call, CallState, Content, Drained, NoteLevel, Patch, Status, ViewDriver};

use super::lines;
use super::shared_screen::SharedScreen;
use super::status_line::StatusLine;
use crate::term::Style;

/// Draws a conversation in lines: the answer as it streams, calls and their results below each other, and what goes
/// on now in a status line.
struct Painter {
    screen: SharedScreen,
    /// Blocks that may still change.
    open: HashMap<BlockId, Drawn>,
    /// Blocks that are drawn as they stay.
    done: HashSet<BlockId>,
    status: Status,
    line: Option<StatusLine>,
}

/// What of a block is drawn.
#[derive(Default)]
struct Drawn {
    /// Bytes of an answer.
    written: usize,
    /// Its first line.
    announced: bool,
}

/// A painter at work, until this is dropped.
pub(crate) struct Painting {
    drained: Drained,
    task: JoinHandle<()>,
}

impl Drop for Painting {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Painting {
    /// Draws what happens from now on.
    pub(crate) fn begin(view: &ViewDriver, screen: &SharedScreen) -> Self {
        let mut reader = view.reader();
        let drained = reader.drained();
        let mut painter = Painter {
            screen: screen.clone(),
            open: HashMap::new(),
            done: view.view().blocks.iter().map(|block| block.id.clone()).collect(),
            status: Status::default(),
            line: None,
        };
        let task = tokio::spawn(async move {
            while let Some(patches) = reader.next().await {
                patches.iter().for_each(|patch| painter.patch(patch));
                painter.show_status();
            }
        });
        Self { drained, task }
    }

    /// A handle to wait for the painter.
    pub(crate) fn drained(&self) -> Drained {
        self.drained.clone()
    }

    /// Waits until everything that happened is drawn.
    pub(crate) async fn flush(&self) {
        self.drained.wait().await;
    }
}

impl Painter {
    fn patch(&mut self, patch: &Patch) {
        match patch {
            Patch::Reset { view } => {
                view.blocks.iter().for_each(|block| self.block(block));
                self.status = view.status.clone();
            }
            Patch::Open { block } | Patch::Change { block } | Patch::Close { block } => self.block(block),
            Patch::Grow { id, delta } => {
                if let Some(drawn) = self.open.get_mut(id).filter(|drawn| drawn.announced) {
                    drawn.written += delta.as_str().len();
                    self.screen.lock().stream(delta.as_str());
                }
            }
            Patch::Remove { id } => drop(self.open.remove(id)),
            Patch::Body { lines, .. } => {
                lines.iter().for_each(|line| self.screen.line(Style::Plain, line.as_str()));
            }
            Patch::Status { status } => self.status = status.clone(),
            Patch::Ask { .. } | Patch::Answered { .. } | Patch::Queue { .. } | Patch::Agents { .. } => {}
        }
    }

    fn block(&mut self, block: &Block) {
        if self.done.contains(&block.id) {
            return;
        }
        let drawn = self.open.entry(block.id.clone()).or_default();
        let is_own = block.agent.is_none();
        match &block.content {
            Content::Answer { text, .. } if is_own => {
                drawn.announced = true;
                let rest = text.as_str().get(drawn.written..).unwrap_or_default();
                drawn.written += rest.len();
                let mut screen = self.screen.lock();
                screen.stream(rest);
                if block.closed {
                    screen.end_line();
                }
            }
            Content::Thinking { .. } if is_own => {
                // Its text is not shown, so that nothing of it is counted.
                if !std::mem::replace(&mut drawn.written, 1).eq(&1) {
                    self.screen.line(Style::Dim, "thinking …");
                }
            }
            Content::Call(call) => {
                let indent = lines::indent(block);
                if call.state == CallState::Running && !std::mem::replace(&mut drawn.announced, true) {
                    drawn.announced = false;
                    drawn.written = 1;
                    self.screen.line(Style::Cyan, &format!("{indent}● {}", call.summary));
                }
                if block.closed {
                    self.call(call, &indent);
                }
            }
            Content::Provider { text } if is_own && block.closed && !text.is_empty() => {
                self.screen.line(Style::Dim, &lines::shorten(&format!("◦ {text}")));
            }
            Content::Plugin { title, body, .. } if block.closed => {
                self.screen.line(Style::Bold, title.as_str());
                body.lines.iter().for_each(|line| self.screen.line(Style::Plain, line.as_str()));
            }
            Content::Note { level, text } => {
                let style = match level {
                    NoteLevel::Info => Style::Dim,
                    NoteLevel::Warning => Style::Yellow,
                };
                self.screen.line(style, text.as_str());
            }
            Content::Answer { .. }
            | Content::Thinking { .. }
            | Content::Provider { .. }
            | Content::Plugin { .. }
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

    fn call(&self, call: &Call, indent: &str) {
        let mut screen = self.screen.lock();
        for (style, line) in lines::call(call) {
            screen.line(style, &format!("{indent}{line}"));
        }
    }

    /// Shows what goes on now where lines can be taken back.
    fn show_status(&mut self) {
        if !self.screen.lock().erases() {
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
