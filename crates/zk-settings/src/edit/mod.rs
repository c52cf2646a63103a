//! Changes of one value in the text of a settings file. Bytes of the text that are not the value's stay.

mod change;
mod layout;
#[cfg(test)]
mod tests;

use toml::{Table, Value};

use change::Change;
use layout::Layout;

/// Reason why a text cannot be changed.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    /// The text is no TOML.
    #[error("invalid TOML: {0}")]
    Invalid(#[from] toml_edit::TomlError),
    /// Value without a notation in TOML.
    #[error("`{key}` cannot be written: {why}")]
    Unwritable {
        /// The key.
        key: String,
        /// Reason why the value cannot be written.
        why: String,
    },
    /// Key below a value that is no table.
    #[error("`{key}` cannot be set: `{part}` is a value, no table")]
    NoTable {
        /// The key.
        key: String,
        /// The part that is a value.
        part: String,
    },
    /// Setting the value would change other parts of the file.
    #[error("`{key}` cannot be set without changing something else: set it by hand")]
    Entangled {
        /// The key.
        key: String,
    },
}

/// Sets `key` of the table `table` in the text of a settings file; an empty `table` is the top level.
/// Every other byte of the text stays as it is. A new key follows the last one of its table; a new table is appended.
///
/// ```
/// use zk_settings::with_value;
///
/// let text = with_value("# mine\nmodel = \"x\" # quick\n", &[], "model", "y")?;
/// assert_eq!(text, "# mine\nmodel = \"y\" # quick\n");
/// # Ok::<(), zk_settings::EditError>(())
/// ```
///
/// # Errors
/// [`EditError`] where the text cannot be read, or is written in a way that this does not change.
pub fn with_value(
    text: &str,
    table: &[&str],
    key: &str,
    value: impl Into<Value>,
) -> Result<String, EditError> {
    let value = value.into();
    let name = || dotted_name(table, key);
    let layout = Layout::parse(text)?;
    let found = layout.table_at(table).map_err(|part| EditError::NoTable { key: name(), part })?;
    let mut wanted = parse_table(text)?;
    set_value(&mut wanted, table, key, &value);
    let written = value.to_string();
    let edited = match found.child(key) {
        Some(child) => match child.value_span() {
            Some(span) => Change::replacing(span, written).applied_to(text),
            // A table gives way to the value.
            None => {
                let (without, _) = without_value(text, table, key)?;
                return with_value(&without, table, key, value);
            }
        },
        None => layout.insertion(table, key, &written).and_then(|change| change.applied_to(text)),
    };
    check_edited(edited, &wanted, table, name)
}

/// Removes `key` of the table `table` from the text of a settings file; also returns whether it was present.
///
/// Comment lines directly above the key go with it, unless they begin the file: those are the file's own. Comments
/// that a blank line separates from the key stay, as does every other line.
///
/// ```
/// use zk_settings::without_value;
///
/// let text = "# my settings\n\nmodel = \"x\"\n[tools]\n# long\nshell = 1\n";
/// let (text, was_there) = without_value(text, &["tools"], "shell")?;
/// assert_eq!((text.as_str(), was_there), ("# my settings\n\nmodel = \"x\"\n[tools]\n", true));
/// let (text, _) = without_value(&text, &[], "model")?;
/// assert_eq!(text, "# my settings\n\n[tools]\n");
/// # Ok::<(), zk_settings::EditError>(())
/// ```
///
/// # Errors
/// [`EditError`] when the text cannot be parsed, or its layout is not supported.
pub fn without_value(text: &str, table: &[&str], key: &str) -> Result<(String, bool), EditError> {
    let layout = Layout::parse(text)?;
    let mut wanted = parse_table(text)?;
    let plain =
        table.iter().try_fold(&mut wanted, |at, part| at.get_mut(*part).and_then(Value::as_table_mut));
    if plain.and_then(|plain| plain.remove(key)).is_none() {
        return Ok((text.to_owned(), false));
    }
    let edited = remove(&layout, table, key);
    Ok((check_edited(edited, &wanted, table, || dotted_name(table, key))?, true))
}

