use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use zk_core::service::{StateFileError, StateFiles, StateLock};

use crate::objects::Objects;
use crate::step::{Step, StepKind, Steps, read_record};
use crate::workspace::git::is_git_dir;
use crate::workspace::git_settings::GitSettings;
use crate::workspace::scan::Scan;
use crate::workspace::snapshot::{Identity, Known, LeftOut, SavedSnapshot, Snapshot, now_ns};
use crate::{Change, UndoError, UndoSettings};

/// Maximum length of the beginning of a prompt that a step keeps, in characters.
const MAX_PROMPT_CHARS: usize = 100;

/// Journal of a session: the contents of the workspace before each turn, and what each turn changed.
///
/// Every function blocks on disk access. Several processes may use one journal.
///
/// ```
/// use std::sync::Arc;
/// use zk_exec::LocalStateFiles;
/// use zk_undo::{CallScope, Journal, TurnLabel, UndoSettings};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (project, private) = (tempfile::tempdir()?, tempfile::tempdir()?);
/// let root = project.path().canonicalize()?;
/// let files = Arc::new(LocalStateFiles::default());
/// let journal = Journal::new(private.path().join("undo"), &[root.clone()], UndoSettings::default(), files);
///
/// std::fs::write(root.join("a.txt"), "of the person")?;
/// let turn = TurnLabel { run: "r1".into(), turn: "t1".into(), prompt: "delete it".into() };
/// journal.begin(&turn, "call", &CallScope::Workspace)?;
/// std::fs::remove_file(root.join("a.txt"))?;
/// journal.end("call")?;
///
/// let plan = journal.plan_undo(1)?;
/// assert_eq!(plan.items.len(), 1);
/// journal.apply(&plan)?;
/// assert_eq!(std::fs::read_to_string(root.join("a.txt"))?, "of the person");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Journal {
    pub(crate) dir: PathBuf,
    roots: Vec<PathBuf>,
    excluded: Vec<PathBuf>,
    settings: UndoSettings,
    git: GitSettings,
    pub(crate) files: Arc<dyn StateFiles>,
    pub(crate) objects: Objects,
    pub(crate) steps: Steps,
    state: Mutex<State>,
}

#[derive(Default, Debug)]
struct State {
    /// Snapshots of the workspaces from the last scan.
    snapshots: Vec<Snapshot>,
    calls: HashMap<String, OpenCall>,
    /// Number of the last call that began.
    sequence: u64,
    /// Number of the first running call that may change any file; `None` while no such call runs.
    window: Option<u64>,
    lock: Option<StateLock>,
    /// Changes of the present turn, with the numbers of the calls that made them.
    changes: Vec<(u64, Change)>,
    step: Option<Step>,
    told: Option<String>,
}

#[derive(Debug)]
struct OpenCall {
    turn: TurnLabel,
    sequence: u64,
    is_anywhere: bool,
    before: Vec<(PathBuf, Known)>,
}

/// Turn that a call belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnLabel {
    /// Id of the run that the person's prompt began.
    pub run: String,
    /// Id of the turn.
    pub turn: String,
    /// Prompt of the person that began the run.
    pub prompt: String,
}

/// Files that a call may change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallScope {
    /// These files, by absolute paths without links.
    Paths(Vec<PathBuf>),
    /// Any file in the workspace.
    Workspace,
}

/// Numbers of turns whose changes stand between the files and a point of the conversation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TurnsOfMove {
    /// Turns that are not on the branch, with changes in effect.
    pub(crate) beyond: usize,
    /// Turns on the branch, with changes that a move took back.
    pub(crate) missing: usize,
}

/// Record on disk of the calls that are running.
#[derive(Debug, Serialize, Deserialize)]
struct OpenRecord {
    turn: TurnLabel,
    is_anywhere: bool,
    before: Vec<Change>,
}

