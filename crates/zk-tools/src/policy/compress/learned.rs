//! Rules that outputs of a project taught: progress of programs that no built-in rule knows.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use zk_core::service::{Redactor, StateFileError, StateFiles};

use super::command::Run;
use super::rules::complains;

/// Maximum number of rules of a project.
const MAX_RULES: usize = 200;

/// Maximum number of forms of a project that are no rule yet.
const MAX_CANDIDATES: usize = 200;

/// Maximum number of projects with rules; those that changed longest ago are forgotten.
const MAX_PROJECTS: usize = 100;

/// Outputs with the same form of lines after which it is a rule.
const OUTPUTS_FOR_RULE: u32 = 3;

/// Minimum number of consecutive lines of one form in an output that counts.
const MIN_RUN_LINES: usize = 10;

/// Longest form, in bytes.
const MAX_SHAPE_BYTES: usize = 160;

/// Largest file of rules, in bytes.
const MAX_FILE_BYTES: usize = 8 << 20;

/// Version of the file.
const FILE_VERSION: u32 = 1;

/// Rules that zk learned from the outputs of one project, kept in a file of the person for all projects.
///
/// A rule is a program with the form of a progress line, such as `Processing * done`, which stood at least ten
/// times in a row in each of three outputs. Lines that complain are never part of one. From then on all but the
/// last of such lines in a row are left out of results.
///
/// ```
/// use std::path::Path;
/// use std::sync::Arc;
///
/// use zk_core::service::Redactor;
/// use zk_exec::LocalStateFiles;
/// use zk_tools::LearnedRules;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// let files = Arc::new(LocalStateFiles::default());
/// let path = dir.path().join("learned-rules.json");
/// let rules = LearnedRules::new(path, Path::new("/home/me/project"), files, Arc::new(Redactor::new()));
/// assert!(rules.list()?.is_empty());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct LearnedRules(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    project: String,
    files: Arc<dyn StateFiles>,
    redactor: Arc<Redactor>,
    /// Rules as last read or written; `None` before the first use.
    known: Mutex<Option<Vec<LearnedRule>>>,
}

/// Form of progress lines of one program, with the number of outputs that had it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LearnedRule {
    /// Program with its first word: `make`, `npm run`.
    pub program: String,
    /// Line with `*` in the place of words that differ.
    pub shape: String,
    /// Number of outputs that had such lines.
    pub outputs: u32,
}

impl LearnedRule {
    /// Whether the form was seen often enough to be a rule.
    #[must_use]
    pub fn is_rule(&self) -> bool {
        self.outputs >= OUTPUTS_FOR_RULE
    }
}

#[derive(Default, Serialize, Deserialize)]
struct RuleFile {
    version: u32,
    /// Projects with their forms, the one that changed last at the end.
    projects: Vec<(String, Vec<LearnedRule>)>,
}

impl LearnedRules {
    /// Rules of `project` in the file at `path`, which rules of all projects share.
    #[must_use]
    pub fn new(path: PathBuf, project: &Path, files: Arc<dyn StateFiles>, redactor: Arc<Redactor>) -> Self {
        let project = project.to_string_lossy().into_owned();
        Self(Arc::new(Inner { path, project, files, redactor, known: Mutex::default() }))
    }

    /// Lists the rules of this project, those that became rules first in front. Blocks on the file system.
    ///
    /// # Errors
    /// [`StateFileError`] when the file cannot be read.
    pub fn list(&self) -> Result<Vec<LearnedRule>, StateFileError> {
        Ok(self.read_project()?.into_iter().filter(LearnedRule::is_rule).collect())
    }