/// Renames a key in the text of a settings file, as `former` to `present`: the value, its place and all comments stay.
/// Where the file has the present key, too, the former one is removed.
///
/// ```
/// use zk_settings::renamed_key;
///
/// let text = "[tools]\n# for tests\nshell_limit = 9 # long\n";
/// let text = renamed_key(text, &["tools", "shell_limit"], &["tools", "shell_seconds"])?;
/// assert_eq!(text, "[tools]\n# for tests\nshell_seconds = 9 # long\n");
/// # Ok::<(), zk_settings::EditError>(())
/// ```
///
/// # Errors
/// [`EditError`] where the text cannot be read, and [`EditError::Entangled`] for a key that moved to another table.
pub fn renamed_key(text: &str, former: &[&str], present: &[&str]) -> Result<String, EditError> {
    let name = || present.join(".");
    let entangled = || EditError::Entangled { key: name() };
    let (from, table) = former.split_last().ok_or_else(entangled)?;
    let (to, _) = present.split_last().filter(|(_, of)| *of == table).ok_or_else(entangled)?;
    let layout = Layout::parse(text)?;
    let found = layout.table_at(table).map_err(|part| EditError::NoTable { key: name(), part })?;
    if found.child(to).is_some() {
        return Ok(without_value(text, table, from)?.0);
    }
    let Some(span) = found.child(from).and_then(|child| child.key_span()) else { return Ok(text.to_owned()) };
    let mut wanted = parse_table(text)?;
    let plain =
        table.iter().try_fold(&mut wanted, |at, part| at.get_mut(*part).and_then(Value::as_table_mut));
    if let Some(plain) = plain
        && let Some(value) = plain.remove(*from)
    {
        plain.insert((*to).to_owned(), value);
    }
    let edited = Change::replacing(span, toml_edit::Key::new(*to).to_string()).applied_to(text);
    check_edited(edited, &wanted, table, name)
}

fn remove(layout: &Layout<'_>, table: &[&str], key: &str) -> Option<String> {
    let found = layout.table_at(table).ok()?;
    let changes = layout.removal(&found, key);
    changes.into_iter().rev().try_fold(layout.text().to_owned(), |text, change| change.applied_to(&text))
}

fn dotted_name(table: &[&str], key: &str) -> String {
    table.iter().chain([&key]).copied().collect::<Vec<_>>().join(".")
}

fn parse_table(text: &str) -> Result<Table, EditError> {
    text.parse().map_err(|error: toml::de::Error| EditError::Unwritable {
        key: "the file".to_owned(),
        why: error.to_string(),
    })
}

/// Returns the text if it parses to exactly the requested table. Tables on the way `path` that became empty may be
/// absent, since some notations have no way to write them.
fn check_edited(
    edited: Option<String>,
    wanted: &Table,
    path: &[&str],
    name: impl Fn() -> String,
) -> Result<String, EditError> {
    let pruned = |table: &Table| {
        let mut table = table.clone();
        prune(&mut table, path);
        Value::Table(table)
    };
    let is_right =
        |text: &String| text.parse::<Table>().is_ok_and(|after| is_equal(&pruned(&after), &pruned(wanted)));
    edited.filter(is_right).ok_or_else(|| EditError::Entangled { key: name() })
}

/// Removes tables on the way `path` that are empty.
fn prune(table: &mut Table, path: &[&str]) {
    let Some((first, rest)) = path.split_first() else { return };
    let Some(inner) = table.get_mut(*first).and_then(Value::as_table_mut) else { return };
    prune(inner, rest);
    if inner.is_empty() {
        table.remove(*first);
    }
}

/// Compares values; other than for `==`, a `nan` is equal to another.
fn is_equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Float(one), Value::Float(other)) => one == other || (one.is_nan() && other.is_nan()),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_equal(one, other))
        }
        (Value::Table(one), Value::Table(other)) => {
            one.len() == other.len()
                && one.iter().all(|(name, one)| other.get(name).is_some_and(|other| is_equal(one, other)))
        }
        (one, other) => one == other,
    }
}

fn set_value(in_table: &mut Table, path: &[&str], key: &str, value: &Value) {
    let Some((first, rest)) = path.split_first() else {
        in_table.insert(key.to_owned(), value.clone());
        return;
    };
    let inner = in_table.entry(*first).or_insert_with(|| Table::new().into());
    if let Some(inner) = inner.as_table_mut() {
        set_value(inner, rest, key, value);
    }
}