impl Journal {
    /// Journal in `dir`, which is made when needed, of the workspaces at `roots`.
    #[must_use]
    pub fn new(dir: PathBuf, roots: &[PathBuf], settings: UndoSettings, files: Arc<dyn StateFiles>) -> Self {
        let mut own: Vec<PathBuf> = Vec::new();
        let mut roots: Vec<PathBuf> = roots.iter().filter_map(|root| root.canonicalize().ok()).collect();
        roots.sort();
        for root in roots {
            // A root inside of another is looked at with it.
            if !own.iter().any(|outer| root.starts_with(outer)) {
                own.push(root);
            }
        }
        let objects = Objects::new(dir.join("objects"), settings.max_journal_bytes);
        let steps = Steps::new(dir.join("steps"), files.clone());
        let excluded = vec![dir.canonicalize().unwrap_or_else(|_| dir.clone())];
        let git = GitSettings::default();
        Self { dir, roots: own, excluded, settings, git, files, objects, steps, state: Mutex::default() }
    }

    /// Leaves a directory inside of the workspace out, such as the state of the program.
    #[must_use]
    pub fn excluding(mut self, dir: PathBuf) -> Self {
        self.excluded.push(dir.canonicalize().unwrap_or(dir));
        self
    }

    /// Looks into these settings of git too, beside each repository's own, for files whose bytes git converts.
    #[must_use]
    pub fn reading_git_settings(self, git: GitSettings) -> Self {
        Self { git, ..self }
    }

    /// Notes that a call begins, before it changes anything: keeps the files that it may change. Returns a
    /// line for the person about files that are not kept, unless it was returned before.
    ///
    /// # Errors
    /// [`UndoError`]; the call is not covered then.
    pub fn begin(
        &self,
        turn: &TurnLabel,
        call: &str,
        scope: &CallScope,
    ) -> Result<Option<String>, UndoError> {
        self.begin_unless(&AtomicBool::new(false), turn, call, scope)
    }

    /// Notes that a call begins as [`Self::begin`] does, but fails if `is_late` is set meanwhile: the call runs then,
    /// and may have changed its files.
    pub(crate) fn begin_unless(
        &self,
        is_late: &AtomicBool,
        turn: &TurnLabel,
        call: &str,
        scope: &CallScope,
    ) -> Result<Option<String>, UndoError> {
        let mut state = self.lock_state();
        let mut left_out = LeftOut::default();
        let (is_anywhere, before) = match scope {
            CallScope::Workspace => {
                if state.window.is_none() {
                    state.snapshots = self.scan_workspaces(&state.snapshots)?;
                    state.snapshots.iter().for_each(|snapshot| left_out.extend(&snapshot.left_out));
                    let saved: Vec<SavedSnapshot> = state.snapshots.iter().map(Snapshot::to_saved).collect();
                    let path = self.dir.join("base.json");
                    let bytes = serde_json::to_vec(&saved)
                        .map_err(|error| UndoError::damaged(&path, error.to_string()))?;
                    self.files.replace(&path, &bytes)?;
                }
                (true, Vec::new())
            }
            CallScope::Paths(paths) => {
                let mut before = Vec::new();
                for path in paths.iter().filter(|path| !self.is_of_git(path)) {
                    for path in self.with_missing_parents(path) {
                        let known = self.scan().read_path(&path, &mut left_out)?;
                        before.push((path, known));
                    }
                }
                (false, before)
            }
        };
        if is_late.load(Ordering::Acquire) {
            return Err(UndoError::Late);
        }
        if state.lock.is_none() {
            state.lock = Some(self.files.lock(&self.dir.join("running"))?);
        }
        let record = OpenRecord {
            turn: turn.clone(),
            is_anywhere: is_anywhere || state.window.is_some(),
            before: {
                let open = state.calls.values().flat_map(|call| &call.before);
                open.chain(&before).map(|(path, known)| unchanged_record(path, known)).collect()
            },
        };
        let path = self.dir.join("open.json");
        let bytes =
            serde_json::to_vec(&record).map_err(|error| UndoError::damaged(&path, error.to_string()))?;
        self.files.replace(&path, &bytes)?;
        state.sequence += 1;
        let sequence = state.sequence;
        if is_anywhere && state.window.is_none() {
            state.window = Some(sequence);
        }
        state.calls.insert(call.to_owned(), OpenCall { turn: turn.clone(), sequence, is_anywhere, before });
        let line = left_out.summary_line().filter(|line| state.told.as_ref() != Some(line));
        if line.is_some() {
            state.told.clone_from(&line);
        }
        Ok(line)
    }

