//! Abilities of the terminal and the form of its notices, by its environment and the settings, until it says
//! itself what it is.

use zk_tui::{Abilities, Looks, Notices, Queries, Theme};

use crate::app::AppContext;
use crate::env::Env;
use crate::place::ContextName;
use crate::settings::ThemeName;

/// The colours that are wanted, or those that fit the ground of the terminal as far as it tells.
fn theme(env: &Env, wanted: Option<ThemeName>) -> Theme {
    // As `15;0`: the colours of text and ground, of sixteen.
    let ground = env.text("COLORFGBG").and_then(|colours| colours.rsplit(';').next()?.parse::<u8>().ok());
    match (wanted, ground) {
        _ if env.get("NO_COLOR").is_some() => Theme::Mono,
        (Some(ThemeName::Mono), _) => Theme::Mono,
        (Some(ThemeName::ColourBlind), _) => Theme::ColourBlind,
        (Some(ThemeName::Light), _) => Theme::Light,
        (Some(ThemeName::Dark), _) => Theme::Dark,
        (_, Some(7 | 9..=15)) => Theme::Light,
        (_, _) => Theme::Dark,
    }
}

/// As [`theme`], for plain lines.
pub(super) fn wanted_theme(app: &AppContext) -> Theme {
    theme(&app.env, app.settings.program.theme)
}

/// Returns the form in which the terminal shows a notice.
fn notices(env: &Env) -> Notices {
    let program = env.text("TERM_PROGRAM").unwrap_or_default();
    let term = env.text("TERM").unwrap_or_default();
    if env.get("KITTY_WINDOW_ID").is_some() {
        Notices::Osc99
    } else if matches!(program, "iTerm.app" | "WezTerm" | "ghostty") || env.get("WT_SESSION").is_some() {
        Notices::Osc9
    } else if env.get("VTE_VERSION").is_some() || term.starts_with("foot") || term.starts_with("rxvt") {
        Notices::Osc777
    } else {
        Notices::Bell
    }
}

/// Returns the abilities of the terminal, as far as the environment says.
pub(super) fn abilities(app: &AppContext) -> Abilities {
    let (env, wanted) = (&app.env, app.settings.program.theme);
    let term = env.text("TERM").unwrap_or_default();
    // Terminals that break lines anew when they get narrower; within `screen` nothing does.
    let reflowing =
        ["TMUX", "VTE_VERSION", "KITTY_WINDOW_ID", "ALACRITTY_WINDOW_ID", "WEZTERM_PANE", "ITERM_SESSION_ID"];
    let is_screen = term.starts_with("screen") && env.get("TMUX").is_none();
    Abilities {
        looks: Looks { theme: theme(env, wanted), links: term != "linux" },
        synchronized: false,
        tmux: env.get("TMUX").is_some(),
        notices: notices(env),
        // A colour that was asked for stays; the console of Linux would print the question.
        follows_ground: matches!(wanted, None | Some(ThemeName::Auto))
            && env.get("NO_COLOR").is_none()
            && term != "linux",
        // Files of another machine cannot be opened on this one.
        workspace: matches!(ContextName::of(app), ContextName::Process | ContextName::Sandbox)
            .then(|| app.cwd.display().to_string().into()),
        reflows: !is_screen && reflowing.iter().any(|name| env.get(name).is_some()),
    }
}

/// Returns the questions for the terminal: the console of Linux would print them.
pub(super) fn queries(app: &AppContext, abilities: &Abilities) -> Queries {
    Queries { ground: abilities.follows_ground, version: app.env.text("TERM") != Some("linux") }
}
