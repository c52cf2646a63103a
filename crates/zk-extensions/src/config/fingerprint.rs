use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use zk_core::service::{HostFileError, HostFiles, HostRead};

use super::definition::ExtensionConfig;
use super::digest::sha256_hex;

/// Maximum number of files in the directories of one extension.
const MAX_FILES: usize = 2_000;
/// Maximum total size of these files, in bytes.
const MAX_TOTAL_BYTES: usize = 64 << 20;

/// Digests of all files that the command of a project's extension is known to run: the program, the named
/// files, and all files in their directories.
///
/// Whoever approves an extension approves its definition with exactly this.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    program: PathBuf,
    /// Digests by path. A link has its target in place of a digest.
    files: BTreeMap<PathBuf, String>,
}

/// Arguments that are followed by code.
const INLINE: [&str; 7] = ["-c", "-lc", "-ic", "-e", "--eval", "-p", "--print"];

/// Variables with which a program loads files that its command does not name.
const LOADERS: [&str; 10] = [
    "BASH_ENV",
    "ENV",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "NODE_OPTIONS",
    "NODE_PATH",
    "PERL5LIB",
    "PYTHONPATH",
    "RUBYLIB",
    "RUBYOPT",
];

/// Command of a project's extension that cannot be approved.
#[derive(Debug, thiserror::Error)]
pub enum FingerprintError {
    /// The program is not there.
    #[error("its program `{0}` is not there: name a program in PATH, or a file of the project")]
    NoProgram(String),
    /// A file is in the project's root, next to all other files of the project.
    #[error(
        "{} is in the root of the project, all of which it could load: put the extension into a directory of its \
         own, such as .zk/extensions/NAME", .0.display()
    )]
    InRoot(PathBuf),
    /// A module would be found by a search that this check cannot follow.
    #[error("`-m` finds a module by a search: name its file")]
    Module,
    /// The command contains code, which may load anything.
    #[error("`{0}` runs code of the command line, which may load any file: name a script of the extension")]
    Inline(String),
    /// The command names no file of the project that could be approved.
    #[error(
        "its command names no file of the project, so there are no bytes to approve: name the script that it runs"
    )]
    NoFile,
    /// A variable makes the program load other files.
    #[error("the variable {0} makes its program load files that nobody approves: leave it out")]
    Loads(String),
    /// A link leads out of the directory of the extension.
    #[error("{} is a link that leads out of the extension's directory", .0.display())]
    Link(PathBuf),
    /// There are too many files, or too many bytes of them.
    #[error("{} has more than 2000 files or 64 MB: put the extension into a directory of its own", .0.display())]
    TooMuch(PathBuf),
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Unreadable {
        /// Path of the file.
        path: PathBuf,
        /// Cause.
        source: HostFileError,
    },
}

impl Fingerprint {
    /// Computes the fingerprint of an extension of `project`. Programs are searched in `search`, the value of
    /// `PATH`.
    ///
    /// # Errors
    /// [`FingerprintError`]; such an extension cannot be approved.
    pub fn of(
        extension: &ExtensionConfig,
        project: &Path,
        search: Option<&OsStr>,
        files: &dyn HostFiles,
    ) -> Result<Self, FingerprintError> {
        let project = project.canonicalize().unwrap_or_else(|_| project.to_owned());
        let mut taking = Taking { project: &project, files, found: BTreeMap::new(), bytes: 0 };
        let command = extension.command.first().map_or("", String::as_str);
        let program = find_program(command, &project, search)
            .ok_or_else(|| FingerprintError::NoProgram(command.to_owned()))?;
        if program.starts_with(&project) {
            taking.add_with_directory(&program)?;
        }
        for argument in extension.command.iter().skip(1) {
            if argument == "-m" {
                return Err(FingerprintError::Module);
            }
            if INLINE.contains(&argument.as_str()) {
                return Err(FingerprintError::Inline(argument.clone()));
            }
            let named = match argument.strip_prefix('-') {
                Some(option) => option.split_once('=').map(|(_, value)| value),
                None => Some(argument.as_str()),
            };
            let path = named.filter(|named| !named.is_empty() && !named.contains("://"));
            let Some(path) = path.and_then(|named| project.join(named).canonicalize().ok()) else { continue };
            if path.is_file() {
                taking.add_with_directory(&path)?;
            } else if path.is_dir() && path != project && path.starts_with(&project) {
                taking.add_directory(&path)?;
            }
        }
        if let Some(name) = extension.env.keys().find(|name| LOADERS.contains(&name.as_str())) {
            return Err(FingerprintError::Loads(name.clone()));
        }
        if taking.found.is_empty() {
            return Err(FingerprintError::NoFile);
        }
        Ok(Self { program, files: taking.found })
    }

