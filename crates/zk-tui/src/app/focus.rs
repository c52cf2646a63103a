use super::App;
use crate::pick::{List, Picker};
use crate::question::CardState;

/// Part of the screen that receives keys, below the pager.
pub(super) enum Focus {
    /// The draft.
    Composer(Aid),
    /// Open question; the draft stays beside it.
    Question(Box<CardState>, Aid),
    /// Picker in place of the draft.
    Picker(Box<Picker>),
}

/// List or search that helps with the draft.
#[derive(Debug, Default)]
pub(super) enum Aid {
    #[default]
    None,
    /// Completions that were requested and have not arrived. They are shown on arrival, unless a key is pressed
    /// first.
    Awaited,
    /// Completions of the typed word.
    Completion(Box<List>),
    /// A search in the history.
    Search(Search),
}

/// Search in the history.
#[derive(Debug, Default)]
pub(super) struct Search {
    pub(super) words: String,
    /// Number of skipped matches.
    pub(super) skip: usize,
}

/// Layer of the screen that a key is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layer {
    Pager,
    Picker,
    Search,
    /// Draft, or the question beside it.
    Draft,
}

impl Focus {
    pub(super) fn aid(&self) -> &Aid {
        match self {
            Self::Composer(aid) | Self::Question(_, aid) => aid,
            Self::Picker(_) => &Aid::None,
        }
    }

    /// Replaces the help for the draft and returns the earlier one. Ignored in a picker.
    pub(super) fn replace_aid(&mut self, new: Aid) -> Aid {
        match self {
            Self::Composer(aid) | Self::Question(_, aid) => std::mem::replace(aid, new),
            Self::Picker(_) => Aid::None,
        }
    }

    /// Opens or closes a question beside the draft. Closes a picker.
    pub(super) fn set_card(&mut self, card: Option<CardState>) {
        let aid = self.replace_aid(Aid::None);
        *self = match card {
            Some(card) => Self::Question(Box::new(card), aid),
            None => Self::Composer(aid),
        };
    }

    pub(super) fn card(&self) -> Option<&CardState> {
        match self {
            Self::Question(card, _) => Some(card),
            Self::Composer(_) | Self::Picker(_) => None,
        }
    }

    pub(super) fn card_mut(&mut self) -> Option<&mut CardState> {
        match self {
            Self::Question(card, _) => Some(card),
            Self::Composer(_) | Self::Picker(_) => None,
        }
    }

    pub(super) fn picker_mut(&mut self) -> Option<&mut Picker> {
        match self {
            Self::Picker(picker) => Some(picker),
            Self::Composer(_) | Self::Question(..) => None,
        }
    }

    pub(super) fn list(&self) -> Option<&List> {
        match self.aid() {
            Aid::Completion(list) => Some(list),
            Aid::None | Aid::Awaited | Aid::Search(_) => None,
        }
    }

    pub(super) fn list_mut(&mut self) -> Option<&mut List> {
        match self {
            Self::Composer(Aid::Completion(list)) | Self::Question(_, Aid::Completion(list)) => Some(list),
            Self::Composer(_) | Self::Question(..) | Self::Picker(_) => None,
        }
    }

    pub(super) fn search_mut(&mut self) -> Option<&mut Search> {
        match self {
            Self::Composer(Aid::Search(search)) | Self::Question(_, Aid::Search(search)) => Some(search),
            Self::Composer(_) | Self::Question(..) | Self::Picker(_) => None,
        }
    }

    /// Takes the list of completions out.
    pub(super) fn take_list(&mut self) -> Option<List> {
        match self.replace_aid(Aid::None) {
            Aid::Completion(list) => Some(*list),
            aid => {
                self.replace_aid(aid);
                None
            }
        }
    }

    /// Ends the history search; returns false if none is open.
    pub(super) fn end_search(&mut self) -> bool {
        let is_search = matches!(self.aid(), Aid::Search(_));
        if is_search {
            self.replace_aid(Aid::None);
        }
        is_search
    }

    /// Cancels completions that were requested and have not arrived.
    pub(super) fn stop_awaiting(&mut self) {
        if matches!(self.aid(), Aid::Awaited) {
            self.replace_aid(Aid::None);
        }
    }
}

impl App {
    /// The layer that the next key is for.
    pub(super) fn layer(&self) -> Layer {
        match (&self.focus, self.focus.aid()) {
            _ if self.alternate.is_paging() => Layer::Pager,
            (Focus::Picker(_), _) => Layer::Picker,
            (_, Aid::Search(_)) => Layer::Search,
            (Focus::Composer(_) | Focus::Question(..), _) => Layer::Draft,
        }
    }
}
