//! Capabilities of the terminal and form of its notifications, by environment and settings, until the terminal
//! reports its name.

use std::sync::Arc;

use super::env::TerminalEnv;
use super::modes::Queries;
use super::notice::NoticeForm;
use crate::inline::Abilities;
use crate::row::{Looks, Theme};

/// Theme to use: the requested one, or one that fits the terminal's background as far as known.
pub fn theme(env: &TerminalEnv, wanted: Option<&str>) -> Theme {
    // The value has the form `15;0`: indexes of the text's and the background's colour, of sixteen.
    let ground = env.text("COLORFGBG").and_then(|colours| colours.rsplit(';').next()?.parse::<u8>().ok());
    match (wanted, ground) {
        _ if env.is_colourless() => Theme::Mono,
        (Some("mono"), _) => Theme::Mono,
        (Some("colour-blind"), _) => Theme::ColourBlind,
        (Some("light"), _) => Theme::Light,
        (Some("dark"), _) => Theme::Dark,
        (_, Some(7 | 9..=15)) => Theme::Light,
        (_, _) if has_few_colours(env) => Theme::Sixteen,
        (_, _) => Theme::Dark,
    }
}

/// Whether the terminal has at most sixteen colours.
fn has_few_colours(env: &TerminalEnv) -> bool {
    let term = env.text("TERM").unwrap_or_default();
    matches!(term, "linux" | "ansi" | "cygwin") || term.starts_with("vt") || term.contains("16color")
}

/// Form of the terminal's notifications.
fn notice_form(env: &TerminalEnv) -> NoticeForm {
    let program = env.text("TERM_PROGRAM").unwrap_or_default();
    let term = env.text("TERM").unwrap_or_default();
    if env.is_set("KITTY_WINDOW_ID") {
        NoticeForm::Osc99
    } else if matches!(program, "iTerm.app" | "WezTerm" | "ghostty") || env.is_set("WT_SESSION") {
        NoticeForm::Osc9
    } else if env.is_set("VTE_VERSION") || term.starts_with("foot") || term.starts_with("rxvt") {
        NoticeForm::Osc777
    } else {
        NoticeForm::Bell
    }
}

/// Capabilities of the terminal according to the environment, with the requested theme. Links lead to files
/// of `workspace`.
pub fn abilities(env: &TerminalEnv, wanted: Option<&str>, workspace: Option<Arc<str>>) -> Abilities {
    let term = env.text("TERM").unwrap_or_default();
    // Terminals that reflow lines when they become narrower; `screen` does not.
    let reflowing =
        ["TMUX", "VTE_VERSION", "KITTY_WINDOW_ID", "ALACRITTY_WINDOW_ID", "WEZTERM_PANE", "ITERM_SESSION_ID"];
    let is_screen = term.starts_with("screen") && !env.is_set("TMUX");
    Abilities {
        looks: Looks { theme: theme(env, wanted), links: term != "linux" },
        synchronized: false,
        tmux: env.is_set("TMUX"),
        notices: notice_form(env),
        // A requested theme is kept; the Linux console would print the query.
        follows_ground: matches!(wanted, None | Some("auto")) && !env.is_colourless() && term != "linux",
        workspace,
        reflows: !is_screen && reflowing.iter().any(|name| env.is_set(name)),
    }
}

/// Queries to send to the terminal; none for the Linux console, which would print them.
pub fn queries(env: &TerminalEnv, abilities: &Abilities) -> Queries {
    Queries { ground: abilities.follows_ground, version: env.text("TERM") != Some("linux") }
}
