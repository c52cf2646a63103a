use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use zk_core::service::{FileOwner, HostFiles, HostRead, Overflow};

pub(crate) use plugin::with_text;
pub use plugin::{InstructionsLoaded, InstructionsPlugin, limit};

mod plugin;
mod shell;
#[cfg(test)]
mod tests;

/// File names that are looked up in each directory; the first existing one is used.
const NAMES: [&str; 3] = ["AGENTS.md", "CLAUDE.md", "AGENT.md"];

/// Maximum number of bytes of all instruction files together.
pub const MAX_BYTES: usize = 32 * 1024;

/// Instruction files of a project for agents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Instructions {
    /// Files from the root downwards; later ones are closer to the work and take precedence.
    pub files: Vec<Instruction>,
    /// Files that were found but not read.
    pub skipped: Vec<Skipped>,
}

/// One instruction file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// Path of the file.
    pub path: PathBuf,
    /// Text of the file, trimmed.
    pub text: String,
    /// Whether its end was cut, because all files together exceed [`MAX_BYTES`].
    pub cut: bool,
}

/// Instruction file that was not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Path of the file.
    pub path: PathBuf,
    /// Reason why the file was not read.
    pub why: String,
}

/// Project of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Project {
    /// Root of the project.
    pub root: PathBuf,
    /// Repository around the directory that is ignored because another user owns it.
    pub foreign: Option<Skipped>,
}

/// Finds the project of `cwd`: its nearest parent, or itself, with a `.git`; without one, `cwd` itself.
///
/// The search ends at a `.git` of another user, which makes no project: otherwise any user with write access
/// to a parent directory could inject settings and instructions.
#[must_use]
pub fn project(cwd: &Path, files: &dyn HostFiles) -> Project {
    let alone = |foreign| Project { root: cwd.to_path_buf(), foreign };
    for dir in cwd.ancestors() {
        let git = dir.join(".git");
        match files.owner(&git) {
            Ok(FileOwner::Trusted) => return Project { root: dir.to_path_buf(), foreign: None },
            Ok(FileOwner::Other { uid }) => {
                let why = format!("it belongs to another user (uid {uid})");
                return alone(Some(Skipped { path: git, why }));
            }
            Err(_) => {}
        }
    }
    alone(None)
}

/// Instructions for work in `cwd`: one file for each directory from `root` down to `cwd`, `AGENTS.md` before
/// `CLAUDE.md`. Two names of one file count once, empty files are ignored, and links out of `root` are not
/// followed. If `cwd` is not below `root`, only `cwd` is searched. Files of other users are skipped.
#[must_use]
pub fn instructions(cwd: &Path, root: &Path, files: &dyn HostFiles) -> Instructions {
    let root = if cwd.starts_with(root) { root } else { cwd };
    let mut dirs: Vec<&Path> = cwd.ancestors().take_while(|dir| dir.starts_with(root)).collect();
    dirs.reverse();
    let mut found = Instructions::default();
    let Ok(fence) = root.canonicalize() else { return found };
    let mut seen = BTreeSet::new();
    let mut left = MAX_BYTES;
    for dir in dirs {
        let Some(path) = NAMES.iter().map(|name| dir.join(name)).find(|path| path.symlink_metadata().is_ok())
        else {
            continue;
        };
        let skip = |why: String| Skipped { path: path.clone(), why };
        let real = match path.canonicalize() {
            Ok(real) => real,
            Err(error) => {
                found.skipped.push(skip(error.to_string()));
                continue;
            }
        };
        if !real.starts_with(&fence) {
            found.skipped.push(skip(format!("it is a link that leads out of {}", fence.display())));
            continue;
        }
        if !seen.insert(real.clone()) {
            continue;
        }
        if left == 0 {
            found.skipped.push(skip(format!("the files before it fill the limit of {MAX_BYTES} bytes")));
            continue;
        }
        match read_limited(files, &real, &fence, left) {
            Ok((text, cut)) => {
                left -= text.len().min(left);
                let text = text.trim().to_owned();
                if !text.is_empty() {
                    found.files.push(Instruction { path, text, cut });
                }
            }
            Err(why) => found.skipped.push(skip(why)),
        }
    }
    found
}

