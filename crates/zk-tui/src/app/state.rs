use std::collections::VecDeque;
use std::time::Duration;

use super::{IsHarmless, Mask};
use crate::edit::{Buffer, Vim};
use crate::full::{FullScreen, Pager};
use crate::keys::Keymap;
use crate::pick::Completer;
use crate::view::Renderers;

/// State of the composer's keys.
#[derive(Default)]
pub(super) struct Keyboard {
    pub(super) keymap: Keymap,
    /// vi key bindings, if they are enabled.
    pub(super) vim: Vim,
    /// Whether Ctrl-X was pressed as the prefix of a key sequence.
    pub(super) is_prefixed: bool,
    /// Drafts that were set aside, newest last.
    pub(super) stash: Vec<Buffer>,
    /// Note about the offered draft of another window.
    pub(super) offered: Option<String>,
}

/// Times of recent keys and frames.
#[derive(Default)]
pub(super) struct Timing {
    pub(super) interrupted: Option<Duration>,
    /// Time of an Escape that had nothing to close or stop.
    pub(super) escaped: Option<Duration>,
    /// End of the hint on pressing a key again.
    pub(super) hint_ends: Option<Duration>,
    /// Time of a held-back Enter that came right after other keys.
    pub(super) held_enter: Option<Duration>,
    /// Time of the keys that are handled.
    pub(super) pressed: Duration,
    /// Time at which Enter at an open question left a text in the draft.
    pub(super) kept: Option<Duration>,
    /// Time of the last typed text.
    pub(super) text_came: Option<Duration>,
    pub(super) drawn: Option<Duration>,
    /// Times of recent frames, oldest first.
    pub(super) frames: VecDeque<Duration>,
    /// Whether a key was pressed since the last frame.
    pub(super) is_pressed: bool,
    /// Time of a size query that is not answered yet.
    pub(super) asked: Option<Duration>,
    /// Delayed notification on a terminal without focus reports, with the time at which it is sent unless a key
    /// is pressed.
    pub(super) late_notice: Option<(Duration, String)>,
}

/// State of the output to the terminal.
pub(super) struct Output {
    pub(super) is_dirty: bool,
    /// Whether drawing is paused because another program has the terminal.
    pub(super) is_left: bool,
    /// Control sequences that are written with the next frame.
    pub(super) pending: String,
    /// Whether the terminal's title is set.
    pub(super) has_titles: bool,
    /// Present title of the terminal.
    pub(super) title: String,
}

impl Default for Output {
    fn default() -> Self {
        Self {
            is_dirty: true,
            is_left: false,
            pending: String::new(),
            has_titles: false,
            title: String::new(),
        }
    }
}

/// Callbacks that the host provides.
pub(super) struct Host {
    pub(super) completer: Completer,
    pub(super) mask: Mask,
    pub(super) is_harmless: IsHarmless,
    pub(super) makes_prompt: IsHarmless,
    pub(super) renderers: Renderers,
}

/// State of the alternate screen.
#[derive(Default)]
pub(super) struct Alternate {
    /// The alternate screen, while it is in use.
    pub(super) screen: Option<FullScreen>,
    /// Pager on the alternate screen, while it is open.
    pub(super) pager: Option<Pager>,
    /// Whether the person wants the full screen.
    pub(super) is_full: bool,
    pub(super) reading: Reading,
}

/// Conversation shown in the pager's reading mode, in which all keys are the pager's.
#[derive(Default)]
pub(super) enum Reading {
    #[default]
    Nothing,
    /// Main conversation.
    All,
    /// Conversation of the sub-agent with this name.
    Agent(String),
}

impl Alternate {
    /// Whether the pager is open for reading.
    pub(super) fn is_paging(&self) -> bool {
        !matches!(self.reading, Reading::Nothing)
    }
}
