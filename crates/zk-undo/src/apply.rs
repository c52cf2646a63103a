//! Files are brought back in two parts: first all contents are written beside their places, which is where a disk
//! fills up; then names change. A record of it all is on disk, so that a killed undo is finished at the next
//! start.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::fs::{Access, AtFlags, accessat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use zk_core::service::StateLock;

use crate::journal::TurnLabel;
use crate::path_text::SavedPath;
use crate::plan::{FileContent, hash_in};
use crate::step::{StepKind, read_record};
use crate::workspace::beneath::{NEW_DIR_MODE, Place, rename_new};
use crate::workspace::snapshot::{Identity, LeftOut, now_ns};
use crate::{Change, FileState, Journal, Plan, UndoError};

/// Files that an undo brought back, and those that it did not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Changes that were made, by path.
    pub changes: Vec<Change>,
    /// Lines about paths that stay as they are, each with the reason.
    pub refused: Vec<String>,
}

/// Record of an undo that is being carried out.
#[derive(Debug, Serialize, Deserialize)]
struct Pending {
    number: u64,
    kind: StepKind,
    title: String,
    workspaces: Vec<Identity>,
    changes: Vec<Change>,
    /// Temporary file for each of `changes`; `None` for a change that needs none.
    temporary: Vec<Option<SavedPath>>,
    /// Paths that the undo leaves as they are.
    #[serde(default)]
    stayed: BTreeSet<SavedPath>,
}

impl Pending {
    /// Reason for which this cannot be a record that zk wrote; `None` if it may be one.
    fn fault(&self) -> Option<&'static str> {
        let mut each = self.changes.iter().zip(&self.temporary);
        if self.workspaces.is_empty() {
            Some("it names no workspace")
        } else if self.changes.len() != self.temporary.len() {
            Some("it has not one temporary file for each change")
        } else if each
            .any(|(change, file)| file.as_ref().is_some_and(|SavedPath(path)| !is_temporary(path, change)))
        {
            Some("it names temporary files that no undo makes")
        } else {
            None
        }
    }
}

impl Journal {
    /// Brings the files of a plan back. Each path is read again first, and stays as it is if it changed since the plan
    /// was made. A full disk, or any other failure to write, leaves every file as it is.
    ///
    /// # Errors
    /// [`UndoError::Unrecorded`] once files are back and the journal could not be written; with any other error, no file
    /// was changed.
    pub fn apply(&self, plan: &Plan) -> Result<Outcome, UndoError> {
        let _lock = self.lock_and_finish()?;
        for workspace in plan.steps.iter().flat_map(|step| &step.workspaces) {
            workspace.check()?;
        }
        let mut outcome = Outcome { refused: plan.refusals().collect(), ..Outcome::default() };
        let mut changes = Vec::new();
        let refused = plan.items.iter().filter(|item| item.refused.is_some());
        let mut stayed: BTreeSet<SavedPath> = refused.map(|item| SavedPath(item.path.clone())).collect();
        for item in plan.items.iter().filter(|item| item.refused.is_none()) {
            let now = self.scan().read_path(&item.path, &mut LeftOut::default())?.state;
            if self.is_equal(&item.path, &now, &item.now) {
                changes.push(Change { path: item.path.clone(), before: now, after: item.target.clone() });
            } else {
                stayed.insert(SavedPath(item.path.clone()));
                outcome.refused.push(refusal_line(&item.path, "it changed just now"));
            }
        }
        if changes.is_empty() {
            return Ok(outcome);
        }
        let (number, token) = (self.steps.next_number()?, now_ns());
        let temporary =
            changes.iter().enumerate().map(|(at, change)| temporary_path(token, at, change)).collect();
        let workspaces = plan.steps.first().map(|step| step.workspaces.clone()).unwrap_or_default();
        let (kind, title) = (plan.kind.clone(), plan.title.clone());
        let pending = Pending { number, kind, title, workspaces, changes, temporary, stayed };
        self.write_pending(&pending)?;
        if let Err(error) = self.stage(&pending) {
            self.discard_pending(&pending);
            return Err(UndoError::Unchanged(Box::new(error)));
        }
        let done = self.apply_changes(&pending);
        let recorded = self.record_outcome(pending, done, &mut outcome);
        recorded.map_err(|error| UndoError::Unrecorded(Box::new(error)))?;
        Ok(outcome)
    }

