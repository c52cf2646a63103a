use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};

use crate::step::{Step, StepKind};
use crate::workspace::git::Repository;
use crate::workspace::snapshot::{LeftOut, content_hash};
use crate::{Change, Content, FileState, Journal, UndoError};

/// Files that an undo or a redo brings back, each with its present state. Nothing is changed yet.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Description in a few words, such as `undo of 2 prompts`.
    pub title: String,
    /// Paths that differ from the wanted state, sorted.
    pub items: Vec<PlanItem>,
    /// Whether zk was killed in one of the turns, so that changes of others may be among these.
    pub is_interrupted: bool,
    pub(crate) kind: StepKind,
    pub(crate) steps: Vec<Step>,
}

/// One path of a [`Plan`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanItem {
    /// Absolute path.
    pub path: PathBuf,
    /// Present state, which is kept in the journal.
    pub now: FileState,
    /// State that is brought back.
    pub target: FileState,
    /// Reason for which the path stays as it is; `None` if it is brought back.
    pub refused: Option<String>,
}

/// A prompt whose turns changed files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnSummary {
    /// Number of the prompt among those that changed files, from 1.
    pub number: u64,
    /// Beginning of the prompt.
    pub prompt: String,
    /// Time of the first change in milliseconds since 1970.
    pub at_ms: u64,
    /// Paths that its turns changed, sorted.
    pub paths: Vec<PathBuf>,
    /// Whether its changes are taken back.
    pub is_undone: bool,
    /// Whether some of its changes are taken back, and others stay because an undo was refused there.
    pub is_partly_undone: bool,
}

impl Plan {
    /// Whether no path is brought back.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.iter().all(|item| item.refused.is_some())
    }

    /// Lines about paths that stay as they are, each with the reason.
    pub fn refusals(&self) -> impl Iterator<Item = String> + '_ {
        self.items.iter().filter_map(|item| {
            Some(format!("{} stays as it is: {}", item.path.display(), item.refused.as_ref()?))
        })
    }
}

impl Journal {
    /// Prompts whose turns changed files, oldest first.
    ///
    /// # Errors
    /// [`UndoError`] when the journal cannot be read.
    pub fn turns(&self) -> Result<Vec<TurnSummary>, UndoError> {
        let runs = group_by_prompt(self.steps.all()?);
        let summary = |(at, steps): (usize, Vec<Step>)| {
            let first = steps.first()?;
            let paths: BTreeSet<&PathBuf> =
                steps.iter().flat_map(|step| &step.changes).map(|change| &change.path).collect();
            Some(TurnSummary {
                number: at as u64 + 1,
                prompt: first.prompt.clone(),
                at_ms: first.at_ms,
                paths: paths.into_iter().cloned().collect(),
                is_undone: steps.iter().all(|step| step.is_undone),
                is_partly_undone: steps.iter().any(Step::is_partly_undone),
            })
        };
        Ok(runs.into_iter().enumerate().filter_map(summary).collect())
    }

    /// Changes of all turns of a prompt together, by its number in [`turns`](Self::turns), or of the last prompt. Paths
    /// that the turns left as before are not among them.
    ///
    /// # Errors
    /// [`UndoError::NoTurn`], [`UndoError::NoTurns`].
    pub fn turn_changes(&self, number: Option<u64>) -> Result<Vec<Change>, UndoError> {
        let runs = group_by_prompt(self.steps.all()?);
        if runs.is_empty() {
            return Err(UndoError::NoTurns);
        }
        let number = number.unwrap_or(runs.len() as u64);
        let at = number.checked_sub(1).and_then(|at| usize::try_from(at).ok());
        let steps = at.and_then(|at| runs.get(at)).ok_or(UndoError::NoTurn(number))?;
        let mut net: BTreeMap<&Path, Change> = BTreeMap::new();
        for change in steps.iter().flat_map(|step| &step.changes) {
            let entry = net.entry(&change.path).or_insert_with(|| change.clone());
            entry.after = change.after.clone();
        }
        Ok(net.into_values().filter(|change| change.before != change.after).collect())
    }

