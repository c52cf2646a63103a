pub(super) mod edit;
mod file;

use zk_settings::{Check, Layer, with_value, without_value};

use super::print;
use crate::app::AppContext;
use crate::exit::{Exit, Failure, Outcome};
pub(in crate::commands) use file::SettingsFile;

/// Remark on a change of the project's file.
const UNAPPROVED: &str = "the project's file counts once `zk trust add` approved it as it is now";

/// Prints the effective value of a setting, or all settings of a table.
pub(crate) fn config_get(app: &AppContext, key: &str, origin: bool) -> Outcome<Exit> {
    let is_wanted = |line: &String| {
        let rest = line.strip_prefix(key);
        rest.is_some_and(|rest| rest.starts_with(" =") || rest.starts_with('.'))
    };
    let lines: Vec<String> = app.settings.lines(origin).into_iter().filter(is_wanted).collect();
    if lines.is_empty() {
        return Err(Failure::usage(format!("`{key}` is not set; `zk config keys` lists what can be")));
    }
    print(&app.work.machine, &lines)
}

/// Changes a setting in a file, or removes it if there is no value.
pub(crate) fn config_change(
    app: &AppContext,
    key: &str,
    value: Option<String>,
    project: bool,
) -> Outcome<Exit> {
    let file = SettingsFile::new(&app.work.machine, &app.work.project, project)?;
    let path = file.path();
    let value = value.map(|value| parse_value(app, key, &value, file.layer())).transpose()?;
    let mut tables: Vec<&str> = key.split('.').collect();
    let name = tables.pop().unwrap_or_default();
    let place = |error| Failure::usage(format!("{}: {error}", path.display()));
    let said = match &value {
        Some(value) => format!("{key} = {value} in {}", path.display()),
        None => format!("{key} is no longer in {}", path.display()),
    };
    file.change(|before| match value {
        Some(value) => with_value(before, &tables, name, value).map_err(place),
        None => match without_value(before, &tables, name).map_err(place)? {
            (text, true) => Ok(text),
            (_, false) => Err(Failure::usage(format!("`{key}` is not in {}", path.display()))),
        },
    })?;
    let mut lines = vec![said];
    if project {
        lines.push(UNAPPROVED.to_owned());
    }
    print(&app.work.machine, &lines)
}

/// Parses a value for its key: as TOML if that fits, otherwise as a string.
fn parse_value(app: &AppContext, key: &str, value: &str, layer: Layer) -> Outcome<toml::Value> {
    let path: Vec<String> = key.split('.').map(str::to_owned).collect();
    if path.iter().any(String::is_empty) {
        return Err(Failure::usage(format!(
            "`{key}` is no key: tables and key stand with a dot between them"
        )));
    }
    let of_toml = format!("v = {value}").parse::<toml::Table>().ok().and_then(|mut table| table.remove("v"));
    let text = toml::Value::String(value.to_owned());
    let mut refused = None;
    for candidate in of_toml.into_iter().chain([text]) {
        match app.settings.check(&path, &candidate, layer) {
            Check::Valid => return Ok(candidate),
            Check::Warn(why) | Check::Ignored(why) | Check::Invalid(why) => refused = refused.or(Some(why)),
        }
    }
    Err(Failure::usage(refused.unwrap_or_else(|| format!("`{key}` cannot be set to {value}"))))
}