    /// Notes that a call ended, and keeps what it changed. An unknown call has changed no files. Returns the
    /// number of the step that was begun for it, if it is the first of its turn that changed files.
    ///
    /// # Errors
    /// [`UndoError`]; the changes of the call are not in the journal then.
    pub fn end(&self, call: &str) -> Result<Option<u64>, UndoError> {
        let mut state = self.lock_state();
        let Some(ended) = state.calls.remove(call) else { return Ok(None) };
        let done = self.record_changes(&mut state, &ended);
        if state.calls.is_empty() {
            state.lock = None;
            let _ = std::fs::remove_file(self.dir.join("open.json"));
        }
        done
    }

    fn record_changes(&self, state: &mut State, ended: &OpenCall) -> Result<Option<u64>, UndoError> {
        let is_of_turn = |step: &Step| step.run == ended.turn.run && step.turn == ended.turn.turn;
        if !state.step.as_ref().is_some_and(is_of_turn) {
            state.step = None;
            state.changes.clear();
        }
        let mut left_out = LeftOut::default();
        for (path, before) in &ended.before {
            let after = self.scan().read_path(path, &mut left_out)?;
            if before.state != after.state {
                let change = Change { path: path.clone(), before: before.state.clone(), after: after.state };
                state.changes.push((ended.sequence, change));
            }
        }
        let is_last = !state.calls.values().any(|call| call.is_anywhere);
        if ended.is_anywhere
            && is_last
            && let Some(window) = state.window.take()
        {
            let later = self.scan_workspaces(&state.snapshots)?;
            let changes = self.changes_between(&state.snapshots, &later)?;
            // A file tool that ran beside the command is in these changes.
            let is_in = |path: &Path| changes.iter().any(|change| change.path == path);
            state.changes.retain(|(sequence, change)| *sequence < window || !is_in(&change.path));
            state.changes.extend(changes.into_iter().map(|change| (window, change)));
            state.snapshots = later;
        }
        if state.changes.is_empty() {
            return Ok(None);
        }
        let is_new = state.step.is_none();
        let changes = state.changes.iter().map(|(_, change)| change.clone()).collect();
        let step = match state.step.take() {
            Some(step) => Step { changes, ..step },
            None => self.new_step(StepKind::Turn, &ended.turn, changes)?,
        };
        self.steps.write(&step)?;
        let number = step.number;
        state.step = Some(step);
        Ok(is_new.then_some(number))
    }

    /// Returns the steps of undos that the model was not told of, and marks them as told.
    pub(crate) fn take_untold_undos(&self) -> Result<Vec<Step>, UndoError> {
        let mut steps = self.steps.all()?;
        steps.retain(|step| step.kind != StepKind::Turn && !step.is_told);
        steps.iter().try_for_each(|step| self.steps.update(step.number, |step| step.is_told = true))?;
        Ok(steps)
    }