    /// Forgets the rule with this number in [`list`](Self::list), from 1 on, or all that was learned in this
    /// project. Returns the number of forgotten rules. Blocks on the file system.
    ///
    /// # Errors
    /// [`StateFileError`] when the file cannot be read or written.
    pub fn forget(&self, number: Option<usize>) -> Result<usize, StateFileError> {
        self.change_project(|entries| {
            let Some(number) = number else {
                let rules = entries.iter().filter(|entry| entry.is_rule()).count();
                entries.clear();
                return rules;
            };
            let mut rules = entries.iter().enumerate().filter(|(_, entry)| entry.is_rule());
            let found = number.checked_sub(1).and_then(|number| rules.nth(number));
            let Some(at) = found.map(|(at, _)| at) else { return 0 };
            entries.remove(at);
            1
        })
    }

    /// Forms of `runs` that are rules. Blocks on the file system at the first use. A file that cannot be read
    /// has none.
    pub(super) fn shapes_for(&self, runs: &[Run]) -> BTreeSet<String> {
        let programs: BTreeSet<String> = runs.iter().map(program_name).collect();
        let mut known = self.lock_known();
        if known.is_none() {
            *known = self.read_project().ok();
        }
        let rules =
            known.iter().flatten().filter(|entry| entry.is_rule() && programs.contains(&entry.program));
        rules.map(|entry| entry.shape.clone()).collect()
    }

    /// Learns from an output of `runs`. Blocks on the file system if there is anything to note.
    ///
    /// # Errors
    /// [`StateFileError`] when the file cannot be read or written.
    pub(super) fn learn(&self, runs: &[Run], lines: &[String]) -> Result<(), StateFileError> {
        // With several programs, the program of a line is unknown.
        let [run] = runs else { return Ok(()) };
        let shapes = repeated_shapes(lines);
        if shapes.is_empty() {
            return Ok(());
        }
        let program = program_name(run);
        let is_noted = |shape: &&String| {
            let known = self.lock_known();
            let mut known = known.iter().flatten();
            known.any(|entry| entry.program == program && entry.shape == **shape && entry.is_rule())
        };
        if shapes.iter().all(|shape| is_noted(&shape)) {
            return Ok(());
        }
        let shapes: Vec<String> =
            shapes.iter().map(|shape| self.0.redactor.redact(shape).into_owned()).collect();
        self.change_project(|entries| {
            for shape in shapes {
                let at = entries.iter().position(|entry| entry.program == program && entry.shape == shape);
                match at.and_then(|at| entries.get_mut(at)) {
                    Some(entry) => entry.outputs = entry.outputs.saturating_add(1),
                    None => entries.push(LearnedRule { program: program.clone(), shape, outputs: 1 }),
                }
            }
            drop_oldest(entries);
        })
    }

    fn lock_known(&self) -> MutexGuard<'_, Option<Vec<LearnedRule>>> {
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read_file(&self) -> Result<RuleFile, StateFileError> {
        let Some(bytes) = self.0.files.read(&self.0.path, MAX_FILE_BYTES)? else {
            return Ok(RuleFile::default());
        };
        let unusable = |why: String| StateFileError::Unusable { path: self.0.path.clone(), why };
        let file: RuleFile = serde_json::from_slice(&bytes).map_err(|error| unusable(error.to_string()))?;
        match file.version {
            FILE_VERSION => Ok(file),
            version => Err(unusable(format!("it is of version {version}; remove it, or use a newer zk"))),
        }
    }

    fn read_project(&self) -> Result<Vec<LearnedRule>, StateFileError> {
        let projects = self.read_file()?.projects;
        let own = projects.into_iter().find(|(project, _)| *project == self.0.project);
        Ok(own.map(|(_, entries)| entries).unwrap_or_default())
    }

