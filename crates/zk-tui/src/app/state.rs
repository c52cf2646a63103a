use std::collections::VecDeque;
use std::time::Duration;

use super::{IsHarmless, Mask};
use crate::edit::{Buffer, Vim};
use crate::full::{FullScreen, Pager};
use crate::keys::Keymap;
use crate::pick::Completer;
use crate::view::Renderers;

/// Keys of the composer.
#[derive(Default)]
pub(super) struct Keyboard {
    pub(super) keymap: Keymap,
    /// The keys of vi, while they are wanted.
    pub(super) vim: Vim,
    /// Whether Ctrl-X was pressed, which makes another key of the next one.
    pub(super) is_prefixed: bool,
    /// Drafts that were put aside, the last one last.
    pub(super) stash: Vec<Buffer>,
    /// Words about the draft that another window left, as long as nobody took it up.
    pub(super) offered: Option<String>,
}

/// Times of keys and frames.
#[derive(Default)]
pub(super) struct Timing {
    pub(super) interrupted: Option<Duration>,
    /// Time of an Escape that had nothing to end.
    pub(super) escaped: Option<Duration>,
    /// Time at which Enter came behind keys that came just before: more may follow.
    pub(super) held_enter: Option<Duration>,
    /// Time at which text was typed last.
    pub(super) text_came: Option<Duration>,
    pub(super) drawn: Option<Duration>,
    /// Times at which the last frames were drawn, oldest first.
    pub(super) frames: VecDeque<Duration>,
    /// A key was pressed since.
    pub(super) is_pressed: bool,
    /// Time at which the terminal was asked how large it is.
    pub(super) asked: Option<Duration>,
    /// Notice for a person who presses no key until then, where nobody knows whether they look.
    pub(super) late_notice: Option<(Duration, String)>,
}

/// State of drawing.
pub(super) struct Output {
    pub(super) is_dirty: bool,
    /// Nothing is drawn: the terminal is somebody else's.
    pub(super) is_left: bool,
    /// Bytes for the terminal itself, to be written with the next frame.
    pub(super) pending: String,
    /// Whether the terminal is told a title.
    pub(super) has_titles: bool,
    /// Title that the terminal was told.
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

/// Functions of the host.
pub(super) struct Host {
    pub(super) completer: Completer,
    pub(super) mask: Mask,
    pub(super) is_harmless: IsHarmless,
    pub(super) makes_prompt: IsHarmless,
    pub(super) renderers: Renderers,
}

/// Use of the alternate screen.
#[derive(Default)]
pub(super) struct Alternate {
    /// The alternate screen, while it is in use.
    pub(super) screen: Option<FullScreen>,
    /// Part of the conversation that the alternate screen shows, while it is wanted.
    pub(super) pager: Option<Pager>,
    /// The person wants the alternate screen for all of the conversation.
    pub(super) is_full: bool,
    pub(super) reading: Reading,
}

/// Conversation that a person reads in the pager, which takes all keys meanwhile.
#[derive(Default)]
pub(super) enum Reading {
    #[default]
    Nothing,
    /// The whole conversation.
    All,
    /// The part of the sub-agent of this name.
    Agent(String),
}

impl Alternate {
    /// Whether the person reads in the pager.
    pub(super) fn is_paging(&self) -> bool {
        !matches!(self.reading, Reading::Nothing)
    }
}
