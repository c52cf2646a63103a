//! Changes of one value in the text of a settings file, which stays as it is otherwise.

use toml::{Table, Value};
use toml_edit::{DocumentMut, Item, TableLike};

/// Reason why a text cannot be changed.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    /// The text is no TOML.
    #[error("invalid TOML: {0}")]
    Invalid(#[from] toml_edit::TomlError),
    /// The value cannot be written.
    #[error("`{key}` cannot be written: {why}")]
    Unwritable {
        /// The key.
        key: String,
        /// Reason why the value cannot be written.
        why: String,
    },
    /// A part of the key is a value.
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
/// Comments and order stay.
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
    let name = || table.iter().chain([&key]).copied().collect::<Vec<_>>().join(".");
    let mut document: DocumentMut = text.parse()?;
    let mut wanted = parse_table(text)?;
    set_value(&mut wanted, table, key, &value);
    let unwritable = |why: String| EditError::Unwritable { key: name(), why };
    let mut written =
        value.to_string().parse::<toml_edit::Value>().map_err(|error| unwritable(error.to_string()))?;
    let mut at: &mut dyn TableLike = document.as_table_mut();
    for part in table {
        let inner = at.entry(part).or_insert_with(|| {
            let mut made = toml_edit::Table::new();
            // An implicit table has no header of its own in the file.
            made.set_implicit(true);
            Item::Table(made)
        });
        at = inner
            .as_table_like_mut()
            .ok_or_else(|| EditError::NoTable { key: name(), part: (*part).to_owned() })?;
    }
    match at.get_mut(key).and_then(Item::as_value_mut) {
        Some(before) => {
            *written.decor_mut() = before.decor().clone();
            *before = written;
        }
        None => _ = at.insert(key, Item::Value(written)),
    }
    check_edited(document.to_string(), &wanted, name)
}

/// Removes `key` of the table `table` from the text of a settings file; also returns whether it was present.
///
/// ```
/// use zk_settings::without_value;
///
/// let (text, was_there) = without_value("model = \"x\"\n[tools]\n# long\nshell = 1\n", &["tools"], "shell")?;
/// assert_eq!((text.as_str(), was_there), ("model = \"x\"\n[tools]\n", true));
/// # Ok::<(), zk_settings::EditError>(())
/// ```
///
/// # Errors
/// [`EditError`] when the text cannot be parsed, or its layout is not supported.
pub fn without_value(text: &str, table: &[&str], key: &str) -> Result<(String, bool), EditError> {
    let name = || table.iter().chain([&key]).copied().collect::<Vec<_>>().join(".");
    let mut document: DocumentMut = text.parse()?;
    let mut wanted = parse_table(text)?;
    let mut at: &mut dyn TableLike = document.as_table_mut();
    let mut plain = Some(&mut wanted);
    for part in table {
        let Some(inner) = at.get_mut(part).and_then(Item::as_table_like_mut) else {
            return Ok((text.to_owned(), false));
        };
        at = inner;
        plain = plain.and_then(|table| table.get_mut(*part)).and_then(Value::as_table_mut);
    }
    let was_there = at.remove(key).is_some();
    if let Some(plain) = plain {
        plain.remove(key);
    }
    Ok((check_edited(document.to_string(), &wanted, name)?, was_there))
}

fn parse_table(text: &str) -> Result<Table, EditError> {
    text.parse().map_err(|error: toml::de::Error| EditError::Unwritable {
        key: "the file".to_owned(),
        why: error.to_string(),
    })
}

/// Returns the text if it parses to exactly the requested table.
fn check_edited(edited: String, wanted: &Table, name: impl Fn() -> String) -> Result<String, EditError> {
    match edited.parse::<Table>() {
        Ok(after) if after == *wanted => Ok(edited),
        Ok(_) | Err(_) => Err(EditError::Entangled { key: name() }),
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_value_is_replaced_or_added_and_everything_else_stays() {
        for (text, table, expected) in [
            ("", &[][..], "model = \"new\"\n"),
            ("model = \"old\" # why\n", &[], "model = \"new\" # why\n"),
            (
                "theme = \"dark\"\n[a]\nmodel = 1\n",
                &[],
                "theme = \"dark\"\nmodel = \"new\"\n[a]\nmodel = 1\n",
            ),
            ("[a]\nmodel = \"old\"\n\n[b]\n", &["a"], "[a]\nmodel = \"new\"\n\n[b]\n"),
            ("x = 1\n", &["a", "b"], "x = 1\n\n[a.b]\nmodel = \"new\"\n"),
            ("[a.\"b\"]\ny = 2\n", &["a", "b"], "[a.\"b\"]\ny = 2\nmodel = \"new\"\n"),
            ("a = { model = 1 }\n", &["a"], "a = { model = \"new\" }\n"),
            ("a.model = 1\n", &["a"], "a.model = \"new\"\n"),
        ] {
            assert_eq!(with_value(text, table, "model", "new").unwrap(), expected, "{text}");
        }
        assert_eq!(
            with_value("", &["providers", "llama.cpp"], "model", "m").unwrap(),
            "[providers.\"llama.cpp\"]\nmodel = \"m\"\n"
        );
    }

    #[test]
    fn a_text_that_cannot_be_changed_is_left_alone() {
        for text in ["not toml", "a = 1\n", "[[a]]\nx = 1\n"] {
            assert!(with_value(text, &["a"], "model", "new").is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_set_and_unset_leaves_all_other_lines(
            lines in prop::collection::vec("(# [a-z ]{0,12}|)", 0..6),
            steps in prop::collection::vec((0usize..3, 0usize..3, any::<Option<i16>>()), 1..12),
        ) {
            let mut text = format!("{}\nother = [1, 2] # kept\n[t0]\n# of t0\nz = 1\n", lines.join("\n"));
            let mut expected: Table = text.parse().unwrap();
            for (table, key, value) in steps {
                let (table, key) = (["t0", "t1", ""][table], ["a", "b", "c"][key]);
                let path: Vec<&str> = Some(table).filter(|name| !name.is_empty()).into_iter().collect();
                match value {
                    Some(value) => {
                        text = with_value(&text, &path, key, i64::from(value)).unwrap();
                        set_value(&mut expected, &path, key, &i64::from(value).into());
                    }
                    None => {
                        text = without_value(&text, &path, key).unwrap().0;
                        let table = match path.first() {
                            Some(name) => expected.get_mut(*name).and_then(Value::as_table_mut),
                            None => Some(&mut expected),
                        };
                        if let Some(table) = table { table.remove(key); }
                    }
                }
                prop_assert_eq!(&text.parse::<Table>().unwrap(), &expected);
                prop_assert!(text.contains("other = [1, 2] # kept") && text.contains("# of t0"), "{}", text);
                for line in &lines { prop_assert!(text.contains(line.as_str()), "{line} in {text}"); }
            }
        }
    }
}
