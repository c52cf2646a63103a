//! Rules of git: which files it ignores, and of which files it converts the content.

use std::path::Path;
use std::sync::Arc;

use ignore::gitignore::{Gitignore, GitignoreBuilder};

/// Rules of one directory and of those above it.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    above: Option<Arc<Rules>>,
    ignored: Option<Gitignore>,
    /// Files of which git may convert any bytes.
    converted: Option<Gitignore>,
    /// Files of which git may convert line ends.
    line_ends: Option<Gitignore>,
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
        let with = |names: &[&str]| {
            attributes.and_then(|text| parse(dir, text.lines().filter_map(|line| pattern_with(line, names))))
        };
        let (converted, line_ends) = (with(&ANY_BYTES), with(&LINE_ENDS));
        if ignored.is_none() && converted.is_none() && line_ends.is_none() {
            return above;
        }
        Arc::new(Self { above: Some(above), ignored, converted, line_ends })
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

    /// Conversion that git may make between a file and its object.
    pub(crate) fn conversion(&self, path: &Path) -> Conversion {
        let mut found = Conversion::None;
        let mut next = Some(self);
        while let Some(rules) = next {
            let matches = |own: &Option<Gitignore>| {
                own.as_ref().is_some_and(|own| own.matched(path, false).is_ignore())
            };
            if matches(&rules.converted) {
                return Conversion::Any;
            }
            if matches(&rules.line_ends) {
                found = Conversion::LineEnds;
            }
            next = rules.above.as_deref();
        }
        found
    }
}

/// Conversion between a file and its object, which makes their bytes differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Conversion {
    None,
    /// Line ends, which change the size whenever they change the bytes.
    LineEnds,
    /// Any bytes, as filters do.
    Any,
}

fn parse<'a>(dir: &Path, lines: impl Iterator<Item = &'a str>) -> Option<Gitignore> {
    let mut builder = GitignoreBuilder::new(dir);
    for line in lines {
        // Lines that are no pattern are skipped, as git does.
        let _ = builder.add_line(None, line);
    }
    builder.build().ok().filter(|rules| !rules.is_empty())
}

/// Attributes that make git convert any bytes.
const ANY_BYTES: [&str; 3] = ["filter", "ident", "working-tree-encoding"];

/// Attributes that make git convert line ends.
const LINE_ENDS: [&str; 3] = ["text", "eol", "crlf"];

/// Pattern of a line of attributes with one of these names. Macros may have it, so each counts for every file.
fn pattern_with<'a>(line: &'a str, names: &[&str]) -> Option<&'a str> {
    let mut words = line.split_whitespace();
    let pattern = words.next().filter(|pattern| !pattern.starts_with('#'))?;
    let converts = words.any(|word| names.contains(&word.split('=').next().unwrap_or_default()));
    let pattern = if pattern.starts_with("[attr]") { "*" } else { pattern };
    converts.then_some(pattern)
}
