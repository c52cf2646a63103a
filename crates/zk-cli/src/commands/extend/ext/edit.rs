//! Adds extensions to the person's settings and removes them; the rest of the file stays unchanged.

use std::path::Path;

use serde_json::{Value, json};
use zk_extensions::{ExtensionConfig, ExtensionOrigin};

use super::settings_text::{extension_names, with_extension, without};
use crate::app::{Machine, Workplace};
use crate::args::ext::ExtAdd;
use crate::commands::config::SettingsFile;
use crate::commands::extend::mcp::settings_text::parse;
use crate::commands::print_words;
use crate::exit::{Exit, Failure, Outcome};

pub(super) fn add(work: &Workplace, add: ExtAdd) -> Outcome<Exit> {
    let ExtAdd { name, env, command } = add;
    let mut definition = json!({ "name": name, "command": with_absolute_files(&work.cwd, &command) });
    let pairs = env.iter().map(|pair| {
        let (name, value) = pair.split_once('=').filter(|(name, _)| !name.is_empty())?;
        Some((name.to_owned(), Value::String(value.to_owned())))
    });
    let pairs: Option<serde_json::Map<String, Value>> = pairs.collect();
    let pairs = pairs.ok_or_else(|| Failure::usage("a variable is like --env NAME=VALUE"))?;
    if let Some(definition) = definition.as_object_mut().filter(|_| !pairs.is_empty()) {
        definition.insert("env".to_owned(), Value::Object(pairs));
    }
    let file = SettingsFile::of_person(&work.machine)?;
    let path = file.path();
    let origin = ExtensionOrigin::person(path.display().to_string());
    ExtensionConfig::read_all(&json!([definition]), &origin)
        .map_err(|error| Failure::usage(error.to_string()))?;
    file.change(|before| {
        if extension_names(&parse(path, before)?).contains(&name) {
            return Err(Failure::usage(format!(
                "there is an extension `{name}` already; `zk ext remove {name}` removes it"
            )));
        }
        let after = with_extension(before, &definition).map_err(Failure::failed)?;
        checked(path, before, after, &name, true)
    })?;
    let told = format!("extension {name} is set up in {}; `zk ext test {name}` starts it", path.display());
    print_words(&work.machine, &[told])
}

pub(super) fn remove(machine: &Machine, name: &str) -> Outcome<Exit> {
    let file = SettingsFile::of_person(machine)?;
    let path = file.path();
    file.change(|before| {
        if !extension_names(&parse(path, before)?).contains(&name.to_owned()) {
            return Err(Failure::usage(format!(
                "{} has no extension `{name}`; those of a project are in its .zk/settings.toml",
                path.display()
            )));
        }
        checked(path, before, without(before, name), name, false)
    })?;
    print_words(machine, &[format!("extension {name} is no longer in {}", path.display())])
}

/// Replaces files of `cwd` in a command by their absolute paths, since the command is started in any project.
fn with_absolute_files(cwd: &Path, command: &[String]) -> Vec<String> {
    let is_file = |(at, word): (usize, &String)| {
        let is_path = word.contains('/') || (at > 0 && !word.starts_with('-'));
        is_path && cwd.join(word).is_file()
    };
    let words = command.iter().enumerate();
    words
        .map(
            |(at, word)| {
                if is_file((at, word)) { cwd.join(word).display().to_string() } else { word.clone() }
            },
        )
        .collect()
}

/// Returns the settings text `after`, after a check that it differs from `before` in this extension only.
fn checked(path: &Path, before: &str, after: String, name: &str, is_there: bool) -> Outcome<String> {
    let rest = |text: &str| -> Option<(toml::Table, bool)> {
        let mut table = parse(path, text).ok()?;
        let is_there = extension_names(&table).iter().any(|one| one == name);
        let is_empty = table.get_mut("extensions").and_then(toml::Value::as_array_mut).is_some_and(|list| {
            list.retain(|one| one.get("name").and_then(toml::Value::as_str) != Some(name));
            list.is_empty()
        });
        if is_empty {
            table.remove("extensions");
        }
        Some((table, is_there))
    };
    let (old, new) = (rest(before), rest(&after));
    let is_right =
        matches!((old, new), (Some((old, _)), Some((new, there))) if old == new && there == is_there);
    if !is_right {
        return Err(Failure::failed(format!(
            "cannot change {} without changing something else in it; edit `[[extensions]]` by hand",
            path.display()
        )));
    }
    Ok(after)
}
