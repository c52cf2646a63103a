//! Splitting of a file into frontmatter and body.

/// Frontmatter and body of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parts<'a> {
    /// Text between the lines of dashes.
    pub(crate) yaml: &'a str,
    /// Text after the frontmatter.
    pub(crate) body: &'a str,
    /// Bytes up to the end of the closing line.
    pub(crate) head: usize,
}

/// Splits a file at its lines of three dashes; dashes inside of a value do not count. A byte order mark
/// before them is ignored. `None` without a complete frontmatter.
pub(crate) fn split(text: &str) -> Option<Parts<'_>> {
    let start = text.len() - text.trim_start_matches('\u{feff}').len();
    let rest = text.get(start..)?;
    let mut lines = rest.split_inclusive('\n');
    let first = lines.next()?;
    if first.trim_end() != "---" {
        return None;
    }
    let begin = start + first.len();
    let mut end = begin;
    for line in lines {
        let next = end + line.len();
        if line.trim_end() == "---" {
            return Some(Parts { yaml: text.get(begin..end)?, body: text.get(next..)?, head: next });
        }
        end = next;
    }
    None
}

/// Quotes plain top-level values such as `Use when: always`, `@file` or `[unbalanced`; `None` if there are
/// none.
pub(super) fn quote_values(yaml: &str) -> Option<String> {
    let mut changed = false;
    let mut lines = Vec::new();
    for line in yaml.lines() {
        let field = line.split_once(": ").filter(|(key, _)| {
            !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || c == '-' || c == '_')
        });
        match field {
            Some((key, value)) if is_plain(value.trim()) => {
                changed = true;
                lines.push(format!("{key}: '{}'", value.trim().replace('\'', "''")));
            }
            Some(_) | None => lines.push(line.to_owned()),
        }
    }
    changed.then(|| lines.join("\n"))
}

/// Whether a value is neither quoted nor the beginning of a block.
fn is_plain(value: &str) -> bool {
    let quoted = |sign: char| value.len() > 1 && value.starts_with(sign) && value.ends_with(sign);
    let is_block = matches!(value, "|" | ">" | "|-" | ">-" | "|+" | ">+");
    !value.is_empty() && !is_block && !quoted('\'') && !quoted('"')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frontmatter_ends_at_a_line_of_dashes_only() {
        let parts = split("\u{feff}---\r\nname: a\r\ndescription: a --- b\r\n---\r\n# Body\r\n").unwrap();
        assert_eq!((parts.yaml, parts.body), ("name: a\r\ndescription: a --- b\r\n", "# Body\r\n"));
        assert_eq!(split("---\nname: a\n"), None);
        assert_eq!(split("# No frontmatter\n---\n---\n"), None);
        assert_eq!(split("---\n---").unwrap().yaml, "");
    }

    #[test]
    fn values_that_yaml_cannot_read_are_quoted() {
        let text = "name: x\ndescription: Use when: it's @there\ntags: [a\nquoted: 'a: b'";
        let wanted = "name: 'x'\ndescription: 'Use when: it''s @there'\ntags: '[a'\nquoted: 'a: b'";
        assert_eq!(quote_values(text).as_deref(), Some(wanted));
        assert_eq!(quote_values("a: |\n  b"), None);
    }
}