    /// Locks the journal, and finishes an undo that was cut off, whose record the next undo would overwrite.
    pub(crate) fn lock_and_finish(&self) -> Result<StateLock, UndoError> {
        let lock = self.lock_for_changes()?;
        self.finish_pending()?;
        Ok(lock)
    }

    /// Finishes an undo that was cut off, and returns lines for the person; `None` if there is none.
    pub(crate) fn finish_pending(&self) -> Result<Option<String>, UndoError> {
        let path = self.dir.join("pending.json");
        let Some(mut pending) = read_record::<Pending>(&*self.files, &path)? else { return Ok(None) };
        if let Some(why) = pending.fault() {
            return Err(UndoError::damaged(&path, why));
        }
        for workspace in &pending.workspaces {
            workspace.check()?;
        }
        remove_temporary(&pending);
        let mut outcome = Outcome::default();
        let mut finished = Vec::new();
        let (mut rest, mut temporary, mut between) = (Vec::new(), Vec::new(), Vec::new());
        let changes = std::mem::take(&mut pending.changes);
        for (change, beside) in changes.into_iter().zip(std::mem::take(&mut pending.temporary)) {
            if self.is_of_git(&change.path) {
                outcome.refused.push(refusal_line(&change.path, "an undo never writes to git's own files"));
                pending.stayed.insert(SavedPath(change.path));
                continue;
            }
            let now = self.scan().read_path(&change.path, &mut LeftOut::default())?.state;
            if self.is_equal(&change.path, &now, &change.after) {
                finished.push(change);
            } else if self.is_equal(&change.path, &now, &change.before) {
                rest.push(change);
                temporary.push(beside);
            } else if is_half_done(&change, &now) {
                between.push((rest.len(), change.before));
                rest.push(Change { before: now, ..change });
                temporary.push(beside);
            } else {
                outcome.refused.push(refusal_line(&change.path, "it was changed since zk ended"));
                pending.stayed.insert(SavedPath(change.path));
            }
        }
        pending.temporary = temporary;
        pending.changes = rest;
        self.stage(&pending).inspect_err(|_| remove_temporary(&pending))?;
        let done = self.apply_changes(&pending);
        for (at, before) in between {
            if let Some(change) = pending.changes.get_mut(at) {
                change.before = before;
            }
        }
        let count = finished.len() + pending.changes.len();
        outcome.changes = finished;
        self.record_outcome(pending, done, &mut outcome)?;
        let mut line = format!("an undo that was cut off is finished: {count} paths are back");
        outcome.refused.iter().for_each(|refused| line.push_str(&format!("\n{refused}")));
        Ok(Some(line))
    }

