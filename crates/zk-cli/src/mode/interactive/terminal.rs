//! Settings and environment of the terminal.

use zk_tui::plain::Screen;
use zk_tui::{Abilities, ScreenKind, term};

use crate::app::AppContext;
use crate::settings::{ScreenName, ThemeName};
use zk_exec::ContextName;

/// The screen of a conversation in plain lines.
pub(super) fn plain_screen(app: &AppContext) -> Screen {
    let env = app.env.terminal();
    Screen::stdout(&env).with_theme(term::theme(&env, app.settings.program.theme.map(ThemeName::name)))
}

/// The screen that the settings ask for, as far as the terminal can draw it.
pub(super) fn screen_kind(app: &AppContext) -> ScreenKind {
    let asked = app.settings.program.screen.map(ScreenName::kind);
    ScreenKind::chosen(asked, &app.env.terminal())
}

/// Returns the abilities of the terminal for a drawn screen.
pub(super) fn drawn_abilities(app: &AppContext) -> Abilities {
    // Files of another machine cannot be opened on this one.
    let workspace = matches!(app.settings.context(), ContextName::Process | ContextName::Sandbox)
        .then(|| app.cwd.display().to_string().into());
    term::abilities(&app.env.terminal(), app.settings.program.theme.map(ThemeName::name), workspace)
}