    /// Counts the turns whose changes stand between the files and a point of the conversation, from the steps of the
    /// branch that ends there. A turn that the person took back is not missing.
    pub(crate) fn count_turns_of_move(&self, branch: &BTreeSet<u64>) -> Result<TurnsOfMove, UndoError> {
        let steps = self.steps.all()?;
        let mut moved_away: BTreeSet<u64> = BTreeSet::new();
        for step in &steps {
            if let StepKind::Move { undone, redone } = &step.kind {
                moved_away.extend(undone);
                moved_away.retain(|number| !redone.contains(number));
            }
        }
        let mut counted = TurnsOfMove::default();
        for step in steps.iter().filter(|step| step.kind == StepKind::Turn) {
            if !branch.contains(&step.number) {
                counted.beyond += usize::from(step.done_changes().next().is_some());
            } else if moved_away.contains(&step.number) {
                counted.missing += usize::from(step.undone_changes().next().is_some());
            }
        }
        Ok(counted)
    }

    /// Time limit of a scan of all workspaces.
    pub(crate) fn scan_limit(&self) -> Duration {
        self.settings.scan_limit() * u32::try_from(self.roots.len().max(1)).unwrap_or(1)
    }

    /// Finishes what a killed process left: records the changes of calls that were running, and completes an undo.
    /// Returns lines for the person.
    ///
    /// # Errors
    /// [`UndoError`]; the rest is tried again the next time.
    pub fn recover(&self) -> Result<Vec<String>, UndoError> {
        if !self.dir.exists() {
            return Ok(Vec::new());
        }
        let _lock = match self.lock_for_changes() {
            Err(UndoError::Running) => return Ok(Vec::new()),
            lock => lock?,
        };
        let mut lines: Vec<String> = self.finish_pending()?.into_iter().collect();
        lines.extend(self.record_interrupted_calls()?);
        Ok(lines)
    }

    fn record_interrupted_calls(&self) -> Result<Option<String>, UndoError> {
        let path = self.dir.join("open.json");
        let Some(open) = read_record::<OpenRecord>(&*self.files, &path)? else { return Ok(None) };
        let mut changes = Vec::new();
        let mut left_out = LeftOut::default();
        for change in open.before {
            let after = self.scan().read_path(&change.path, &mut left_out)?.state;
            if after != change.before {
                changes.push(Change { after, ..change });
            }
        }
        if open.is_anywhere
            && let Some(saved) = read_record::<Vec<SavedSnapshot>>(&*self.files, &self.dir.join("base.json"))?
        {
            let before: Vec<Snapshot> = saved.into_iter().map(|saved| saved.open(&self.objects)).collect();
            if before.iter().all(|snapshot| snapshot.identity.check().is_ok()) {
                let later: Result<Vec<Snapshot>, UndoError> =
                    before.iter().map(|before| self.scan().run(before.root(), Some(before))).collect();
                // A file tool that ran beside the command has seen its files earlier.
                let of_tools: BTreeSet<PathBuf> =
                    changes.iter().map(|change: &Change| change.path.clone()).collect();
                let found = self.changes_between(&before, &later?)?;
                changes.extend(found.into_iter().filter(|change| !of_tools.contains(&change.path)));
            }
        }
        self.remove_recorded(&open.turn, &mut changes)?;
        let count = changes.len();
        if count > 0 {
            let step = self.new_step(StepKind::Turn, &open.turn, changes)?;
            self.steps.write(&Step { is_interrupted: true, ..step })?;
        }
        std::fs::remove_file(&path).map_err(UndoError::io("remove", &path))?;
        Ok((count > 0).then(|| {
            format!(
                "zk ended while a call ran: {count} paths changed since that call began, maybe not all by it; /undo shows them before it takes them back"
            )
        }))
    }

    /// Removes changes that the turn's steps have already: zk may end after it recorded a call's changes and before it
    /// removed the record of running calls.
    fn remove_recorded(&self, turn: &TurnLabel, changes: &mut Vec<Change>) -> Result<(), UndoError> {
        let mut steps = self.steps.all()?;
        steps.retain(|step| step.kind == StepKind::Turn && step.run == turn.run && step.turn == turn.turn);
        changes.retain(|change| {
            let mut noted = steps.iter().flat_map(|step| &step.changes).rev();
            let last = noted.find(|noted| noted.path == change.path);
            !last.is_some_and(|noted| {
                self.is_equal(&change.path, &noted.before, &change.before)
                    && self.is_equal(&change.path, &noted.after, &change.after)
            })
        });
        Ok(())
    }