    fn record_outcome(
        &self,
        mut pending: Pending,
        done: Vec<Result<(), Errno>>,
        outcome: &mut Outcome,
    ) -> Result<(), UndoError> {
        remove_temporary(&pending);
        for (change, done) in std::mem::take(&mut pending.changes).into_iter().zip(done) {
            match done {
                Ok(()) => outcome.changes.push(change),
                Err(errno) => {
                    outcome.refused.push(refusal_line(&change.path, &refusal_reason(errno)));
                    pending.stayed.insert(SavedPath(change.path));
                }
            }
        }
        outcome.changes.sort_by(|one, other| one.path.cmp(&other.path));
        let label = TurnLabel { run: String::new(), turn: String::new(), prompt: pending.title };
        let mut step = self.new_step(pending.kind.clone(), &label, outcome.changes.clone())?;
        step.number = pending.number;
        self.steps.write(&step)?;
        let mark = |numbers: &[u64], is_undone| {
            numbers.iter().try_for_each(|number| {
                self.steps.update(*number, |step| step.set_undone(is_undone, &pending.stayed))
            })
        };
        match &pending.kind {
            StepKind::Turn => {}
            StepKind::Undo { steps } => mark(steps, true)?,
            StepKind::Move { undone, redone } => {
                mark(undone, true)?;
                mark(redone, false)?;
            }
            StepKind::Redo { step } => {
                mark(&[*step], true)?;
                let taken_back = self.steps.all()?.into_iter().find(|found| found.number == *step);
                match taken_back.map(|step| step.kind) {
                    Some(StepKind::Undo { steps }) => mark(&steps, false)?,
                    Some(StepKind::Move { undone, redone }) => {
                        mark(&undone, false)?;
                        mark(&redone, true)?;
                    }
                    Some(StepKind::Turn | StepKind::Redo { .. }) | None => {}
                }
            }
        }
        let path = self.dir.join("pending.json");
        std::fs::remove_file(&path).map_err(UndoError::io("remove", &path))
    }

    fn write_pending(&self, pending: &Pending) -> Result<(), UndoError> {
        let path = self.dir.join("pending.json");
        let bytes =
            serde_json::to_vec(pending).map_err(|error| UndoError::damaged(&path, error.to_string()))?;
        Ok(self.files.replace(&path, &bytes)?)
    }

    fn discard_pending(&self, pending: &Pending) {
        remove_temporary(pending);
        let _ = std::fs::remove_file(self.dir.join("pending.json"));
    }

    /// Writes the contents to temporary files, and checks that the directories of all paths can be written.
    fn stage(&self, pending: &Pending) -> Result<(), UndoError> {
        for (change, temporary) in pending.changes.iter().zip(&pending.temporary) {
            let fail = |errno: Errno| UndoError::io("bring back", &change.path)(errno.into());
            if change.before.exists() {
                let place = Place::of(&change.path).map_err(fail)?;
                accessat(&place.dir, ".", Access::WRITE_OK | Access::EXEC_OK, AtFlags::empty())
                    .map_err(fail)?;
            }
            let Some(SavedPath(temporary)) = temporary else { continue };
            match &change.after {
                FileState::File { mode, .. } => {
                    let content = self.open_content(&change.path, &change.after)?;
                    let content = content
                        .ok_or_else(|| UndoError::damaged(&change.path, "its kept content is gone"))?;
                    let file = Place::of(temporary).and_then(|place| place.create()).map_err(fail)?;
                    write_content(file, content, *mode).map_err(UndoError::io("bring back", &change.path))?;
                }
                FileState::Link { target } => {
                    Place::of(temporary).and_then(|place| place.make_link(target)).map_err(fail)?;
                }
                FileState::Absent | FileState::Directory { .. } | FileState::Other => {}
            }
        }
        Ok(())
    }

    /// Changes the files: first removes present ones that are in the way, deepest first, then creates the wanted ones,
    /// top down. A change that fails leaves its path as it is.
    fn apply_changes(&self, pending: &Pending) -> Vec<Result<(), Errno>> {
        let mut done = self.refuse_changed(pending);
        let mut order: Vec<usize> = (0..pending.changes.len()).collect();
        let depth =
            |at: &usize| pending.changes.get(*at).map_or(0, |change| change.path.components().count());
        order.sort_by_key(|at| std::cmp::Reverse(depth(at)));
        for at in &order {
            let (Some(change), Some(done)) = (pending.changes.get(*at), done.get_mut(*at)) else { continue };
            if done.is_ok() {
                *done = self.remove_present(change);
            }
        }
        order.reverse();
        for at in &order {
            let (Some(change), Some(done)) = (pending.changes.get(*at), done.get_mut(*at)) else { continue };
            if done.is_ok() {
                let temporary = pending.temporary.get(*at).and_then(Option::as_ref);
                *done = self.create_wanted(change, temporary.map(|SavedPath(path)| path.as_path()));
            }
        }
        // Modes of directories are set last, since a read-only one could be neither filled nor cleaned after that.
        remove_temporary(pending);
        for at in order.iter().rev() {
            let (Some(change), Some(done)) = (pending.changes.get(*at), done.get_mut(*at)) else { continue };
            if let (FileState::Directory { mode }, Ok(())) = (&change.after, &done) {
                *done = Place::of(&change.path).and_then(|place| place.set_mode(*mode));
            }
        }
        done
    }

