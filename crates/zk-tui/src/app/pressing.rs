use std::time::Duration;

use super::focus::Layer;
use super::state::Reading;
use super::{Action, App};
use crate::keys::Key;

/// Handling of keys in their order.
impl App {
    /// Handles keys that were read together.
    pub fn keys(&mut self, keys: &[Key], now: Duration) -> Vec<Action> {
        let mut actions = Vec::new();
        (self.output.is_dirty, self.timing.is_pressed) = (true, true);
        let mut text = Vec::new();
        if keys.iter().any(|key| !key.is_reply()) {
            self.timing.late_notice = None;
        }
        let is_burst = keys.iter().filter(|key| !key.is_reply()).count() > 1;
        for key in keys {
            if key.is_reply() {
                self.handle_reply(key);
                continue;
            }
            if let Key::Wheel { .. } = key {
                self.turn_wheel(key, now);
                continue;
            }
            self.shows_keys = false;
            self.end_brief_hint();
            // Consecutive text is inserted as a whole, so that line ends within a paste are recognised; then
            // other keys act.
            if !self.is_text(key) {
                self.insert_text(&mut text, is_burst, now, &mut actions);
            }
            let layer = self.layer();
            let key = match layer {
                Layer::Draft if self.press_shortcut(key, &mut actions) => continue,
                Layer::Draft => match self.apply_keymap(key) {
                    Some(key) => key,
                    None => continue,
                },
                // These layers have key bindings of their own.
                Layer::Pager | Layer::Picker | Layer::Search => key.clone(),
            };
            match (layer, &key) {
                (_, Key::Ctrl('z')) => actions.push(Action::Suspend),
                (Layer::Pager, key) => self.press_pager(key, now),
                (Layer::Picker, key) => self.press_picker(key, &mut actions),
                (_, key) if self.press_full_screen(key) => {}
                (_, Key::Ctrl('o')) => self.open_picker(self.default_picker()),
                (_, Key::Ctrl('t')) => self.open_pager(Reading::All),
                (_, Key::Escape) => self.press_escape(now, &mut actions),
                (_, Key::Ctrl('c')) => self.press_interrupt(now, &mut actions),
                (_, Key::BackTab) => actions.push(Action::NextMode),
                (_, key) if may_be_pasted(key) => text.push(key.clone()),
                (_, key) => self.press_typed(std::slice::from_ref(key), is_burst, now, &mut actions),
            }
        }
        if !text.is_empty() {
            let settled = self.convert_pasted_enters(text, is_burst, now);
            self.press_typed(&settled, is_burst, now, &mut actions);
        }
        actions
    }

    /// Handles a wheel event, which scrolls and never changes the draft or answers a question.
    fn turn_wheel(&mut self, key: &Key, now: Duration) {
        if self.layer() == Layer::Pager {
            self.press_pager(key, now);
        } else {
            self.press_full_screen(key);
        }
    }

    /// Handles a reply of the terminal.
    fn handle_reply(&mut self, reply: &Key) {
        match reply {
            Key::Synchronized(agreed) => self.screen.set_synchronized(*agreed),
            Key::Ground { is_light } => self.screen.set_ground(*is_light),
            Key::Size { rows, columns } => self.screen.set_reported_size(*rows, *columns),
            Key::Version(version) => self.screen.set_version(version),
            Key::Answered => self.screen.end_answer(),
            Key::Focus(is_focused) => self.set_focused(*is_focused),
            _ => {}
        }
    }

    /// Whether a key is text, whatever other keys it was read with.
    fn is_text(&self, key: &Key) -> bool {
        let is_taken = matches!(self.layer(), Layer::Pager | Layer::Picker);
        !is_taken
            && !self.keyboard.vim.is_normal()
            && self.keyboard.keymap.translate(key).is_some_and(|key| may_be_pasted(&key))
    }

    /// Handles a run of text that another key followed. A final Enter in it is a typed one.
    fn insert_text(&mut self, text: &mut Vec<Key>, is_burst: bool, now: Duration, actions: &mut Vec<Action>) {
        let settled = self.convert_all_pasted_enters(std::mem::take(text), now);
        if !settled.is_empty() {
            self.press_typed(&settled, is_burst, now, actions);
        }
    }
}

fn may_be_pasted(key: &Key) -> bool {
    matches!(key, Key::Char(_) | Key::Enter | Key::Newline | Key::Tab | Key::Paste(_))
}