    /// Changes what is known of this project, under the lock of the file.
    fn change_project<T>(
        &self,
        change: impl FnOnce(&mut Vec<LearnedRule>) -> T,
    ) -> Result<T, StateFileError> {
        let lock = self.0.files.lock(&self.0.path)?;
        let mut file = self.read_file()?;
        let at = file.projects.iter().position(|(project, _)| *project == self.0.project);
        let mut entries = at.map(|at| file.projects.remove(at).1).unwrap_or_default();
        let before = entries.clone();
        let done = change(&mut entries);
        if entries != before {
            if !entries.is_empty() {
                file.projects.push((self.0.project.clone(), entries.clone()));
            }
            let extra = file.projects.len().saturating_sub(MAX_PROJECTS);
            file.projects.drain(..extra);
            file.version = FILE_VERSION;
            let bytes = serde_json::to_vec(&file).map_err(|error| StateFileError::Unusable {
                path: self.0.path.clone(),
                why: error.to_string(),
            })?;
            self.0.files.replace(&self.0.path, &bytes)?;
        }
        drop(lock);
        *self.lock_known() = Some(entries);
        Ok(done)
    }
}

/// Drops the oldest rules and the oldest other forms above their limits.
fn drop_oldest(entries: &mut Vec<LearnedRule>) {
    let rules = entries.iter().filter(|entry| entry.is_rule()).count();
    let mut extra = [rules.saturating_sub(MAX_RULES), (entries.len() - rules).saturating_sub(MAX_CANDIDATES)];
    entries.retain(|entry| {
        let [of_rules, of_others] = &mut extra;
        let extra = if entry.is_rule() { of_rules } else { of_others };
        let stays = *extra == 0;
        *extra = extra.saturating_sub(1);
        stays
    });
}

/// Program with its first word, by which rules are kept.
fn program_name(run: &Run) -> String {
    format!("{} {}", run.program, run.verb).trim_end().chars().take(60).collect()
}

/// Line forms that an output repeats in enough consecutive lines.
fn repeated_shapes(lines: &[String]) -> BTreeSet<String> {
    let mut lengths: BTreeMap<String, usize> = BTreeMap::new();
    let (mut last, mut length) = (None, 0);
    for line in lines {
        let shape = shape(line);
        length = if shape.is_some() && shape == last { length + 1 } else { 1 };
        if let Some(shape) = &shape {
            let longest = lengths.entry(shape.clone()).or_default();
            *longest = length.max(*longest);
        }
        last = shape;
    }
    lengths.into_iter().filter(|(_, longest)| *longest >= MIN_RUN_LINES).map(|(shape, _)| shape).collect()
}

/// Form of a line that tells progress: words of letters as they are, `*` for all others. `None` for lines that may
/// tell more.
pub(super) fn shape(line: &str) -> Option<String> {
    let line = line.trim();
    if line.is_empty() || line.len() > 500 || complains(line) {
        return None;
    }
    let first = line.split_whitespace().find(|word| word.chars().any(char::is_alphabetic))?;
    let first: String = first.chars().filter(|c| c.is_alphabetic()).flat_map(char::to_lowercase).collect();
    let is_progress = ["ing", "ed"].iter().any(|end| first.len() > end.len() + 2 && first.ends_with(end));
    if !is_progress && !["ok", "pass", "done", "skip"].contains(&&*first) {
        return None;
    }
    let mut shape = String::new();
    for word in line.split_whitespace() {
        let is_word = word.chars().all(|c| c.is_alphabetic() || "():,.".contains(c))
            && word.chars().any(char::is_alphabetic)
            && !word.trim_end_matches(['.', ',', ':']).contains('.');
        let word = if is_word { word } else { "*" };
        if word == "*" && shape.ends_with('*') {
            continue;
        }
        if !shape.is_empty() {
            shape.push(' ');
        }
        shape.push_str(word);
    }
    (shape.len() <= MAX_SHAPE_BYTES && shape.contains('*')).then_some(shape)
}

#[cfg(test)]
mod tests {
    use zk_exec::LocalStateFiles;

    use super::super::command::runs;
    use super::*;

    fn rules_of(dir: &Path, project: &str) -> LearnedRules {
        let files = Arc::new(LocalStateFiles::default());
        LearnedRules::new(dir.join("rules.json"), Path::new(project), files, Arc::new(Redactor::new()))
    }