    /// Refuses, before the first file is changed, paths that somebody changed while contents were written. A path that
    /// has the content that a refused one should get is refused as well, so that the content is not lost.
    fn refuse_changed(&self, pending: &Pending) -> Vec<Result<(), Errno>> {
        let look = |change: &Change| match &change.before {
            FileState::Directory { .. } | FileState::Other => Ok(()),
            FileState::Absent | FileState::File { .. } | FileState::Link { .. } => self.is_as_before(change),
        };
        let mut done: Vec<Result<(), Errno>> = pending.changes.iter().map(look).collect();
        loop {
            let refused = pending.changes.iter().zip(&done).filter(|(_, done)| done.is_err());
            let wanted: BTreeSet<String> =
                refused.filter_map(|(change, _)| hash_in(&change.path, &change.after)).collect();
            let mut is_last = true;
            for (change, done) in pending.changes.iter().zip(&mut done) {
                let has_wanted =
                    || hash_in(&change.path, &change.before).is_some_and(|hash| wanted.contains(&hash));
                if !wanted.is_empty() && done.is_ok() && has_wanted() {
                    *done = Err(Errno::CANCELED);
                    is_last = false;
                }
            }
            if is_last {
                return done;
            }
        }
    }

    /// Checks that a path still has the state before the change, so that a change of this instant is not lost.
    fn is_as_before(&self, change: &Change) -> Result<(), Errno> {
        match self.scan().read_path(&change.path, &mut LeftOut::default()) {
            Ok(now) if self.is_equal(&change.path, &now.state, &change.before) => Ok(()),
            Ok(_) | Err(_) => Err(Errno::BUSY),
        }
    }

    /// Removes the present file or directory, unless a single call replaces it by the wanted one.
    fn remove_present(&self, change: &Change) -> Result<(), Errno> {
        if is_replaced_at_once(change) || !change.before.exists() {
            return Ok(());
        }
        let place = Place::of(&change.path)?;
        match &change.before {
            FileState::Directory { .. } => place.remove_dir(),
            FileState::Absent | FileState::File { .. } | FileState::Link { .. } | FileState::Other => {
                self.is_as_before(change)?;
                place.remove_file()
            }
        }
    }

    /// Creates the wanted file, link or directory at a path.
    fn create_wanted(&self, change: &Change, temporary: Option<&Path>) -> Result<(), Errno> {
        match &change.after {
            FileState::Absent | FileState::Other => Ok(()),
            FileState::Directory { .. } => match make_parents(&change.path)?.make_dir() {
                Err(Errno::EXIST) if change.before.is_directory() => Ok(()),
                done => done,
            },
            FileState::File { .. } | FileState::Link { .. } => {
                let place = make_parents(&change.path)?;
                let Some(temporary) = temporary else { return Err(Errno::INVAL) };
                self.rename_into_place(change, &Place::of(temporary)?, &place)
            }
        }
    }

    /// Renames a temporary file to its path, where it may replace nothing but the state before the change.
    fn rename_into_place(&self, change: &Change, from: &Place, to: &Place) -> Result<(), Errno> {
        match &change.before {
            FileState::File { .. } | FileState::Link { .. } => {
                self.is_as_before(change)?;
                rustix::fs::renameat(&from.dir, &*from.name, &to.dir, &*to.name)
            }
            FileState::Absent | FileState::Directory { .. } | FileState::Other => {
                rename_new(from, to).map_err(|errno| if errno == Errno::EXIST { Errno::BUSY } else { errno })
            }
        }
    }
}