    /// Bytes to approve: the definition and everything that it runs.
    #[must_use]
    pub fn approval(&self, definition: Vec<u8>) -> Vec<u8> {
        let mut bytes = definition;
        // JSON cannot contain this character, so the parts are unambiguous.
        bytes.extend_from_slice(format!("\0{}", self.program.display()).as_bytes());
        for (path, digest) in &self.files {
            bytes.extend_from_slice(format!("\0{}\0{digest}", path.display()).as_bytes());
        }
        bytes
    }

    /// The resolved program, and each file with the beginning of its digest, for display.
    pub fn lines(&self) -> impl Iterator<Item = (String, String)> {
        let program = ("program".to_owned(), self.program.display().to_string());
        let files = self.files.iter();
        let files =
            files.map(|(path, digest)| (path.display().to_string(), digest.chars().take(12).collect()));
        std::iter::once(program).chain(files)
    }

    /// Returns a path that differs from `then`, if any.
    #[must_use]
    pub fn changed_since<'a>(&'a self, then: &'a Self) -> Option<&'a Path> {
        if self.program != then.program {
            return Some(&self.program);
        }
        let all = self.files.keys().chain(then.files.keys());
        all.map(PathBuf::as_path).find(|path| self.files.get(*path) != then.files.get(*path))
    }
}

/// Resolved path of a program: a file of the project, or one in `PATH`.
fn find_program(command: &str, project: &Path, search: Option<&OsStr>) -> Option<PathBuf> {
    if command.contains('/') {
        return project.join(command).canonicalize().ok().filter(|path| path.is_file());
    }
    let dirs = std::env::split_paths(search?).filter(|dir| dir.is_absolute());
    dirs.map(|dir| dir.join(command)).find(|path| path.is_file())?.canonicalize().ok()
}

struct Taking<'a> {
    project: &'a Path,
    files: &'a dyn HostFiles,
    found: BTreeMap<PathBuf, String>,
    bytes: usize,
}

