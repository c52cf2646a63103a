use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use zk_tui::ScreenKind;

/// Messages between commands and the host of the screen: how it is drawn now, another one to go on with, a sign-in, or a
/// text for the clipboard.
#[derive(Clone, Debug, Default)]
pub(crate) struct WantedScreen(Arc<Mutex<Wanted>>);

/// Sign-in that the host is to ask for, of the provider that the person named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WantedSignIn {
    pub(crate) provider: Option<String>,
}

#[derive(Debug, Default)]
struct Wanted {
    kind: Option<ScreenKind>,
    copy: Option<String>,
    /// File to open in the person's editor.
    edited: Option<PathBuf>,
    /// Colours that were chosen last.
    theme: Option<&'static str>,
    sign_in: Option<WantedSignIn>,
    is_drawn: bool,
}

impl WantedScreen {
    pub(crate) fn set(&self, kind: ScreenKind) {
        self.lock().kind = Some(kind);
    }

    pub(crate) fn peek(&self) -> Option<ScreenKind> {
        self.lock().kind
    }

    pub(crate) fn take(&self) -> Option<ScreenKind> {
        self.lock().kind.take()
    }

    /// Says whether the conversation is drawn now, or printed in plain lines.
    pub(crate) fn set_drawn(&self, is_drawn: bool) {
        self.lock().is_drawn = is_drawn;
    }

    pub(crate) fn is_drawn(&self) -> bool {
        self.lock().is_drawn
    }

    pub(crate) fn copy(&self, text: String) {
        self.lock().copy = Some(text);
    }

    pub(crate) fn take_clipboard_text(&self) -> Option<String> {
        self.lock().copy.take()
    }

    pub(crate) fn edit(&self, file: PathBuf) {
        self.lock().edited = Some(file);
    }

    pub(crate) fn take_edited(&self) -> Option<PathBuf> {
        self.lock().edited.take()
    }

    pub(crate) fn set_theme(&self, theme: &'static str) {
        self.lock().theme = Some(theme);
    }

    pub(crate) fn theme(&self) -> Option<&'static str> {
        self.lock().theme
    }

    /// Has the host ask for a provider, and for its key or sign-in.
    pub(crate) fn sign_in(&self, provider: Option<String>) {
        self.lock().sign_in = Some(WantedSignIn { provider });
    }

    pub(crate) fn take_sign_in(&self) -> Option<WantedSignIn> {
        self.lock().sign_in.take()
    }

    fn lock(&self) -> MutexGuard<'_, Wanted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