    /// Plans to take back what the last `count` prompts changed that is not taken back already. A prompt that is taken
    /// back in part does not count: its refused paths are tried again.
    ///
    /// # Errors
    /// [`UndoError::NothingToUndo`], [`UndoError::OtherWorkspace`], [`UndoError::Running`].
    pub fn plan_undo(&self, count: usize) -> Result<Plan, UndoError> {
        let _lock = self.lock_and_finish()?;
        let runs = group_by_prompt(self.steps.all()?);
        let active = runs.into_iter().rev().filter(|steps| steps.iter().any(|step| !step.is_undone));
        let count = count.max(1);
        let (mut wanted, mut prompts): (Vec<Vec<Step>>, usize) = (Vec::new(), 0);
        for steps in active {
            if prompts == count {
                break;
            }
            prompts += usize::from(!steps.iter().any(Step::is_partly_undone));
            wanted.push(steps);
        }
        let steps: Vec<Step> = wanted
            .into_iter()
            .flat_map(|steps| steps.into_iter().rev())
            .filter(|step| !step.is_undone)
            .collect();
        if steps.is_empty() {
            return Err(UndoError::NothingToUndo);
        }
        let title = match prompts {
            0 | 1 => "undo of the last prompt's changes".to_owned(),
            count => format!("undo of the changes of {count} prompts"),
        };
        let numbers = steps.iter().map(|step| step.number).collect();
        let changes = steps.iter().flat_map(inverse_changes).collect();
        self.build_plan(title, StepKind::Undo { steps: numbers }, changes, steps)
    }

    /// Plans to take back the last undo.
    ///
    /// # Errors
    /// [`UndoError::NothingToRedo`], [`UndoError::OtherWorkspace`], [`UndoError::Running`].
    pub fn plan_redo(&self) -> Result<Plan, UndoError> {
        let _lock = self.lock_and_finish()?;
        let is_undo = |step: &Step| matches!(step.kind, StepKind::Undo { .. } | StepKind::Move { .. });
        let mut steps = self.steps.all()?;
        steps.retain(|step| is_undo(step) && !step.is_undone);
        let whole = steps.iter().rposition(|step| !step.is_partly_undone());
        let at = whole.or_else(|| steps.len().checked_sub(1)).ok_or(UndoError::NothingToRedo)?;
        let undo = steps.swap_remove(at);
        let changes = inverse_changes(&undo).collect();
        self.build_plan("redo".to_owned(), StepKind::Redo { step: undo.number }, changes, vec![undo])
    }

    /// Plans to bring files to the point of a conversation at which exactly the steps of `wanted` were done.
    ///
    /// # Errors
    /// [`UndoError::NothingToUndo`], [`UndoError::OtherWorkspace`], [`UndoError::Running`].
    pub fn plan_move(&self, wanted: &BTreeSet<u64>) -> Result<Plan, UndoError> {
        let _lock = self.lock_and_finish()?;
        let mut turns = self.steps.all()?;
        turns.retain(|step| step.kind == StepKind::Turn);
        let (undone, redone): (Vec<Step>, Vec<Step>) = turns
            .into_iter()
            .filter(|step| match wanted.contains(&step.number) {
                true => step.undone_changes().next().is_some(),
                false => step.done_changes().next().is_some(),
            })
            .partition(|step| !wanted.contains(&step.number));
        if undone.is_empty() && redone.is_empty() {
            return Err(UndoError::NothingToUndo);
        }
        let numbers = |steps: &[Step]| steps.iter().map(|step| step.number).collect::<Vec<u64>>();
        let kind = StepKind::Move { undone: numbers(&undone), redone: numbers(&redone) };
        let back = undone.iter().rev().flat_map(inverse_changes);
        let changes = back.chain(redone.iter().flat_map(|step| step.undone_changes().cloned())).collect();
        let steps = undone.into_iter().chain(redone).collect();
        self.build_plan("files as at this point of the conversation".to_owned(), kind, changes, steps)
    }

    /// Paths that [`plan_move`](Self::plan_move) would bring to another state, as far as the journal knows. Looks at no
    /// file.
    pub(crate) fn paths_of_move(&self, wanted: &BTreeSet<u64>) -> Result<BTreeSet<PathBuf>, UndoError> {
        let mut paths = BTreeSet::new();
        for step in self.steps.all()?.iter().filter(|step| step.kind == StepKind::Turn) {
            match wanted.contains(&step.number) {
                true => paths.extend(step.undone_changes().map(|change| change.path.clone())),
                false => paths.extend(step.done_changes().map(|change| change.path.clone())),
            }
        }
        Ok(paths)
    }