impl Taking<'_> {
    /// Adds a file; for a file of the project, also all files of its directory.
    fn add_with_directory(&mut self, file: &Path) -> Result<(), FingerprintError> {
        if !file.starts_with(self.project) {
            return self.add_file(file, file);
        }
        match file.parent() {
            Some(parent) if parent != self.project => self.add_directory(parent),
            Some(_) | None => Err(FingerprintError::InRoot(file.to_owned())),
        }
    }

    fn add_directory(&mut self, root: &Path) -> Result<(), FingerprintError> {
        let mut waiting = vec![root.to_owned()];
        while let Some(dir) = waiting.pop() {
            let unreadable = |source| FingerprintError::Unreadable {
                path: dir.clone(),
                source: HostFileError::Io(source),
            };
            for entry in fs::read_dir(&dir).map_err(unreadable)? {
                let path = entry.map_err(unreadable)?.path();
                let kind = fs::symlink_metadata(&path).map_err(unreadable)?.file_type();
                if kind.is_dir() {
                    waiting.push(path);
                } else if kind.is_symlink() {
                    self.add_link(&path, root)?;
                } else if kind.is_file() {
                    self.add_file(&path, root)?;
                }
                if self.found.len() + waiting.len() > MAX_FILES {
                    return Err(FingerprintError::TooMuch(root.to_owned()));
                }
            }
        }
        Ok(())
    }

    fn add_link(&mut self, path: &Path, root: &Path) -> Result<(), FingerprintError> {
        let target = path.canonicalize().map_err(|_| FingerprintError::Link(path.to_owned()))?;
        if !target.starts_with(root) {
            return Err(FingerprintError::Link(path.to_owned()));
        }
        self.found.insert(path.to_owned(), format!("-> {}", target.display()));
        Ok(())
    }

    fn add_file(&mut self, path: &Path, root: &Path) -> Result<(), FingerprintError> {
        if self.found.contains_key(path) {
            return Ok(());
        }
        let left = MAX_TOTAL_BYTES.saturating_sub(self.bytes);
        let file = self.files.read(path, &HostRead::whole(left)).map_err(|source| match source {
            HostFileError::TooLarge { .. } => FingerprintError::TooMuch(root.to_owned()),
            source => FingerprintError::Unreadable { path: path.to_owned(), source },
        })?;
        self.bytes += file.bytes.len();
        self.found.insert(path.to_owned(), sha256_hex(&file.bytes));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use zk_exec::LocalHostFiles;

    use super::*;

    fn project(files: &[&str]) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for file in files {
            fs::create_dir_all(root.join(file).parent().unwrap()).unwrap();
            fs::write(root.join(file), "1").unwrap();
        }
        (dir, root)
    }

    fn fingerprint_of(root: &Path, command: &[&str]) -> Result<Fingerprint, FingerprintError> {
        let extension = ExtensionConfig::new("x", command.iter().copied());
        Fingerprint::of(&extension, root, Some(OsStr::new("/usr/bin:/bin")), &LocalHostFiles::new())
    }

    fn paths_below(root: &Path, taken: &Fingerprint) -> Vec<String> {
        let name = |path: &PathBuf| path.strip_prefix(root).unwrap_or(path).display().to_string();
        taken.files.keys().map(name).collect()
    }

    #[test]
    fn the_program_the_named_file_and_everything_beside_it_are_approved() {
        let (_dir, root) = project(&["ext/main.py", "ext/lib/helper.py", "other/a.py"]);
        let taken = fingerprint_of(&root, &["sh", "-u", "ext/main.py", "--level=3"]).unwrap();
        assert_eq!(paths_below(&root, &taken), ["ext/lib/helper.py", "ext/main.py"]);
        assert!(taken.program.ends_with("sh") || taken.program.is_absolute(), "{:?}", taken.program);
        let own = fingerprint_of(&root, &["./ext/main.py"]).unwrap();
        assert_eq!(paths_below(&root, &own), ["ext/lib/helper.py", "ext/main.py"]);
        let option = fingerprint_of(&root, &["sh", "--config=other/a.py"]).unwrap();
        assert_eq!(paths_below(&root, &option), ["other/a.py"]);
    }

    #[test]
    fn a_file_that_comes_changes_or_goes_is_a_change() {
        let (_dir, root) = project(&["ext/main.py", "ext/helper.py"]);
        let now = || fingerprint_of(&root, &["sh", "ext/main.py"]).unwrap();
        let first = now();
        assert_eq!(first.changed_since(&now()), None);
        fs::write(root.join("ext/helper.py"), "2").unwrap();
        let second = now();
        assert_eq!(second.changed_since(&first), Some(&*root.join("ext/helper.py")));
        assert_ne!(first.approval(vec![]), second.approval(vec![]));
        fs::write(root.join("ext/new.py"), "2").unwrap();
        assert_eq!(now().changed_since(&second), Some(&*root.join("ext/new.py")));
        fs::remove_file(root.join("ext/helper.py")).unwrap();
        assert!(now().changed_since(&second).is_some());
    }

    #[test]
    fn nothing_is_approved_whose_bytes_are_not_known() {
        let (_dir, root) = project(&["main.py", "ext/main.py"]);
        std::os::unix::fs::symlink("/etc/passwd", root.join("ext/link")).unwrap();
        for (command, word) in [
            (&["no-such-program-x"][..], "not there"),
            (&["sh", "main.py"], "root of the project"),
            (&["sh", "-m", "main"], "search"),
            (&["sh", "ext/main.py"], "link that leads out"),
        ] {
            let error = fingerprint_of(&root, command).unwrap_err().to_string();
            assert!(error.contains(word), "{command:?}: {error}");
        }
    }
}
