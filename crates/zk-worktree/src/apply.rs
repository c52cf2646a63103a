use std::ffi::OsString;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use zk_core::service::{Files, PathError, Resolved};

use crate::WorktreeError;
use crate::beneath::{Found, Tree};
use crate::blocking::blocking;
use crate::git::Git;
use crate::patch::{Content, Edit, FileChange, Patch, Plan};

/// Compares a patch with the files as they are, and merges what both sides changed in different places.
pub(crate) async fn plan_edits(
    patch: &Patch,
    files: std::sync::Arc<dyn Files>,
    cwd: PathBuf,
    git: &Git,
) -> Result<Plan, String> {
    let (root, changes) = (patch.root.clone(), patch.changes.clone());
    let found = blocking(move || {
        let tree = Tree::open(&root).map_err(|error| format!("cannot open {}: {error}", root.display()))?;
        let look = |change: FileChange| {
            let full = root.join(&change.path);
            let at = files.resolve(&cwd, &full.to_string_lossy()).map_err(|error| error.to_string())?;
            let now = read(&*files, &at, &tree, &change.path)?;
            Ok::<_, String>((change, at, now))
        };
        changes.into_iter().map(look).collect::<Result<Vec<_>, _>>()
    });
    let found = found.await.map_err(|error| error.to_string())??;
    let (mut edits, mut conflicts) = (Vec::new(), Vec::new());
    for (change, at, now) in found {
        let FileChange { path, old, new } = change;
        let bytes_of = |side: &Option<Content>| side.as_ref().map(|side| side.bytes.clone());
        let (base, wanted, present) = (bytes_of(&old), bytes_of(&new), bytes_of(&now));
        // A mode that the agent did not change stays as the person has it.
        let keeps_mode =
            matches!((&old, &new), (Some(old), Some(new)) if old.is_executable == new.is_executable);
        let is_executable = |new: &Content| match &now {
            Some(now) if keeps_mode => now.is_executable,
            Some(_) | None => new.is_executable,
        };
        let then = if present == base || present == wanted {
            new.map(|new| Content { is_executable: is_executable(&new), ..new })
        } else {
            match (&present, &base, new) {
                (Some(present), Some(base), Some(new)) => {
                    match merge_texts(git, present, base, &new.bytes)
                        .await
                        .map_err(|error| error.to_string())?
                    {
                        Some(bytes) => Some(Content { is_executable: is_executable(&new), bytes }),
                        None => {
                            conflicts.push(path);
                            continue;
                        }
                    }
                }
                _ => {
                    conflicts.push(path);
                    continue;
                }
            }
        };
        if then == now {
            continue;
        }
        edits.push(Edit { at, path, now, then });
    }
    Ok(if conflicts.is_empty() { Plan::Edits(edits) } else { Plan::Conflict(conflicts) })
}

fn read(files: &dyn Files, at: &Resolved, tree: &Tree, path: &Path) -> Result<Option<Content>, String> {
    match files.open(at, None) {
        Ok(mut file) => {
            let failed = |error: std::io::Error| format!("cannot read `{}`: {error}", at.shown);
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes).map_err(failed)?;
            let is_executable = match tree.find(path).map_err(failed)? {
                Some(Found::File { mode, .. }) => mode & 0o100 != 0,
                Some(Found::Link(_) | Found::Other) | None => false,
            };
            Ok(Some(Content { bytes, is_executable }))
        }
        Err(PathError::Missing { .. }) => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

/// Merges two changes of a text; `None` if they touch the same lines, or if it is no text.
async fn merge_texts(
    git: &Git,
    now: &[u8],
    base: &[u8],
    new: &[u8],
) -> Result<Option<Vec<u8>>, WorktreeError> {
    let dir = std::env::temp_dir();
    let scratch =
        Scratch::new(&dir, [now, base, new]).map_err(|error| WorktreeError::io("write in", &dir, error))?;
    let words = ["merge-file", "-p", "-q", "--", "now", "base", "new"];
    let args: Vec<OsString> = words.iter().map(OsString::from).collect();
    let printed = git.run(&scratch.0, &args, &[]).await?;
    // Git exits with the number of conflicts, or with 255 for a binary file.
    Ok((printed.code == 0).then_some(printed.bytes))
}

/// Private directory with the three versions of a file to merge, removed on drop.
struct Scratch(PathBuf);

impl Scratch {
    fn new(above: &Path, sides: [&[u8]; 3]) -> std::io::Result<Self> {
        use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
        let dir = above.join(format!("zk-merge-{}-{:016x}", std::process::id(), fastrand::u64(..)));
        std::fs::DirBuilder::new().mode(0o700).create(&dir)?;
        let this = Self(dir);
        for (name, bytes) in ["now", "base", "new"].into_iter().zip(sides) {
            let mut options = std::fs::OpenOptions::new();
            let mut file = options.write(true).create_new(true).mode(0o600).open(this.0.join(name))?;
            file.write_all(bytes)?;
        }
        Ok(this)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Makes all changes, or none: after a failure, files that were changed get their old content back.
pub(crate) fn write_all(edits: &[Edit], root: &Path, files: &dyn Files) -> Result<(), String> {
    let tree = Tree::open(root).map_err(|error| format!("cannot open {}: {error}", root.display()))?;
    for edit in edits {
        if read(files, &edit.at, &tree, &edit.path)? != edit.now {
            return Err(format!(
                "`{}` changed since it was reviewed; nothing was applied: call again",
                edit.at.shown
            ));
        }
    }
    for (at, edit) in edits.iter().enumerate() {
        if let Err(why) = write_one(edit, edit.then.as_ref(), &tree, files) {
            for done in edits.iter().take(at + 1) {
                // Only the first failure is reported; a file that is not restored here is noticed when it is
                // read next.
                let _ = match &done.now {
                    Some(old) => {
                        let written = files.write(&done.at, &old.bytes).map_err(|error| error.to_string());
                        let restore = |_| tree.set_executable(&done.path, old.is_executable);
                        written.and_then(|done| restore(done).map_err(|error| error.to_string()))
                    }
                    None => tree.remove(&done.path).map_err(|error| error.to_string()),
                };
            }
            return Err(format!("nothing was applied: {why}"));
        }
    }
    Ok(())
}

fn write_one(edit: &Edit, then: Option<&Content>, tree: &Tree, files: &dyn Files) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("cannot change `{}`: {error}", edit.at.shown);
    match then {
        None => {
            // A write through `files` checks that the file may be changed, under all its guards.
            files
                .write(&edit.at, edit.now.as_ref().map(|now| &*now.bytes).unwrap_or_default())
                .map_err(|error| error.to_string())?;
            tree.remove(&edit.path).map_err(failed)
        }
        Some(content) => {
            files.write(&edit.at, &content.bytes).map_err(|error| error.to_string())?;
            tree.set_executable(&edit.path, content.is_executable).map_err(failed)
        }
    }
}
