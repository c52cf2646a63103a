//! Reports of a run without a person: its answer, its refused calls, and on standard error what passes.

use std::collections::HashSet;
use std::sync::Arc;

use zk_tui::Style;
use zk_tui::plain::{SharedScreen, StatusLine, lines};
use zk_view::{Activity, AnswerEnd, Block, BlockId, CallState, Content, NoteLevel, Patch, Text};

use crate::output::result::DeniedCall;

/// Text of a run's final answer, as it was shown, with whatever a terminal must not get: what stands behind the last
/// call and the last message.
pub(crate) fn final_answer(blocks: &[Arc<Block>]) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for block in blocks.iter().rev().filter(|block| block.agent.is_none()) {
        match &block.content {
            Content::Answer { end: AnswerEnd::SentAgain, .. } => {}
            Content::Answer { text, .. } => parts.push(text.unsanitised()),
            Content::User { .. } | Content::Injected { .. } | Content::Call(_) => break,
            Content::Thinking { .. }
            | Content::Provider { .. }
            | Content::Summary { .. }
            | Content::Plugin(_)
            | Content::End(_)
            | Content::Note { .. } => {}
        }
    }
    parts.reverse();
    parts.concat()
}

/// The calls of a run that were refused.
#[derive(Default)]
pub(crate) struct Refused {
    pub(crate) all: Vec<DeniedCall>,
    /// Whether the run had a step with calls, and every call of the last such step was refused: it could not do what it
    /// set out to do.
    pub(crate) decided_the_run: bool,
}

impl Refused {
    pub(crate) fn of(blocks: &[Arc<Block>]) -> Self {
        let mut refused = Self::default();
        let mut step = None;
        for block in blocks.iter().filter(|block| block.agent.is_none()) {
            let Content::Call(call) = &block.content else { continue };
            let is_refused = call.state == CallState::Refused;
            if step != Some(call.step) {
                (step, refused.decided_the_run) = (Some(call.step), true);
            }
            refused.decided_the_run &= is_refused;
            if is_refused {
                let reason = call.reason.as_ref().map_or("", Text::unsanitised).to_owned();
                refused.all.push(DeniedCall { tool: call.tool.unsanitised().to_owned(), reason });
            }
        }
        refused
    }
}

/// Writes what passes to standard error: warnings, waits, and when asked for what the run does.
pub(crate) struct Teller {
    pub(crate) stderr: SharedScreen,
    /// Whether a person reads it.
    pub(crate) warns: bool,
    pub(crate) verbose: bool,
    /// Text that is interim if a call follows.
    pub(crate) interim: Vec<Text>,
    pub(crate) done: HashSet<BlockId>,
    pub(crate) announced: HashSet<BlockId>,
    pub(crate) line: Option<StatusLine>,
    /// Waits that were told of.
    pub(crate) waits: lines::ToldWaits,
}

impl Teller {
    pub(crate) fn new(stderr: SharedScreen, warns: bool, verbose: bool, done: &[Arc<Block>]) -> Self {
        let done = done.iter().map(|block| block.id.clone()).collect();
        Self {
            stderr,
            warns,
            verbose,
            interim: Vec::new(),
            done,
            announced: HashSet::new(),
            line: None,
            waits: lines::ToldWaits::default(),
        }
    }

    pub(crate) fn patch(&mut self, patch: &Patch) {
        match patch {
            Patch::Reset { view } => {
                view.blocks.iter().for_each(|block| self.block(block));
                self.activity(&view.status);
            }
            Patch::Open { block } | Patch::Change { block } | Patch::Close { block } => self.block(block),
            Patch::Status { status } => self.activity(status),
            Patch::Grow { .. }
            | Patch::Remove { .. }
            | Patch::Body { .. }
            | Patch::Ask { .. }
            | Patch::Answered { .. }
            | Patch::Queue { .. }
            | Patch::Agents { .. }
            | Patch::Jobs { .. }
            | Patch::Checklist { .. } => {}
        }
    }

