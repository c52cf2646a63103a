pub(super) mod edit;

use std::path::{Path, PathBuf};

use zk_core::service::{StateFiles as _, make_private_dir};
use zk_exec::{LocalStateFiles, own_files};
use zk_settings::{Check, Layer, with_value, without_value};

use super::print;
use crate::app::{AppContext, Machine};
use crate::exit::{Exit, Failure, Outcome};

/// The project's settings file, which is shared with others.
const PROJECT_FILE: &str = ".zk/settings.toml";

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
    let (layer, path) = settings_file(&app.work.machine, &app.work.project, project)?;
    let value = value.map(|value| parse_value(app, key, &value, layer)).transpose()?;
    let mut tables: Vec<&str> = key.split('.').collect();
    let name = tables.pop().unwrap_or_default();
    let place = |error| Failure::usage(format!("{}: {error}", path.display()));
    let said = match &value {
        Some(value) => format!("{key} = {value} in {}", path.display()),
        None => format!("{key} is no longer in {}", path.display()),
    };
    change_file(&path, layer, |before| match value {
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

/// File of the person's settings, or of the project's, with its layer.
pub(super) fn settings_file(
    machine: &Machine,
    project: &Path,
    is_project: bool,
) -> Outcome<(Layer, PathBuf)> {
    if is_project {
        return Ok((Layer::Project, project.join(PROJECT_FILE)));
    }
    let path = machine.dirs.settings();
    let path = path.ok_or_else(|| Failure::usage("there is no place for settings: set HOME or ZK_HOME"))?;
    Ok((Layer::User, path))
}

/// Changes the text of a settings file under a lock, so that concurrent changes are not lost.
pub(super) fn change_file(
    path: &Path,
    layer: Layer,
    change: impl FnOnce(&str) -> Outcome<String>,
) -> Outcome<()> {
    make_directory_of(path, layer)?;
    let files = LocalStateFiles::default();
    let _locked = files.lock(&lock_path(path)).map_err(Failure::failed)?;
    let after = change(&text_of(path)?)?;
    files.replace(path, after.as_bytes()).map_err(Failure::failed)
}

/// Creates the directory of a settings file; the person's own directory is private.
fn make_directory_of(path: &Path, layer: Layer) -> Outcome<()> {
    let Some(dir) = path.parent() else { return Ok(()) };
    let made = if layer.is_project() { std::fs::create_dir_all(dir) } else { make_private_dir(dir) };
    made.map_err(|error| Failure::failed(format!("cannot make {}: {error}", dir.display())))
}

/// Returns the text of a settings file; empty if the file does not exist.
fn text_of(path: &Path) -> Outcome<String> {
    match own_files::read_text(path, own_files::MAX_RECORD_BYTES) {
        Ok(text) => Ok(text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(Failure::failed(format!("{}: {error}", path.display()))),
    }
}

/// Path of the lock file of a settings file.
fn lock_path(path: &Path) -> PathBuf {
    path.with_extension("toml.lock")
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
