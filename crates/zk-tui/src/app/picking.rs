use std::sync::Arc;

use zk_view::{Block, View};

use super::{Action, App};
use crate::full::Log;
use crate::keys::Key;
use crate::pick::{Picked, Picker, PickerKey, PickerKind};

impl App {
    /// Lets the person choose the session to go on with.
    pub fn choose_session(&mut self) {
        self.open_picker(PickerKind::Sessions);
        self.output.is_dirty = true;
    }

    pub(super) fn open_picker(&mut self, kind: PickerKind) {
        if self.card.is_some() {
            self.hint = Some("a question waits: answer it first");
            return;
        }
        self.list = None;
        self.picker = Some(Picker::new(kind, &self.host.completer, self.transcript.view()));
    }

    /// Whether a key is for what is chosen from.
    pub(super) fn press_picker(&mut self, key: &Key, actions: &mut Vec<Action>) -> bool {
        let Some(picker) = self.picker.as_mut().filter(|_| !self.alternate.is_paging) else { return false };
        match picker.press(key, &self.host.completer, self.transcript.view()) {
            PickerKey::Done => {}
            PickerKey::Leave => self.picker = None,
            PickerKey::Picked(picked) => self.picked(picked, actions),
        }
        true
    }

    fn picked(&mut self, picked: Picked, actions: &mut Vec<Action>) {
        match picked {
            Picked::Job { id, kill } => actions.push(Action::Job { id, kill }),
            Picked::Line(_) if self.is_running() => {
                self.hint = Some("commands wait for the end of the run: Esc stops it");
            }
            Picked::Line(line) => actions.push(Action::Line(line)),
            Picked::Text(text) => {
                // A command begins a line, a file may stand anywhere.
                if text.starts_with('/') && !self.composer.is_empty() {
                    self.hint = Some("a command begins an empty line");
                } else {
                    self.composer.insert(&text);
                }
            }
            Picked::Agent(name) => {
                self.alternate.agent = Some(name);
                self.open_pager();
                self.renew_pager();
            }
        }
        self.picker = None;
    }

    /// Returns the conversation of the sub-agent that the pager shows; nothing where it shows the whole
    /// conversation.
    pub(super) fn agent_pages(&self) -> Option<(Log, View)> {
        let name = self.alternate.agent.as_ref()?;
        let all = self.transcript.view();
        let is_its =
            |block: &&Arc<Block>| block.agent.as_ref().is_some_and(|agent| agent.name.as_str() == name);
        // Blocks of a sub-agent are shown as the conversation of an agent of its own.
        let own = |block: &Arc<Block>| Block { agent: None, ..Block::clone(block) }.into();
        let view = View { blocks: all.blocks.iter().filter(is_its).map(own).collect(), ..View::default() };
        Some((Log::of(&view), view))
    }
}