    fn build_plan(
        &self,
        title: String,
        kind: StepKind,
        changes: Vec<Change>,
        steps: Vec<Step>,
    ) -> Result<Plan, UndoError> {
        for workspace in steps.iter().flat_map(|step| &step.workspaces) {
            workspace.check()?;
        }
        let mut net: BTreeMap<PathBuf, (Change, Option<String>)> = BTreeMap::new();
        // States that somebody else made between two turns. After the undo, no path would have their contents.
        let mut between: Vec<(PathBuf, FileState)> = Vec::new();
        for change in changes {
            let path = change.path.clone();
            match net.get_mut(&path) {
                None => {
                    net.insert(path, (change, None));
                }
                Some((first, refused)) => {
                    if !self.is_equal(&path, &first.after, &change.before) {
                        let why = "it was changed in between, and not by a call of zk";
                        refused.get_or_insert_with(|| why.to_owned());
                        between.push((path, first.after.clone()));
                    }
                    first.after = change.after;
                }
            }
        }
        let mut items = Vec::new();
        for (path, (change, refused)) in net {
            if let Some(item) = self.plan_item(path, change, refused)? {
                items.push(item);
            }
        }
        // A refused path may block others, whose contents may block further ones.
        let count_refused = |items: &[PlanItem]| items.iter().filter(|item| item.refused.is_some()).count();
        loop {
            let before = count_refused(&items);
            refuse_blocked(&mut items);
            refuse_moved(&mut items, &between);
            if count_refused(&items) == before {
                break;
            }
        }
        let parents = missing_parents(&items);
        items.retain(|item| parents.iter().all(|parent| parent.path != item.path));
        items.extend(parents);
        items.sort_by(|one, other| one.path.cmp(&other.path));
        let is_interrupted = steps.iter().any(|step| step.is_interrupted);
        Ok(Plan { title, items, is_interrupted, kind, steps })
    }

    /// Item of the plan for a path; `None` if the path has the wanted state.
    fn plan_item(
        &self,
        path: PathBuf,
        change: Change,
        refused: Option<String>,
    ) -> Result<Option<PlanItem>, UndoError> {
        let mut left_out = LeftOut::default();
        let now = self.scan().read_path(&path, &mut left_out)?.state;
        let Change { before: expected, after: target, .. } = change;
        if self.is_equal(&path, &now, &target) && target.is_kept() {
            return Ok(None);
        }
        let why = if self.is_of_git(&path) {
            Some("an undo never writes to git's own files".to_owned())
        } else if !self.is_expected(&path, &now, &expected) {
            Some("it was changed since, and not by a call of zk".to_owned())
        } else if !target.is_kept() {
            Some("its earlier content was not kept, because of its size or the limits of `[undo]`".to_owned())
        } else if !now.is_kept() {
            Some(
                "its present content cannot be kept, so that it could not come back; remove it yourself"
                    .to_owned(),
            )
        } else if self.open_content(&path, &target)?.is_none() {
            Some("its earlier content is gone from git's objects".to_owned())
        } else {
            None
        };
        Ok(Some(PlanItem { path, now, target, refused: refused.or(why) }))
    }

    /// Whether a path has the state in which a step left it.
    fn is_expected(&self, path: &Path, now: &FileState, expected: &FileState) -> bool {
        now.is_directory() && expected.is_directory() || self.is_equal(path, now, expected)
    }

    /// Whether two states are equal, also if their contents are kept in different places.
    pub(crate) fn is_equal(&self, path: &Path, one: &FileState, other: &FileState) -> bool {
        let (
            FileState::File { mode: a, size: b, content },
            FileState::File { mode: c, size: d, content: with },
        ) = (one, other)
        else {
            return one == other;
        };
        (a, b) == (c, d)
            && (content == with || hash_in(path, one).is_some_and(|hash| hash_in(path, other) == Some(hash)))
    }

    /// Opens the content of a state that is about to be written; `None` if the content is not kept any more. States
    /// other than files have an empty content.
    pub(crate) fn open_content(
        &self,
        path: &Path,
        state: &FileState,
    ) -> Result<Option<FileContent>, UndoError> {
        let FileState::File { size, content, .. } = state else {
            return Ok(Some(FileContent::Bytes(Vec::new())));
        };
        Ok(match content {
            Content::Kept { hash } if !self.objects.has(hash) => None,
            Content::Kept { hash } => Some(FileContent::File(self.objects.open(hash)?)),
            Content::Git { id } => {
                let repository = path.ancestors().skip(1).find(|dir| dir.is_dir()).and_then(Repository::of);
                repository.and_then(|found| found.blob(id, *size)).map(FileContent::Bytes)
            }
            Content::LeftOut { .. } => None,
        })
    }
}

