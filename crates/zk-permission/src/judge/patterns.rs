use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

use zk_core::model::Effect;

use super::command::is_harmless;
use super::globs::{has_pattern, is_match};
use super::place::Whereabouts;
use super::{Evaluation, JudgedProgram, Reason};
use crate::classifier::PathPlace;
use crate::mode::Mode;
use crate::program::{Leaf, Unseen, reads_whatever_it_names};
use crate::rules::Decision;
use crate::shell::{ANY_CHARACTER, ANY_TEXT, Command, Script};

/// Maximum number of paths that one pattern may match.
const MAX_MATCHES: usize = 10_000;

impl Evaluation<'_> {
    /// Allows a text with file name patterns whose commands only read, if all current matches may be read.
    /// Returns whether it did.
    pub(super) fn allow_reads_of_matches(&mut self, text: &str) -> bool {
        let is_decided_without = match self.mode {
            Mode::ReadOnly | Mode::Ask | Mode::AcceptEdits => false,
            Mode::Auto => self.here.is_contained,
            Mode::All => true,
        };
        if is_decided_without || !self.rules_unseen(Unseen::ALL).is_empty() {
            return false;
        }
        // Another file may match by the time the command runs, and a sandbox makes no difference here.
        if self.private_word(text).is_some() {
            return false;
        }
        let Ok(script) = Script::parse_with_patterns(text) else { return false };
        let mut inner = Evaluation {
            mode: self.mode,
            rules: self.rules,
            here: self.here,
            tool: self.tool,
            reasons: Vec::new(),
            effects: Vec::new(),
            argv: None,
            programs: Vec::new(),
        };
        inner.judge_commands(&script, true);
        let is_read = |reason: &Reason| reason.decision == Decision::Allow && reason.rule.is_none();
        if !inner.reasons.iter().all(is_read) {
            return false;
        }
        let reasons = inner.reasons.into_iter();
        self.reasons.extend(reasons.map(|reason| Reason { subject: as_written(&reason.subject), ..reason }));
        self.effects.extend(inner.effects.into_iter().map(effect_as_written));
        self.programs.extend(inner.programs.into_iter().map(|program| JudgedProgram {
            has_more: program.has_more || program.argv.iter().any(|word| has_pattern(word)),
            argv: program.argv.iter().map(|word| as_written(word)).collect(),
            ..program
        }));
        true
    }

    /// Asks about a command with file name patterns, unless it only reads all matches.
    pub(super) fn check_matches(&mut self, command: &Command, leaf: &Leaf, place: &Whereabouts) {
        if let Some(why) = self.reason_to_ask_about_matches(command, leaf, place) {
            self.add_reason(Decision::Ask, "a pattern for file names", why, None);
        }
    }

    fn reason_to_ask_about_matches(
        &self,
        command: &Command,
        leaf: &Leaf,
        place: &Whereabouts,
    ) -> Option<String> {
        let elsewhere = command.assignments.iter().map(|assignment| assignment.value.as_str());
        let elsewhere = elsewhere.chain(command.redirects.iter().filter_map(|redirect| redirect.path()));
        if elsewhere.into_iter().any(has_pattern) {
            return Some("a pattern stands where no file is read".to_owned());
        }
        let words: Vec<&str> =
            command.words.iter().map(String::as_str).filter(|word| has_pattern(word)).collect();
        if words.is_empty() {
            return None;
        }
        let reads = leaf.effects.iter().flat_map(|effect| match effect {
            Effect::Reads { paths } => paths.as_slice(),
            _ => &[],
        });
        let mut read: Vec<&str> =
            reads.filter_map(|path| path.to_str()).filter(|path| has_pattern(path)).collect();
        read.sort_unstable();
        let mut wanted = words.clone();
        wanted.sort_unstable();
        let is_plain = leaf.forms.len() == 1 && command.assignments.iter().all(is_harmless);
        if !is_plain || read != wanted || !reads_whatever_it_names(leaf.innermost()) {
            return Some("a pattern stands where no file is read".to_owned());
        }
        for word in words {
            let shown = as_written(word);
            let directories = place.of(Path::new("")).unwrap_or_default();
            if directories.is_empty() {
                return Some("nobody can tell in which directory it runs".to_owned());
            }
            for directory in directories {
                let Some(found) = self.matches(&directory, Path::new(word)) else {
                    return Some(format!("nobody can tell what `{shown}` matches"));
                };
                for path in found {
                    if !is_no_flag(&path) {
                        return Some(format!("`{shown}` matches a name that may be taken for a flag"));
                    }
                    let full = directory.join(path);
                    let walks = leaf.trees.iter().filter(|tree| tree.root == word);
                    let places = walks.map(|tree| self.here.classifier.tree(&full, tree.walk));
                    let mut places = std::iter::once(self.read_place(&full)).chain(places);
                    if places.any(|place| !matches!(place, PathPlace::Inside | PathPlace::Protected)) {
                        return Some(format!("`{shown}` matches what it may not read unasked"));
                    }
                }
            }
        }
        None
    }

    /// Paths that a pattern matches, relative to its directory. May contain more than the shell would match.
    pub(super) fn matches(&self, directory: &Path, pattern: &Path) -> Option<Vec<PathBuf>> {
        let mut found = vec![PathBuf::new()];
        for part in pattern.components() {
            let Component::Normal(name) = part else {
                found.iter_mut().for_each(|path| path.push(part));
                continue;
            };
            let Some(wanted) = name.to_str().filter(|name| has_pattern(name)) else {
                found.iter_mut().for_each(|path| path.push(name));
                continue;
            };
            let mut next = Vec::new();
            for path in &found {
                let above = ["..", "."].map(OsStr::new).map(ToOwned::to_owned);
                let names = self.here.classifier.names_in(&directory.join(path))?;
                let names = names.into_iter().chain(above);
                next.extend(
                    names
                        .filter(|name| is_match(wanted, &name.to_string_lossy()))
                        .map(|name| path.join(name)),
                );
                if next.len() > MAX_MATCHES {
                    return None;
                }
            }
            found = next;
        }
        Some(found)
    }
}

/// Whether no program can take a matched path for a flag.
fn is_no_flag(path: &Path) -> bool {
    let first = path.as_os_str().as_encoded_bytes().first();
    first.is_none_or(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'.' | b'_'))
}

/// Restores the original `*` and `?` in a text.
fn as_written(text: &str) -> String {
    text.replace(ANY_TEXT, "*").replace(ANY_CHARACTER, "?")
}

fn effect_as_written(effect: Effect) -> Effect {
    let paths_as_written = |paths: Vec<PathBuf>| {
        let path_as_written =
            |path: PathBuf| path.to_str().map(as_written).map_or(path.clone(), PathBuf::from);
        paths.into_iter().map(path_as_written).collect()
    };
    match effect {
        Effect::Reads { paths } => Effect::Reads { paths: paths_as_written(paths) },
        other => other,
    }
}