/// Whether the wanted state takes the place of the present one in a single call.
fn is_replaced_at_once(change: &Change) -> bool {
    let has_name = |state: &FileState| matches!(state, FileState::File { .. } | FileState::Link { .. });
    has_name(&change.before) && has_name(&change.after)
        || change.before.is_directory() && change.after.is_directory()
}

/// Whether a path is in a state that an undo has only between two system calls: removed, or a directory without its
/// mode.
fn is_half_done(change: &Change, now: &FileState) -> bool {
    match now {
        FileState::Absent => change.before.exists() && change.after.exists() && !is_replaced_at_once(change),
        FileState::Directory { mode } => {
            *mode == NEW_DIR_MODE && change.after.is_directory() && !change.before.is_directory()
        }
        FileState::File { .. } | FileState::Link { .. } | FileState::Other => false,
    }
}

/// Opens the parent of a path, and creates missing directories.
fn make_parents(path: &Path) -> Result<Place, Errno> {
    match Place::of(path) {
        Err(Errno::NOENT) => {}
        place => return place,
    }
    let parent = path.parent().ok_or(Errno::INVAL)?;
    let above = make_parents(parent)?;
    match above.make_dir() {
        Ok(()) => above.set_mode(0o755)?,
        Err(Errno::EXIST) => {}
        Err(errno) => return Err(errno),
    }
    Place::of(path)
}

/// Path of the temporary file for a change: beside its path, or in the nearest directory that exists.
fn temporary_path(token: u64, at: usize, change: &Change) -> Option<SavedPath> {
    match change.after {
        FileState::File { .. } | FileState::Link { .. } => {}
        FileState::Absent | FileState::Directory { .. } | FileState::Other => return None,
    }
    let is_dir = |dir: &&Path| dir.symlink_metadata().is_ok_and(|metadata| metadata.is_dir());
    let dir = change.path.ancestors().skip(1).find(is_dir)?;
    Some(SavedPath(dir.join(OsString::from(format!(".zk-undo-{token:x}-{at}.tmp")))))
}

/// Whether a path is one that [`temporary_path`] returns for a change.
fn is_temporary(path: &Path, change: &Change) -> bool {
    let name = path.file_name().and_then(OsStr::to_str);
    let middle = name.and_then(|name| name.strip_prefix(".zk-undo-")?.strip_suffix(".tmp"));
    let is_named = middle.and_then(|middle| middle.split_once('-')).is_some_and(|(token, at)| {
        !token.is_empty()
            && token.bytes().all(|byte| byte.is_ascii_hexdigit())
            && !at.is_empty()
            && at.bytes().all(|byte| byte.is_ascii_digit())
    });
    is_named && path.parent().is_some_and(|dir| change.path.ancestors().skip(1).any(|above| above == dir))
}

fn remove_temporary(pending: &Pending) {
    for SavedPath(path) in pending.temporary.iter().flatten() {
        if let Ok(place) = Place::of(path) {
            let _ = place.remove_file();
        }
    }
}

fn write_content(mut file: File, content: FileContent, mode: u32) -> io::Result<()> {
    match content {
        FileContent::Bytes(bytes) => file.write_all(&bytes)?,
        FileContent::File(mut from) => {
            io::copy(&mut from, &mut file)?;
        }
    }
    file.set_permissions(std::fs::Permissions::from_mode(mode))?;
    // The content is synced to disk before the file gets its name.
    file.sync_data()
}

fn refusal_line(path: &Path, why: &str) -> String {
    format!("{} stays as it is: {why}", path.display())
}

fn refusal_reason(errno: Errno) -> String {
    match errno {
        Errno::NOTEMPTY | Errno::EXIST => "there are files in it that are not of that turn".to_owned(),
        Errno::BUSY => "it changed just now".to_owned(),
        Errno::CANCELED => "it has bytes of a path that changed just now".to_owned(),
        Errno::LOOP => "a link is in the way".to_owned(),
        errno => io::Error::from(errno).to_string(),
    }
}

#[cfg(test)]
mod tests;