/// Items for missing parent directories of paths that are created, unless the plan brings them back itself.
fn missing_parents(items: &[PlanItem]) -> Vec<PlanItem> {
    let mut missing: BTreeSet<&Path> = BTreeSet::new();
    for item in items.iter().filter(|item| item.refused.is_none() && item.target.exists()) {
        let parents = item.path.ancestors().skip(1);
        missing.extend(parents.take_while(|parent| parent.symlink_metadata().is_err()));
    }
    missing.retain(|parent| items.iter().all(|item| item.path != **parent || item.refused.is_some()));
    let directory = |path: &&Path| PlanItem {
        path: path.to_path_buf(),
        now: FileState::Absent,
        target: FileState::Directory { mode: 0o755 },
        refused: None,
    };
    missing.iter().map(directory).collect()
}

/// Refuses paths that cannot be created, because a parent is no directory.
fn refuse_blocked(items: &mut [PlanItem]) {
    let targets: BTreeMap<PathBuf, FileState> = items
        .iter()
        .filter(|item| item.refused.is_none())
        .map(|item| (item.path.clone(), item.target.clone()))
        .collect();
    for item in items.iter_mut().filter(|item| item.refused.is_none() && item.target.exists()) {
        item.refused = blocked_by_parent(&item.path, &targets);
    }
}

/// Refuses paths whose present content a refused path should get, or had between two turns: a call renamed the file,
/// and otherwise its content would be nowhere in the workspace.
fn refuse_moved(items: &mut [PlanItem], between: &[(PathBuf, FileState)]) {
    let hashed = |(path, state): &(PathBuf, FileState)| Some((hash_in(path, state)?, path.clone()));
    let mut wanted: BTreeMap<String, PathBuf> = between.iter().filter_map(hashed).collect();
    loop {
        let stays = items.iter().filter(|item| item.refused.is_some());
        wanted.extend(stays.filter_map(|item| Some((hash_in(&item.path, &item.target)?, item.path.clone()))));
        let mut is_done = true;
        for item in items.iter_mut().filter(|item| item.refused.is_none()) {
            let from = hash_in(&item.path, &item.now).and_then(|hash| wanted.get(&hash));
            let Some(from) = from.filter(|_| !wanted.is_empty()) else { continue };
            let why = format!("it has bytes that {} had, which do not come back there", from.display());
            item.refused = Some(why);
            is_done = false;
        }
        if is_done {
            return;
        }
    }
}

/// SHA-256 of the content that a state of `path` has; `None` without a kept content.
pub(crate) fn hash_in(path: &Path, state: &FileState) -> Option<String> {
    let FileState::File { size, content, .. } = state else { return None };
    match content {
        Content::Kept { hash } => Some(hash.clone()),
        Content::Git { id } => content_hash(path.parent()?, id, *size),
        Content::LeftOut { .. } => None,
    }
}

/// Content to write into a file.
#[derive(Debug)]
pub(crate) enum FileContent {
    Bytes(Vec<u8>),
    File(File),
}

/// Groups the steps of turns by the prompt that they belong to, oldest first.
fn group_by_prompt(steps: Vec<Step>) -> Vec<Vec<Step>> {
    let mut runs: Vec<Vec<Step>> = Vec::new();
    for step in steps.into_iter().filter(|step| step.kind == StepKind::Turn) {
        match runs.iter_mut().find(|run| run.first().is_some_and(|first| first.run == step.run)) {
            Some(run) => run.push(step),
            None => runs.push(vec![step]),
        }
    }
    runs
}

/// Changes that take the changes of a step back, last first.
fn inverse_changes(step: &Step) -> impl Iterator<Item = Change> + '_ {
    step.done_changes().rev().map(|change| Change {
        path: change.path.clone(),
        before: change.after.clone(),
        after: change.before.clone(),
    })
}

/// Reason for which a path cannot be made below its parents; `None` if it can.
fn blocked_by_parent(path: &Path, targets: &BTreeMap<PathBuf, FileState>) -> Option<String> {
    for parent in path.ancestors().skip(1) {
        match targets.get(parent) {
            Some(target) if target.is_directory() => return None,
            Some(FileState::Absent) => continue,
            Some(_) => return Some(format!("{} is no directory", parent.display())),
            None => {}
        }
        match parent.symlink_metadata() {
            Ok(metadata) if metadata.is_dir() => return None,
            Ok(_) => return Some(format!("{} is a link or a file now", parent.display())),
            Err(_) => {}
        }
    }
    None
}