    fn output(verb: &str, lines: usize) -> Vec<String> {
        (0..lines).map(|n| format!("{verb} assets/{n}.png in {n} ms")).collect()
    }

    #[test]
    fn lines_that_tell_progress_have_a_form_and_no_others() {
        for (line, expected) in [
            ("Processing assets/12.png in 3 ms", Some("Processing * in * ms")),
            ("  [12/40] Uploaded file-1.tar.gz", Some("* Uploaded *")),
            ("ok 12 some name", Some("ok * some name")),
            ("Processing failed for a.png", None),
            ("Processing everything", None),
            ("web-1   1/1   Running   0   5d", None),
            ("src/a.rs:12: let x = 1;", None),
            ("", None),
        ] {
            assert_eq!(shape(line).as_deref(), expected, "{line}");
        }
    }

    #[test]
    fn three_outputs_with_ten_such_lines_in_a_row_teach_a_rule_of_that_project_which_can_be_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let (rules, other) = (rules_of(dir.path(), "/a"), rules_of(dir.path(), "/b"));
        let run = runs("./build.sh all");
        let learn = |rules: &LearnedRules, lines: &[String]| rules.learn(&run, lines).unwrap();
        learn(&rules, &output("Processing", 9));
        assert!(rules.read_project().unwrap().is_empty(), "nine lines are too few");
        for times in 1..=3 {
            assert!(rules.list().unwrap().is_empty(), "{times}");
            learn(&rules, &output("Processing", 10));
        }
        learn(&rules, &output("Packing", 10));
        let shown: Vec<_> =
            rules.list().unwrap().into_iter().map(|rule| (rule.program, rule.shape)).collect();
        assert_eq!(shown, [("build.sh all".to_owned(), "Processing * in * ms".to_owned())]);
        assert_eq!(rules.shapes_for(&run).len(), 1);
        assert!(rules.shapes_for(&runs("make all")).is_empty(), "it is of one program");
        assert!(other.list().unwrap().is_empty() && other.shapes_for(&run).is_empty(), "and of one project");
        assert_eq!((rules.forget(Some(2)).unwrap(), rules.forget(Some(1)).unwrap()), (0, 1));
        assert!(rules_of(dir.path(), "/a").list().unwrap().is_empty());
        assert_eq!(rules.read_project().unwrap().len(), 1, "what is no rule yet stays");
        assert_eq!(rules.forget(None).unwrap(), 0);
        assert!(rules.read_project().unwrap().is_empty());
    }

    #[test]
    fn a_project_has_at_most_two_hundred_rules_and_the_oldest_are_dropped() {
        let mut entries: Vec<LearnedRule> = (0..MAX_RULES + MAX_CANDIDATES + 30)
            .map(|n| LearnedRule {
                program: "make".into(),
                shape: format!("{n}"),
                outputs: if n.is_multiple_of(2) { OUTPUTS_FOR_RULE } else { 1 },
            })
            .collect();
        drop_oldest(&mut entries);
        let rules: Vec<&LearnedRule> = entries.iter().filter(|entry| entry.is_rule()).collect();
        assert_eq!((rules.len(), entries.len()), (MAX_RULES, MAX_RULES + MAX_CANDIDATES));
        assert_eq!((&*rules[0].shape, &*entries[0].shape), ("30", "30"));
    }

    #[test]
    fn a_broken_file_is_an_error_that_is_not_overwritten_and_outputs_are_shown_as_before() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rules.json");
        for text in ["{", "{\"version\": 9, \"projects\": []}"] {
            std::fs::write(&path, text).unwrap();
            let rules = rules_of(dir.path(), "/a");
            assert!(rules.list().unwrap_err().to_string().contains("rules.json is not usable"));
            assert!(rules.shapes_for(&runs("make")).is_empty());
            assert!(rules.learn(&runs("make"), &output("Processing", 20)).is_err());
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        }
    }
}
