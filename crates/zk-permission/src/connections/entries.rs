/// Entry of a configuration in lines: `[section]` and `key = value`, as git, npm, pip and cargo have it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry<'a> {
    /// Text between the brackets, with the quotes that are there; empty before the first section.
    pub(super) section: &'a str,
    /// Key in lower case; that of the line before for a line that goes on.
    pub(super) key: String,
    /// Value without the quotes around it.
    pub(super) value: &'a str,
}

/// Entries of a text, in its order; a line that is none is skipped.
pub(super) fn of_text(text: &str) -> Vec<Entry<'_>> {
    let (mut section, mut key) = ("", String::new());
    let mut found = Vec::new();
    for raw in text.lines() {
        let line = raw.trim();
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(rest) = line.strip_prefix('[') {
            section = rest.rsplit_once(']').map_or(rest, |(section, _)| section).trim();
            key.clear();
            continue;
        }
        let value = match line.split_once('=') {
            Some((name, value)) if !raw.starts_with([' ', '\t']) || !name.contains("://") => {
                key = name.trim().to_ascii_lowercase();
                value
            }
            _ => line,
        };
        let value = value.trim().trim_matches(['"', '\'']);
        found.push(Entry { section, key: key.clone(), value });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_values_and_lines_that_go_on_are_read() {
        let text = "registry=https://a.example/\n; note\n[global]\nextra-index-url =\n    https://b.example/?x=1\n[url \"git@x:\"]\n\tinsteadOf = \"https://x/\"\n";
        let found = of_text(text);
        let found: Vec<_> = found.iter().map(|e| (e.section, e.key.as_str(), e.value)).collect();
        assert_eq!(
            found,
            [
                ("", "registry", "https://a.example/"),
                ("global", "extra-index-url", ""),
                ("global", "extra-index-url", "https://b.example/?x=1"),
                ("url \"git@x:\"", "insteadof", "https://x/"),
            ]
        );
    }
}
