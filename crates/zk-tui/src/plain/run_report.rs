use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use zk_view::{Activity, AnswerEnd, Block, BlockId, CallState, Content, NoteLevel, Patch, Status, Text};

use super::lines;
use super::{SharedScreen, StatusLine};
use crate::row::Style;

/// Report of a run without a person, on standard error: warnings and waits, with `verbose` also calls and interim texts.
pub struct RunReport {
    stderr: SharedScreen,
    /// Whether warnings and waits are reported, since a person reads the output.
    warns: bool,
    verbose: bool,
    /// Texts of the model, which are interim if a call follows.
    interim: Vec<Text>,
    done: HashSet<BlockId>,
    announced: HashSet<BlockId>,
    line: Option<StatusLine>,
    /// Waits already reported.
    waits: lines::ToldWaits,
}

impl fmt::Debug for RunReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunReport")
            .field("warns", &self.warns)
            .field("verbose", &self.verbose)
            .finish_non_exhaustive()
    }
}

impl RunReport {
    /// Creates a report on a screen for standard error. `warns` says that a person reads it; blocks in `done` are not
    /// reported.
    pub fn new(stderr: SharedScreen, warns: bool, verbose: bool, done: &[Arc<Block>]) -> Self {
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

    /// Reports a change of the view.
    pub fn patch(&mut self, patch: &Patch) {
        match patch {
            Patch::Reset { view } => {
                view.blocks.iter().for_each(|block| self.report_block(block));
                self.report_activity(&view.status);
            }
            Patch::Open { block } | Patch::Change { block } | Patch::Close { block } => {
                self.report_block(block)
            }
            Patch::Status { status } => self.report_activity(status),
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

    fn report_block(&mut self, block: &Block) {
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

    /// Shows waits in a status line on a screen that can erase. Elsewhere a retry is reported once, and a silent server
    /// at growing intervals.
    fn report_activity(&mut self, status: &Status) {
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
    use zk_view::{Engine, EngineInput, ObservedEvent};

    use super::*;
    use crate::plain::{Backlog, Printed, Screen, Sink};
    use crate::term::TerminalEnv;

    #[test]
    fn a_silent_server_is_told_of_on_standard_error_while_nothing_else_is() {
        let (sender, mut lines) = tokio::sync::mpsc::unbounded_channel();
        let screen = Screen::drawn_by(Sink { sender, backlog: Backlog::default() }, &TerminalEnv::default());
        let mut report = RunReport::new(SharedScreen::new(screen), true, false, &[]);
        let mut engine = Engine::new();
        let mut happen = |seconds: u64, event: &dyn AnyEvent| {
            let seen = EngineInput::Event(ObservedEvent { event, origin: &Origin::default() });
            engine.apply(seconds * 1000, seen).patches.iter().for_each(|patch| report.patch(patch));
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
        let told: Vec<String> = std::iter::from_fn(|| lines.try_recv().ok())
            .map(|printed| match printed {
                Printed::Text(_, line) | Printed::Words(_, line) | Printed::Echo(line) => line,
            })
            .collect();
        let line = |seconds: u64| format!("zk: waiting for llama.cpp/qwen, {seconds} s (limit 60 min)\n");
        assert_eq!(told, [line(15), line(30), line(60)]);
    }
}
