use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use zk_tui::ScreenKind;

/// Requests from commands to the host of the screen: another screen, a sign-in, or a text for the clipboard.
/// Also tells commands the present screen.
#[derive(Clone, Debug, Default)]
pub(crate) struct WantedScreen(Arc<Mutex<Wanted>>);

/// Requested sign-in; the provider is optional.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WantedSignIn {
    pub(crate) provider: Option<String>,
}

#[derive(Debug, Default)]
struct Wanted {
    kind: Option<ScreenKind>,
    copy: Option<String>,
    /// File to open in the editor.
    edited: Option<PathBuf>,
    /// Theme chosen last.
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

    /// Records whether the conversation is drawn or printed in plain lines.
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

    /// Requests the provider dialog from the host.
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
