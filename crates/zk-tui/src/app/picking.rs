use std::sync::Arc;

use zk_view::{AgentRow, AgentState, Block, View};

use super::focus::{Aid, Focus};
use super::state::Reading;
use super::{Action, App, messages};
use crate::full::Log;
use crate::keys::Key;
use crate::pick::{Picked, Picker, PickerKey, PickerKind};

impl App {
    /// Opens the session picker.
    pub fn choose_session(&mut self) {
        self.open_picker(PickerKind::Sessions);
        self.output.is_dirty = true;
    }

    /// Kind of picker to open: sub-agents while some run, otherwise commands.
    pub(super) fn default_picker(&self) -> PickerKind {
        let is_working = |agent: &AgentRow| agent.state == AgentState::Running;
        match self.transcript.view().agents.iter().any(is_working) {
            true => PickerKind::Agents,
            false => PickerKind::Commands,
        }
    }

    pub(super) fn open_picker(&mut self, kind: PickerKind) {
        if self.focus.card().is_some() {
            self.set_hint(messages::QUESTION_WAITS);
            return;
        }
        self.focus = Focus::Picker(Box::new(Picker::new(kind, &self.host.completer, self.transcript.view())));
    }

    /// Handles a key in a picker.
    pub(super) fn press_picker(&mut self, key: &Key, actions: &mut Vec<Action>) {
        let Some(picker) = self.focus.picker_mut() else { return };
        match picker.press(key, &self.host.completer, self.transcript.view()) {
            PickerKey::Done => {}
            PickerKey::Leave => self.focus = Focus::Composer(Aid::None),
            PickerKey::Picked(picked) => {
                // The line may open another picker, so this one closes first.
                self.focus = Focus::Composer(Aid::None);
                self.handle_choice(picked, actions);
            }
            PickerKey::Act(picked) => self.handle_choice(picked, actions),
        }
    }

    fn handle_choice(&mut self, picked: Picked, actions: &mut Vec<Action>) {
        match picked {
            Picked::Job { id, kill } => actions.push(Action::Job { id, kill }),
            Picked::Rename { id, title } => actions.push(Action::RenameSession { id, title }),
            Picked::Delete { id } => actions.push(Action::DeleteSession { id }),
            // The line acts as if typed, but the draft is kept.
            Picked::Line(line) => self.run_line(&line, actions),
            Picked::Text(text) => {
                // A command can only be inserted at the start of a line, a file anywhere.
                if text.starts_with('/') && !self.composer.is_empty() {
                    self.set_hint(messages::COMMAND_NEEDS_EMPTY_LINE);
                } else {
                    self.composer.insert(&text);
                }
            }
            Picked::Agent(name) => {
                self.open_pager(Reading::Agent(name));
                self.restart_pager();
            }
        }
    }

    /// Log and view of the sub-agent shown in the pager; `None` if the pager shows the main conversation.
    pub(super) fn agent_log_and_view(&self) -> Option<(Log, View)> {
        let Reading::Agent(name) = &self.alternate.reading else { return None };
        let all = self.transcript.view();
        let is_its =
            |block: &&Arc<Block>| block.agent.as_ref().is_some_and(|agent| agent.name.as_str() == name);
        // Blocks of the sub-agent are shown like those of a main agent.
        let own = |block: &Arc<Block>| Block { agent: None, ..Block::clone(block) }.into();
        let view = View { blocks: all.blocks.iter().filter(is_its).map(own).collect(), ..View::default() };
        Some((Log::of(&view), view))
    }
}
