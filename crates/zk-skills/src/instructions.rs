use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

#[cfg(test)]
mod tests;

/// The names looked for in each directory, in this order; the first one that is there counts.
const NAMES: [&str; 3] = ["AGENTS.md", "CLAUDE.md", "AGENT.md"];

/// How much is read of all instruction files together, in bytes.
pub const MAX_BYTES: usize = 32 * 1024;

/// What a project tells agents that work in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Instructions {
    /// The files, from the root down: later ones are nearer to the work and win.
    pub files: Vec<Instruction>,
    /// What was found and not read.
    pub skipped: Vec<Skipped>,
}

/// One instruction file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// Where it is.
    pub path: PathBuf,
    /// What it says, trimmed.
    pub text: String,
    /// Whether its end is missing, because all files together exceed [`MAX_BYTES`].
    pub cut: bool,
}

/// An instruction file that was not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Where it is.
    pub path: PathBuf,
    /// Why.
    pub why: String,
}

/// The nearest directory at or above `cwd` that is the root of a git work tree; `cwd` itself without one.
#[must_use]
pub fn project_root(cwd: &Path) -> PathBuf {
    cwd.ancestors().find(|dir| dir.join(".git").exists()).unwrap_or(cwd).to_path_buf()
}

/// The instructions for work in `cwd`: one file for each directory from `root` down to `cwd`, `AGENTS.md`
/// before `CLAUDE.md`. Two names for one file count once, empty files do not count, and links that lead out
/// of `root` are not followed. If `cwd` is not below `root`, only `cwd` counts.
///
/// ```
/// let dir = std::env::temp_dir();
/// let root = zk_skills::project_root(&dir);
/// for file in zk_skills::instructions(&dir, &root).files {
///     println!("{}: {} bytes", file.path.display(), file.text.len());
/// }
/// ```
#[must_use]
pub fn instructions(cwd: &Path, root: &Path) -> Instructions {
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
        match read(&real, left) {
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

/// At most `limit` bytes of a regular file, and whether there is more.
fn read(path: &Path, limit: usize) -> Result<(String, bool), String> {
    let stat = path.metadata().map_err(|error| error.to_string())?;
    // Opening a pipe would wait for a writer.
    if !stat.is_file() {
        return Err("it is not a regular file".to_owned());
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|error| error.to_string())?;
    file.take(limit as u64 + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    let cut = bytes.len() > limit;
    bytes.truncate(limit);
    if cut && let Err(error) = std::str::from_utf8(&bytes) {
        // A character that the limit splits is left out as a whole.
        if error.error_len().is_none() {
            bytes.truncate(error.valid_up_to());
        }
    }
    Ok((String::from_utf8_lossy(&bytes).into_owned(), cut))
}
