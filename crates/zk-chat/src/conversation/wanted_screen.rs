use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use zk_tui::ScreenKind;

/// Requests of commands to the screen's host: another screen, a sign-in, or a text for the clipboard. Commands
/// also read the present screen here.
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
    /// File that a command asked to open in the editor.
    edited: Option<PathBuf>,
    /// Last theme that the person chose.
    theme: Option<&'static str>,
    sign_in: Option<WantedSignIn>,
    is_drawn: bool,
}

impl WantedScreen {
    pub(crate) fn request_screen(&self, kind: ScreenKind) {
        self.lock().kind = Some(kind);
    }

    pub(crate) fn requested_screen(&self) -> Option<ScreenKind> {
        self.lock().kind
    }

    pub(crate) fn take_screen(&self) -> Option<ScreenKind> {
        self.lock().kind.take()
    }

    /// Records whether the conversation is drawn or printed in plain lines.
    pub(crate) fn set_drawn(&self, is_drawn: bool) {
        self.lock().is_drawn = is_drawn;
    }

    pub(crate) fn is_drawn(&self) -> bool {
        self.lock().is_drawn
    }

    pub(crate) fn request_copy(&self, text: String) {
        self.lock().copy = Some(text);
    }

    pub(crate) fn take_copy(&self) -> Option<String> {
        self.lock().copy.take()
    }

    pub(crate) fn request_edit(&self, file: PathBuf) {
        self.lock().edited = Some(file);
    }

    pub(crate) fn take_edit(&self) -> Option<PathBuf> {
        self.lock().edited.take()
    }

    pub(crate) fn set_theme(&self, theme: &'static str) {
        self.lock().theme = Some(theme);
    }

    pub(crate) fn theme(&self) -> Option<&'static str> {
        self.lock().theme
    }

    /// Requests the provider dialog from the host.
    pub(crate) fn request_sign_in(&self, provider: Option<String>) {
        self.lock().sign_in = Some(WantedSignIn { provider });
    }

    pub(crate) fn take_sign_in(&self) -> Option<WantedSignIn> {
        self.lock().sign_in.take()
    }

    fn lock(&self) -> MutexGuard<'_, Wanted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