    fn block(&mut self, block: &Block) {
        if block.agent.is_some() || self.done.contains(&block.id) {
            return;
        }
        match &block.content {
            Content::Note { level: NoteLevel::Warning, text } => {
                self.stderr.line(Style::PLAIN, &format!("zk: {text}"));
            }
            Content::Note { level: NoteLevel::Info, text } if self.verbose => {
                self.stderr.line(Style::PLAIN, text.as_str());
            }
            Content::Answer { text, end } if block.closed && *end != AnswerEnd::SentAgain => {
                self.interim.push(text.clone());
            }
            Content::Call(call) if self.verbose => {
                if call.state == CallState::Running || call.state.is_over() {
                    for text in std::mem::take(&mut self.interim) {
                        self.stderr.line(Style::PLAIN, text.as_str());
                    }
                }
                if call.state == CallState::Running && self.announced.insert(block.id.clone()) {
                    self.stderr.line(Style::PLAIN, &format!("● {}", call.summary));
                }
                if block.closed {
                    lines::call(call).iter().for_each(|(_, line)| self.stderr.line(Style::PLAIN, line));
                }
            }
            Content::User { .. } | Content::Injected { .. } => self.interim.clear(),
            Content::Note { .. }
            | Content::Answer { .. }
            | Content::Call(_)
            | Content::Thinking { .. }
            | Content::Provider { .. }
            | Content::Summary { .. }
            | Content::Plugin(_)
            | Content::End(_) => {}
        }
        if block.closed {
            self.announced.remove(&block.id);
            self.done.insert(block.id.clone());
        }
    }

    /// Counts waits on a terminal that can take lines back. Elsewhere another attempt is told of once, and a silent server
    /// less and less often.
    fn activity(&mut self, status: &zk_view::Status) {
        if !self.warns {
            return;
        }
        if !self.stderr.lock().erases() {
            if let Some(line) = self.waits.line(status) {
                self.stderr.line(Style::PLAIN, &format!("zk: {line}"));
            }
            return;
        }
        let waits = matches!(
            status.activity,
            Activity::Silent { .. } | Activity::Retrying { .. } | Activity::Compacting { .. }
        );
        match lines::status(status, "Ctrl-C", false).filter(|_| waits) {
            None => drop(self.line.take().map(StatusLine::clear)),
            Some(text) => {
                if !self.line.as_ref().is_some_and(|line| line.update(&text)) {
                    self.line = Some(StatusLine::show_below(&self.stderr, &text));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use zk_core::events::{SessionStart, StreamIdle};
    use zk_core::kernel::{AnyEvent, Origin};
    use zk_core::model::{ModelRef, Phase, RunId};
    use zk_tui::TerminalEnv;
    use zk_tui::plain::{Backlog, Screen, Sink};
    use zk_view::{Engine, EngineInput, ObservedEvent};

    use super::*;

    #[test]
    fn a_silent_server_is_told_of_on_standard_error_while_nothing_else_is() {
        let (sender, mut lines) = tokio::sync::mpsc::unbounded_channel();
        let screen = Screen::drawn_by(Sink { sender, backlog: Backlog::default() }, &TerminalEnv::default());
        let mut teller = Teller::new(SharedScreen::new(screen), true, false, &[]);
        let mut engine = Engine::new();
        let mut happen = |seconds: u64, event: &dyn AnyEvent| {
            let seen = EngineInput::Event(ObservedEvent { event, origin: &Origin::default() });
            engine.apply(seconds * 1000, seen).patches.iter().for_each(|patch| teller.patch(patch));
        };
        happen(0, &SessionStart { session_id: None, run_id: RunId::fresh(), messages: 0 });
        for seconds in 3..=70 {
            let idle = StreamIdle {
                model: ModelRef::new("llama.cpp", "qwen"),
                phase: Phase::Connect,
                idle_ms: seconds * 1000,
                idle_limit_ms: 3_600_000,
                no_data_ms: seconds * 1000,
                no_data_limit_ms: None,
            };
            happen(seconds, &idle);
        }
        let told: Vec<String> = std::iter::from_fn(|| lines.try_recv().ok()).map(|(_, line)| line).collect();
        let line = |seconds: u64| format!("zk: waiting for llama.cpp/qwen, {seconds} s (limit 60 min)\n");
        assert_eq!(told, [line(15), line(30), line(60)]);
    }
}