    pub(crate) fn new_step(
        &self,
        kind: StepKind,
        turn: &TurnLabel,
        changes: Vec<Change>,
    ) -> Result<Step, UndoError> {
        let workspaces: Result<Vec<Identity>, UndoError> =
            self.roots.iter().map(|root| Identity::of(root)).collect();
        Ok(Step {
            number: self.steps.next_number()?,
            kind,
            run: turn.run.clone(),
            turn: turn.turn.clone(),
            prompt: turn.prompt.chars().take(MAX_PROMPT_CHARS).collect(),
            at_ms: now_ns() / 1_000_000,
            changes,
            workspaces: workspaces?,
            is_undone: false,
            undone: BTreeSet::new(),
            is_interrupted: false,
            is_told: false,
        })
    }

    /// Lock under which an undo may change files of the workspace. Fails while a call runs.
    pub(crate) fn lock_for_changes(&self) -> Result<StateLock, UndoError> {
        if !self.lock_state().calls.is_empty() {
            return Err(UndoError::Running);
        }
        match self.files.lock(&self.dir.join("running")) {
            Err(StateFileError::Busy { .. }) => Err(UndoError::Running),
            lock => Ok(lock?),
        }
    }

    pub(crate) fn scan(&self) -> Scan<'_> {
        Scan {
            objects: &self.objects,
            settings: &self.settings,
            excluded: &self.excluded,
            git: Some(&self.git),
            limit: self.settings.scan_limit(),
        }
    }

    fn scan_workspaces(&self, before: &[Snapshot]) -> Result<Vec<Snapshot>, UndoError> {
        let of_before = |root: &Path| before.iter().find(|snapshot| snapshot.root() == root);
        self.roots.iter().map(|root| self.scan().run(root, of_before(root))).collect()
    }

    fn changes_between(&self, before: &[Snapshot], later: &[Snapshot]) -> Result<Vec<Change>, UndoError> {
        let mut changes = Vec::new();
        let mut look = |path: &Path| self.scan().read_path(path, &mut LeftOut::default());
        for (before, later) in before.iter().zip(later) {
            changes.extend(before.changes(later, &self.objects, &mut look)?);
        }
        Ok(changes)
    }

    /// Whether a path is a `.git` or bare repository directory or in one, which no undo ever writes to. A workspace
    /// may itself be in one, as a work tree inside of a bare repository is.
    pub(crate) fn is_of_git(&self, path: &Path) -> bool {
        if path.components().any(|part| part.as_os_str().eq_ignore_ascii_case(".git")) {
            return true;
        }
        let is_inside = self.roots.iter().any(|root| path.starts_with(root));
        let is_end = |dir: &Path| match is_inside {
            true => self.roots.iter().any(|root| root == dir),
            false => dir.join(".git").symlink_metadata().is_ok(),
        };
        path.ancestors().take_while(|dir| !is_end(dir)).any(is_git_dir)
    }

    /// Missing parents of a path, topmost first, and then the path itself.
    fn with_missing_parents(&self, path: &Path) -> Vec<PathBuf> {
        let missing = path.ancestors().skip(1).take_while(|dir| dir.symlink_metadata().is_err());
        let mut paths: Vec<PathBuf> = missing.map(Path::to_owned).collect();
        paths.reverse();
        paths.push(path.to_owned());
        paths
    }

    fn lock_state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn unchanged_record(path: &Path, known: &Known) -> Change {
    Change { path: path.to_owned(), before: known.state.clone(), after: known.state.clone() }
}

#[cfg(test)]
mod tests;