/// Reads the person's own instructions in the file `path`; `None` if it is missing or empty.
fn read_own(path: &Path, files: &dyn HostFiles) -> Result<Option<Instruction>, String> {
    let how = HostRead { overflow: Overflow::Cut, ..HostRead::whole(MAX_BYTES).own_only() };
    match files.read(path, &how) {
        Ok(file) => {
            let text = String::from_utf8_lossy(&file.bytes).trim().to_owned();
            Ok((!text.is_empty()).then(|| Instruction { path: path.to_path_buf(), text, cut: file.cut }))
        }
        Err(error) if error.is_missing() => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

impl Instruction {
    /// Cuts the text to `limit` bytes.
    fn cut_to(&mut self, limit: usize) {
        if self.text.len() > limit {
            let end = (0..=limit).rev().find(|end| self.text.is_char_boundary(*end)).unwrap_or(0);
            self.text.truncate(end);
            self.cut = true;
        }
    }
}

impl Instructions {
    /// Limits all files to [`MAX_BYTES`] together: the first that exceeds the limit is cut, later ones are
    /// skipped.
    fn limit(&mut self) {
        let mut left = MAX_BYTES;
        let mut kept = Vec::new();
        for mut file in std::mem::take(&mut self.files) {
            if left == 0 {
                let why = format!("the files before it fill the limit of {MAX_BYTES} bytes");
                self.skipped.push(Skipped { path: file.path, why });
                continue;
            }
            file.cut_to(left);
            left -= file.text.len();
            kept.push(file);
        }
        self.files = kept;
    }
}

/// Files for work at `places` below `cwd`: one for each directory below `cwd` down to the directory of each
/// place, with canonical paths.
fn nearest_instructions(
    places: &[PathBuf],
    cwd: &Path,
    root: &Path,
    files: &dyn HostFiles,
) -> Vec<(PathBuf, Instruction)> {
    let mut dirs = BTreeSet::new();
    for place in places {
        let below = place.ancestors().take_while(|dir| dir.starts_with(cwd) && *dir != cwd);
        // A place may be a file, and a path with `..` may leave `cwd`.
        dirs.extend(
            below.filter(|dir| !dir.components().any(|part| part.as_os_str() == "..")).map(Path::to_path_buf),
        );
    }
    let fence = if cwd.starts_with(root) { root } else { cwd };
    let mut found = Vec::new();
    for dir in dirs {
        let Some(path) = NAMES.iter().map(|name| dir.join(name)).find(|path| path.is_file()) else {
            continue;
        };
        let Ok(real) = path.canonicalize() else { continue };
        if let Ok((text, cut)) = read_limited(files, &real, fence, MAX_BYTES) {
            let text = text.trim().to_owned();
            if !text.is_empty() {
                found.push((real, Instruction { path, text, cut }));
            }
        }
    }
    found
}

/// Reads up to `limit` bytes of a file below `fence`; also returns whether there are more.
fn read_limited(
    files: &dyn HostFiles,
    path: &Path,
    fence: &Path,
    limit: usize,
) -> Result<(String, bool), String> {
    let how = HostRead {
        max_bytes: limit,
        overflow: Overflow::Cut,
        own_only: true,
        beneath: Some(fence.to_path_buf()),
    };
    let mut file = files.read(path, &how).map_err(|error| error.to_string())?;
    if file.cut
        && let Err(error) = std::str::from_utf8(&file.bytes)
        && error.error_len().is_none()
    {
        // A character that the limit splits is dropped.
        file.bytes.truncate(error.valid_up_to());
    }
    Ok((String::from_utf8_lossy(&file.bytes).into_owned(), file.cut))
}
