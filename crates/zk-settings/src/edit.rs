//! Changes of one value in the text of a settings file, which stays as it is otherwise.

use toml::{Table, Value};

/// Reason why a text cannot be changed.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    /// The text is no TOML.
    #[error("invalid TOML: {0}")]
    Invalid(#[from] toml::de::Error),
    /// More than the value would change.
    #[error("`{key}` cannot be set without changing something else: set it by hand")]
    Entangled {
        /// The key.
        key: String,
    },
}

/// The text of a settings file in which `key` of the table `table` has another value; of the whole file where `table` is empty.
///
/// ```
/// use zk_settings::with_value;
///
/// let text = with_value("# mine\nmodel = \"x\"\n", &[], "provider", "groq")?;
/// assert_eq!(text, "# mine\nprovider = \"groq\"\nmodel = \"x\"\n");
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
    let before: Table = text.parse()?;
    let mut wanted = before;
    set(&mut wanted, table, key, &value);
    let line = format!("{key} = {value}");
    let edited = place(text, table, key, &line);
    match edited.parse::<Table>() {
        Ok(after) if after == wanted => Ok(edited),
        Ok(_) | Err(_) => {
            let key = table.iter().chain([&key]).copied().collect::<Vec<_>>().join(".");
            Err(EditError::Entangled { key })
        }
    }
}

fn set(in_table: &mut Table, path: &[&str], key: &str, value: &Value) {
    let Some((first, rest)) = path.split_first() else {
        in_table.insert(key.to_owned(), value.clone());
        return;
    };
    let inner = in_table.entry(*first).or_insert_with(|| Table::new().into());
    if let Some(inner) = inner.as_table_mut() {
        set(inner, rest, key, value);
    }
}

/// The text with the line in the place of the old one, or at the beginning of the table, which is made where it is absent.
fn place(text: &str, table: &[&str], key: &str, line: &str) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    let is_header = |line: &&str| line.trim_start().starts_with('[');
    let begin = if table.is_empty() {
        Some(0)
    } else {
        lines.iter().position(|line| header(line).is_some_and(|name| name == table)).map(|at| at + 1)
    };
    let Some(begin) = begin else {
        let name: Vec<String> = table.iter().map(|part| quoted(part)).collect();
        let gap = if text.is_empty() || text.ends_with("\n\n") { "" } else { "\n" };
        let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        return format!("{text}{end}{gap}[{}]\n{line}\n", name.join("."));
    };
    let own = lines.get(begin..).unwrap_or_default();
    let length = own.iter().position(is_header).unwrap_or(own.len());
    let is_key =
        |line: &&str| line.split_once('=').is_some_and(|(name, _)| name.trim().trim_matches('"') == key);
    match own.iter().take(length).position(is_key) {
        Some(at) => {
            lines.splice(begin + at..=begin + at, [line]);
        }
        None => {
            // Comments at the beginning are about the file.
            let comments = if table.is_empty() {
                own.iter().take(length).take_while(|line| line.trim_start().starts_with('#')).count()
            } else {
                0
            };
            lines.insert(begin + comments, line);
        }
    }
    lines.join("\n") + "\n"
}

/// The parts of the name in the header of a table.
fn header(line: &str) -> Option<Vec<&str>> {
    let name = line.trim().strip_prefix('[')?.split(']').next()?;
    Some(name.split('.').map(|part| part.trim().trim_matches(['"', '\''])).collect())
}

fn quoted(part: &str) -> String {
    let is_bare = part.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    if is_bare { part.to_owned() } else { format!("\"{part}\"") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set_in(text: &str, table: &[&str], key: &str, value: &str) -> String {
        with_value(text, table, key, value).unwrap()
    }

    #[test]
    fn a_value_is_replaced_or_added_and_everything_else_stays() {
        for (text, table, expected) in [
            ("", &[][..], "model = \"new\"\n"),
            ("model = \"old\" # why\n", &[], "model = \"new\"\n"),
            (
                "theme = \"dark\"\n[a]\nmodel = 1\n",
                &[],
                "model = \"new\"\ntheme = \"dark\"\n[a]\nmodel = 1\n",
            ),
            ("[a]\nmodel = \"old\"\n\n[b]\n", &["a"], "[a]\nmodel = \"new\"\n\n[b]\n"),
            ("x = 1", &["a", "b"], "x = 1\n\n[a.b]\nmodel = \"new\"\n"),
            ("[a.\"b\"]\ny = 2\n", &["a", "b"], "[a.\"b\"]\nmodel = \"new\"\ny = 2\n"),
        ] {
            assert_eq!(set_in(text, table, "model", "new"), expected, "{text}");
        }
        assert_eq!(
            set_in("", &["providers", "llama.cpp"], "model", "m"),
            "[providers.\"llama.cpp\"]\nmodel = \"m\"\n"
        );
    }

    #[test]
    fn a_text_that_cannot_be_changed_by_a_line_is_left_alone() {
        for text in ["a = { model = 1 }\n", "a.model = 1\n", "not toml"] {
            assert!(with_value(text, &["a"], "model", "new").is_err(), "{text}");
        }
    }
}
