use serde_json::Value;

/// TOML header of an extension's entry.
const HEADER: &str = "[[extensions]]";

/// Names of the extensions of a settings file.
pub(super) fn extension_names(table: &toml::Table) -> Vec<String> {
    let list = table.get("extensions").and_then(toml::Value::as_array).into_iter().flatten();
    list.filter_map(|one| Some(one.get("name")?.as_str()?.to_owned())).collect()
}

/// Returns the settings text with an extension's entry appended.
pub(super) fn with_extension(text: &str, definition: &Value) -> Result<String, toml::ser::Error> {
    let mut after = text.to_owned();
    if !after.is_empty() && !after.ends_with("\n\n") {
        after.push_str(if after.ends_with('\n') { "\n" } else { "\n\n" });
    }
    let table = toml::Table::from_iter([(
        "extensions".to_owned(),
        toml::Value::Array(vec![toml::Value::try_from(definition)?]),
    )]);
    after.push_str(&toml::to_string(&table)?);
    Ok(after)
}

/// Returns the settings text without the entry of the extension `name`.
pub(super) fn without(text: &str, name: &str) -> String {
    let mut parts: Vec<String> = vec![String::new()];
    for line in text.split_inclusive('\n') {
        let header = line.trim();
        let begins = header.starts_with('[') && !header.starts_with("[extensions.");
        if begins {
            parts.push(String::new());
        }
        if let Some(part) = parts.last_mut() {
            part.push_str(line);
        }
    }
    let is_it = |part: &String| {
        part.trim_start().starts_with(HEADER)
            && part
                .parse::<toml::Table>()
                .is_ok_and(|table| extension_names(&table).iter().any(|one| one == name))
    };
    parts.into_iter().filter(|part| !is_it(part)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_entry_comes_and_goes_and_everything_else_stays() {
        let before = "# mine\nmodel = \"x\"\n\n[[extensions]]\nname = \"a\"\ncommand = [\"a\"] # keep\n\n[tools]\nread_lines = 5\n";
        let after =
            with_extension(before, &json!({"name": "b", "command": ["python3", "/x.py"], "env": {"K": "v"}}))
                .unwrap();
        let table: toml::Table = after.parse().unwrap();
        assert_eq!(extension_names(&table), ["a", "b"]);
        assert_eq!(without(&after, "b").trim_end(), before.trim_end());
        let left: toml::Table = without(&after, "a").parse().unwrap();
        assert_eq!(extension_names(&left), ["b"]);
        assert!(without(&after, "a").contains("read_lines = 5"));
        assert_eq!(without(&after, "c"), after);
    }
}
