use std::collections::HashSet;
use std::path::Path;

use zk_core::model::Effect;

use super::Evaluation;
use super::globs::{has_pattern, is_match};
use super::place::Whereabouts;
use crate::classifier::{PathPlace, is_private_name, private_names};
use crate::program::{Leaf, split_open_text, words_of_open_text};
use crate::shell::{ANY_CHARACTER, ANY_TEXT};

/// Characters that end a word with brace alternatives, in a text that cannot be parsed.
const ENDS_OF_PATTERNS: &str = ";|&()<>`$#";

/// Longest word that is taken for a pattern, in bytes.
const MAX_PATTERN_BYTES: usize = 512;

/// Maximum number of alternatives of a word with braces that are examined.
const MAX_ALTERNATIVES: usize = 256;

impl Evaluation<'_> {
    /// Reason for a question about a command that uses a credentials file of the project.
    pub(super) fn private_file(&self, leaf: &Leaf, place: &Whereabouts) -> Option<String> {
        let is_private = |path: &&Path| {
            let all = place.of(path).unwrap_or_default();
            all.iter().any(|full| self.here.classifier.path(full) == PathPlace::Private)
        };
        let named = leaf.effects.iter().flat_map(|effect| match effect {
            Effect::Reads { paths } | Effect::Writes { paths } => paths.as_slice(),
            Effect::Executes { .. } | Effect::Network { .. } | Effect::LeavesContext { .. } => &[],
        });
        let mut named = named.map(AsRef::as_ref).chain(leaf.mentions.iter().map(Path::new));
        Some(private_use(named.find(is_private)?))
    }

    /// Reason for a question about a command with an argument named like a project's credentials file, if it
    /// is unclear which files the command reads.
    pub(super) fn private_argument(leaf: &Leaf) -> Option<String> {
        let arguments = leaf.forms.iter().flat_map(|form| form.argv.iter().skip(1));
        let values = leaf.assignments.iter().map(|assignment| &assignment.value);
        let name = arguments.chain(values).find_map(|word| private_name_in(word))?;
        Some(private_use(Path::new(name)))
    }

    /// Reason for a question about a text that cannot be parsed: one of its words names a credentials file of
    /// the project, or is a pattern that matches one.
    pub(super) fn private_word(&self, text: &str) -> Option<String> {
        let words = words_of_open_text(text);
        if let Some(name) = words.iter().find_map(|word| private_name_in(word)) {
            return Some(private_use(Path::new(name)));
        }
        // The directory in which a pattern is matched is unknown then.
        let leaves = words.iter().any(|word| matches!(word.as_str(), "cd" | "pushd" | "popd"));
        let mut patterns = HashSet::new();
        for word in split_open_text(text, ENDS_OF_PATTERNS) {
            let is_pattern = word.len() <= MAX_PATTERN_BYTES && word.contains(['*', '?', '[', '{']);
            let mut alternatives = Vec::new();
            if is_pattern {
                expand_braces(&word, &mut alternatives);
            }
            for piece in alternatives.iter().flat_map(|word| pieces(word)) {
                let pattern = as_pattern(piece);
                if !patterns.contains(&pattern) && self.may_be_private(&pattern, leaves) {
                    return Some(private_use(Path::new(&word)));
                }
                patterns.insert(pattern);
            }
        }
        None
    }

    /// Whether a file name pattern may match a credentials file of the project.
    fn may_be_private(&self, pattern: &str, leaves: bool) -> bool {
        let name = pattern.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
        if !has_pattern(&name) {
            return is_private_name(Path::new(pattern));
        }
        if !private_names().any(|private| is_match(&name, private)) {
            return false;
        }
        let is_hidden = name.starts_with('.');
        let has_letter = name.contains(|found: char| found.is_ascii_alphanumeric());
        if (is_hidden && (has_letter || leaves)) || name.starts_with("id_") {
            return true;
        }
        // Most such patterns match other files, and many are expressions of `sed` and `grep`.
        match self.matches(self.here.cwd, Path::new(pattern)) {
            Some(found) => found.iter().any(|path| is_private_name(path)),
            None => is_hidden,
        }
    }

    pub(super) fn read_place(&self, full: &Path) -> PathPlace {
        if full == Path::new("/dev/null") || full == Path::new("/dev/stdin") {
            return PathPlace::Inside;
        }
        match self.here.classifier.path(full) {
            // Protected files may be read.
            PathPlace::Protected => PathPlace::Inside,
            place => place,
        }
    }
}

/// Text of the reason for a question about a credentials file.
pub(super) fn private_use(path: &Path) -> String {
    format!("`{}` holds credentials of the project", path.display())
}

/// Parts of a word that may be file names: `--flag=NAME`, `HOST:NAME`, `@NAME`.
fn pieces(word: &str) -> impl Iterator<Item = &str> {
    word.split(['=', ':', ',', '@'])
}

/// Name of a credentials file in a word.
fn private_name_in(word: &str) -> Option<&str> {
    let behind_letter = word.get(2..).filter(|_| word.starts_with('-'));
    pieces(word).chain(behind_letter).find(|piece| is_private_name(Path::new(piece)))
}

/// Expands the braces of a word into `alternatives`.
fn expand_braces(word: &str, alternatives: &mut Vec<String>) {
    if alternatives.len() >= MAX_ALTERNATIVES {
        return;
    }
    let Some((before, parts, behind)) = first_braces(word) else {
        alternatives.push(word.to_owned());
        return;
    };
    for part in parts {
        expand_braces(&format!("{before}{part}{behind}"), alternatives);
    }
}

/// First alternatives in braces, with the text before and after them. A range such as `{1..9}` counts as any
/// text.
fn first_braces(word: &str) -> Option<(&str, Vec<&str>, &str)> {
    for (open, _) in word.match_indices('{') {
        let mut depth = 0_usize;
        let mut begin = open + 1;
        let mut parts = Vec::new();
        for (at, found) in word.char_indices().skip_while(|(at, _)| *at < open) {
            match found {
                '{' => depth += 1,
                ',' if depth == 1 => {
                    parts.push(word.get(begin..at)?);
                    begin = at + 1;
                }
                '}' if depth == 1 => {
                    let last = word.get(begin..at)?;
                    let is_range = parts.is_empty() && last.contains("..");
                    parts.push(if is_range { "*" } else { last });
                    if is_range || parts.len() > 1 {
                        return Some((word.get(..open)?, parts, word.get(at + 1..)?));
                    }
                    break;
                }
                '}' => depth -= 1,
                _ => {}
            }
        }
    }
    None
}

/// Word with wildcards; the part from the first `[` of a name to its last `]` matches any text.
fn as_pattern(word: &str) -> String {
    let name_as_pattern = |name: &str| {
        let brackets = name.find('[').zip(name.rfind(']')).filter(|(open, close)| open < close);
        let plain = match brackets {
            Some((open, close)) => {
                let (before, behind) = (name.get(..open), name.get(close + 1..));
                format!("{}*{}", before.unwrap_or_default(), behind.unwrap_or_default())
            }
            None => name.to_owned(),
        };
        plain.replace('*', &ANY_TEXT.to_string()).replace('?', &ANY_CHARACTER.to_string())
    };
    word.split('/').map(name_as_pattern).collect::<Vec<_>>().join("/")
}
