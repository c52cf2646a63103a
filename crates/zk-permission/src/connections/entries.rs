/// Entry of a line-based configuration, `[section]` and `key = value`, in files of git, npm, pip and cargo.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry<'a> {
    /// Text between the brackets, quotes included; empty before the first section.
    pub(super) section: &'a str,
    /// Key in lower case; for a continuation line, the key of the line before.
    pub(super) key: String,
    /// Value without its quotes.
    pub(super) value: &'a str,
}

/// Parses all entries in order; other lines are skipped.
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
    fn sections_values_and_continuation_lines_are_read() {
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
