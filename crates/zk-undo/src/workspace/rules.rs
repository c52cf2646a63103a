//! Rules of git: which files it ignores, and of which files it converts the content.

use std::path::Path;
use std::sync::Arc;

use ignore::gitignore::{Gitignore, GitignoreBuilder};

/// Rules of one directory and of those above it.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    above: Option<Arc<Rules>>,
    ignored: Option<Gitignore>,
    converted: Option<Gitignore>,
}

impl Rules {
    /// Rules of `dir` over those of its parents, from the texts of an ignore and an attribute file.
    pub(crate) fn of(
        dir: &Path,
        ignored: Option<&str>,
        attributes: Option<&str>,
        above: Arc<Self>,
    ) -> Arc<Self> {
        let ignored = ignored.and_then(|text| parse(dir, text.lines()));
        let converted = attributes.and_then(|text| parse(dir, text.lines().filter_map(converting_pattern)));
        if ignored.is_none() && converted.is_none() {
            return above;
        }
        Arc::new(Self { above: Some(above), ignored, converted })
    }

    /// Whether git ignores a path in this directory; a directory's rules outrank those of its parents.
    pub(crate) fn ignores(&self, path: &Path, is_dir: bool) -> bool {
        let mut next = Some(self);
        while let Some(rules) = next {
            let found = rules.ignored.as_ref().map(|rules| rules.matched(path, is_dir));
            match found {
                Some(found) if found.is_ignore() => return true,
                Some(found) if found.is_whitelist() => return false,
                Some(_) | None => next = rules.above.as_deref(),
            }
        }
        false
    }

    /// Whether git may convert the content of a file, so that it differs from its object.
    pub(crate) fn converts(&self, path: &Path) -> bool {
        let mut next = Some(self);
        while let Some(rules) = next {
            if rules.converted.as_ref().is_some_and(|rules| rules.matched(path, false).is_ignore()) {
                return true;
            }
            next = rules.above.as_deref();
        }
        false
    }
}

fn parse<'a>(dir: &Path, lines: impl Iterator<Item = &'a str>) -> Option<Gitignore> {
    let mut builder = GitignoreBuilder::new(dir);
    for line in lines {
        // Lines that are no pattern are skipped, as git does.
        let _ = builder.add_line(None, line);
    }
    builder.build().ok().filter(|rules| !rules.is_empty())
}

/// Pattern of a line of attributes that makes git convert contents. Macros may, so each counts for every file.
fn converting_pattern(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace();
    let pattern = words.next().filter(|pattern| !pattern.starts_with('#'))?;
    let converts = words.any(|word| {
        let name = word.split('=').next().unwrap_or_default();
        matches!(name, "filter" | "ident" | "working-tree-encoding" | "crlf") || word == "eol=crlf"
    });
    let pattern = if pattern.starts_with("[attr]") { "*" } else { pattern };
    converts.then_some(pattern)
}
