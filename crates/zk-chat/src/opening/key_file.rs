//! File of key bindings.

use std::path::Path;

use toml::{Table, Value};
use zk_core::service::{HostFiles, HostRead};
use zk_tui::Keymap;

/// Maximum size of the file in bytes.
const MAX_KEY_FILE_BYTES: usize = 64 * 1024;

/// Reads the key bindings in the file `path`, with a message for each invalid one. The default ones without a file.
pub fn read_key_file(path: &Path, files: &dyn HostFiles) -> (Keymap, Vec<String>) {
    let bytes = match files.read(path, &HostRead::whole(MAX_KEY_FILE_BYTES).own_only()) {
        Ok(file) => file.bytes,
        Err(error) if error.is_missing() => return (Keymap::default(), Vec::new()),
        Err(error) => {
            let said = format!("cannot read {}: {error}; the usual keys are used", path.display());
            return (Keymap::default(), vec![said]);
        }
    };
    let (keymap, said) = parse(&String::from_utf8_lossy(&bytes));
    (keymap, said.into_iter().map(|line| format!("{}: {line}", path.display())).collect())
}

fn parse(text: &str) -> (Keymap, Vec<String>) {
    let table: Table = match text.parse() {
        Ok(table) => table,
        Err(error) => {
            let error: toml::de::Error = error;
            let line = error
                .span()
                .map_or(1, |span| 1 + text.get(..span.start).unwrap_or_default().matches('\n').count());
            let why = error.message().lines().next().unwrap_or_default().to_owned();
            return (Keymap::default(), vec![format!("line {line}: {why}; the usual keys are used")]);
        }
    };
    let (mut bindings, mut said, mut vim) = (Vec::new(), Vec::new(), false);
    for (name, value) in &table {
        match (name.as_str(), value) {
            ("vim", Value::Boolean(wanted)) => vim = *wanted,
            ("keys", Value::Table(keys)) => {
                for (action, value) in keys {
                    match string_list(value) {
                        Some(keys) => bindings.push((action.clone(), keys)),
                        None => said.push(format!("`{action}` takes a key, or a list of keys: \"ctrl-t\"")),
                    }
                }
            }
            ("vim", _) => said.push("`vim` is true or false".to_owned()),
            (name, _) => said.push(format!("there is no `{name}`: a file of keys has `vim` and `[keys]`")),
        }
    }
    let (keymap, more) = Keymap::new(&bindings);
    said.extend(more);
    (keymap.vim(vim), said)
}

fn string_list(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::String(text) => Some(vec![text.clone()]),
        Value::Array(values) => values.iter().map(|value| value.as_str().map(str::to_owned)).collect(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_key_binding_is_reported_and_the_others_apply() {
        for (text, expected) in [
            ("", None),
            ("vim = true\n[keys]\npager = \"alt-p\"\neditor = [\"alt-e\", \"ctrl-g\"]\n", None),
            ("vim = true\n[keys\npager", Some("line 2: ")),
            ("vim = 1", Some("`vim` is true or false")),
            ("[keys]\npager = 7", Some("`pager` takes a key")),
            ("[keys]\npagr = \"alt-p\"", Some("there is no action `pagr`")),
            ("key = 1", Some("there is no `key`")),
        ] {
            let (_, said) = parse(text);
            assert_eq!(said.len(), usize::from(expected.is_some()), "{text}: {said:?}");
            assert!(expected.is_none_or(|expected| said[0].contains(expected)), "{text}: {said:?}");
        }
    }
}
