//! `/config` and `/theme`.

use zk_core::kernel::BoxError;
use zk_tui::Theme;

use super::info_context::InfoContext;
use crate::opening::setup::OWN_THEME;

/// Lists the settings with their origins, or opens the person's settings file in the editor.
pub(super) fn config(context: &InfoContext, args: &str) -> Result<String, BoxError> {
    let report = context.factory.settings_report();
    match (args, report.file) {
        ("", file) => {
            let mut lines = report.lines;
            if lines.is_empty() {
                lines.push("every setting is the default".to_owned());
            }
            if let Some(file) = file {
                lines.push(format!("your file: {} (/config edit opens it)", file.display()));
            }
            Ok(lines.join("\n"))
        }
        ("edit", Some(file)) if context.wanted.is_drawn() => {
            context.wanted.request_edit(file);
            Ok(String::new())
        }
        ("edit", Some(file)) => {
            Ok(format!("plain lines open no editor: change {}, then /reload takes it in", file.display()))
        }
        ("edit", None) => Err("there is no place for settings of your own: set HOME or ZK_HOME".into()),
        (other, _) => Err(format!(
            "/config knows no `{other}`: alone it shows settings, `/config edit` opens your file"
        )
        .into()),
    }
}

/// Switches the theme, or lists the themes.
pub(super) fn theme(context: &InfoContext, args: &str) -> Result<String, BoxError> {
    let setup = context.factory.setup();
    let has_file = setup.palette.is_some();
    let usual = setup.theme.unwrap_or(if has_file { OWN_THEME.0 } else { "auto" });
    let now = context.wanted.theme().unwrap_or(usual);
    if args.is_empty() {
        let line = |(name, about): &(&str, &str)| {
            let mark = if *name == now { "●" } else { " " };
            format!("{mark} {name:<14} {about}")
        };
        let own = has_file.then_some(&OWN_THEME);
        return Ok(Theme::NAMES.iter().chain(own).map(line).collect::<Vec<_>>().join("\n"));
    }
    let own = has_file.then_some(&OWN_THEME);
    let Some((name, _)) = Theme::NAMES.iter().chain(own).find(|(name, _)| *name == args) else {
        let names: Vec<&str> = Theme::NAMES.iter().chain(own).map(|(name, _)| *name).collect();
        return Err(format!("there is no theme `{args}`; there are {}", names.join(", ")).into());
    };
    context.wanted.set_theme(name);
    if !context.wanted.is_drawn() {
        return Ok(format!(
            "theme {name} for the drawn screens of this conversation; plain lines keep theirs"
        ));
    }
    Ok(format!("theme {name} for this conversation; `theme = \"{name}\"` in your settings keeps it"))
}
