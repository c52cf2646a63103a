use std::collections::{BTreeMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::classifier::{PathClassifier, PathPlace, ProgramPlace, TreeWalk, by_name_at};

/// Maximum number of directory entries that are checked before a program may walk a tree.
const MAX_TREE_ENTRIES: usize = 50_000;

/// Directories in which every user can create files.
const SHARED: [&str; 4] = ["/tmp", "/var/tmp", "/dev/shm", "/run"];

/// Classifier for this machine: looks programs up in `PATH` and follows links.
///
/// A program is trusted if only the administrator or the person can change it, and it is not in the
/// workspace. A program of the person that hides a system program of the same name is not trusted, as it may
/// imitate it.
#[derive(Clone, Debug)]
pub struct HostPathClassifier {
    roots: Vec<PathBuf>,
    home: Option<PathBuf>,
    path: Vec<PathBuf>,
    /// Protected paths that the host adds inside the workspace.
    protected: Vec<PathBuf>,
    hidden: Vec<PathBuf>,
    /// Whether the read-only sandbox hides the project's own credentials.
    hides_private: Arc<AtomicBool>,
    private: PrivateFiles,
    variables: BTreeMap<String, String>,
    /// Git directories in or around the roots that existed at the start, whose configuration commands cannot
    /// write.
    repositories: Vec<PathBuf>,
    shared: &'static [&'static str],
    /// Directories that file tools may read without a question; `None` if they cannot read outside at all.
    read_unasked: Option<Vec<PathBuf>>,
}

/// Credentials files of the project that walks may pass because a sandbox hides them. Includes files that
/// appeared after the sandbox was set up.
#[derive(Clone, Debug, Default)]
pub struct PrivateFiles(Arc<Mutex<FoundFiles>>);

#[derive(Debug, Default)]
struct FoundFiles {
    known: HashSet<PathBuf>,
    new: Vec<PathBuf>,
}

impl PrivateFiles {
    fn record(&self, paths: Vec<PathBuf>) {
        if paths.is_empty() {
            return;
        }
        let mut found = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for path in paths {
            if found.known.insert(path.clone()) {
                found.new.push(path);
            }
        }
    }

    /// Takes the files (absolute physical paths) found since the last call.
    #[must_use]
    pub fn take_new_files(&self) -> Vec<PathBuf> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner).new)
    }
}

impl HostPathClassifier {
    /// Classifier for these workspace roots, home directory and `PATH` directories. A root that contains the
    /// home directory counts as empty, since it contains too much else.
    #[must_use]
    pub fn new(roots: &[PathBuf], home: Option<&Path>, path: &[PathBuf]) -> Self {
        let real = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let home = home.map(real);
        let is_narrow = |root: &PathBuf| {
            root.parent().is_some() && home.as_ref().is_none_or(|home| !home.starts_with(root))
        };
        let roots: Vec<PathBuf> = roots.iter().map(|root| real(root)).filter(is_narrow).collect();
        let has_repository = |dir: &&Path| fs::symlink_metadata(dir.join(".git")).is_ok();
        let around = roots.iter().filter_map(|root| root.ancestors().find(has_repository));
        let repositories = around.map(Path::to_owned).collect();
        Self {
            roots,
            home,
            path: path.to_vec(),
            protected: Vec::new(),
            hidden: Vec::new(),
            hides_private: Arc::default(),
            private: PrivateFiles::default(),
            variables: BTreeMap::new(),
            repositories,
            shared: &SHARED,
            read_unasked: None,
        }
    }

    /// Says that file tools can read outside of these directories, and that a person is asked about it.
    #[must_use]
    pub fn asking_reads_outside(self, directories: impl IntoIterator<Item = PathBuf>) -> Self {
        let directories = directories.into_iter().map(|path| resolve_links(&path).unwrap_or(path));
        Self { read_unasked: Some(directories.collect()), ..self }
    }

    /// Protects these files and directories from changes in spite of their place in the workspace.
    #[must_use]
    pub fn protecting(mut self, paths: impl IntoIterator<Item = PathBuf>) -> Self {
        self.protected.extend(paths.into_iter().map(|path| resolve_links(&path).unwrap_or(path)));
        self
    }

    /// Treats these files and directories as secrets.
    #[must_use]
    pub fn hiding(mut self, paths: impl IntoIterator<Item = PathBuf>) -> Self {
        self.hidden.extend(paths.into_iter().map(|path| resolve_links(&path).unwrap_or(path)));
        self
    }

    /// Declares that the read-only sandbox hides the project's own credentials, so that walks do not reach
    /// them.
    #[must_use]
    pub fn hiding_private(self) -> Self {
        Self { hides_private: Arc::new(AtomicBool::new(true)), ..self }
    }

    /// Records the credentials files of the project that walks find, for the sandbox that hides them.
    #[must_use]
    pub fn recording_private(self, private: PrivateFiles) -> Self {
        Self { private, ..self }
    }

    /// Adds the environment variables of commands, some of which name registries: `PIP_INDEX_URL`, `GOPROXY`.
    #[must_use]
    pub fn with_variables(mut self, variables: impl IntoIterator<Item = (String, String)>) -> Self {
        self.variables.extend(variables);
        self
    }

    /// Whether a directory belongs to the system alone.
    fn is_system(&self, dir: &Path) -> bool {
        let is_within = |place: &PathBuf| dir.starts_with(place);
        fs::metadata(dir).is_ok_and(|found| found.uid() == 0 && found.mode() & 0o022 == 0)
            && !self.home.as_ref().is_some_and(is_within)
            && !self.is_reachable(dir)
    }

    /// Whether tools can create files in this place.
    fn is_reachable(&self, path: &Path) -> bool {
        self.roots.iter().any(|root| path.starts_with(root))
            || self.shared.iter().any(|shared| path.starts_with(shared))
    }

    /// Whether only the administrator and the owner of the home directory can change a file.
    fn is_own(&self, file: &Path) -> bool {
        let owner = self.home.as_ref().and_then(|home| fs::metadata(home).ok()).map(|home| home.uid());
        let is_closed = |path: &Path| {
            fs::metadata(path).is_ok_and(|found| {
                (found.uid() == 0 || Some(found.uid()) == owner) && found.mode() & 0o022 == 0
            })
        };
        is_closed(file) && file.parent().is_some_and(is_closed) && !self.is_reachable(file)
    }
}

impl PathClassifier for HostPathClassifier {
    fn home(&self) -> Option<&Path> {
        self.home.as_deref()
    }

    fn asks_read(&self, path: &Path) -> bool {
        // Decided by name: the file service refuses a link in the workspace that leads outside.
        let path = super::normalise(path);
        self.read_unasked.as_ref().is_some_and(|known| !known.iter().any(|place| path.starts_with(place)))
            && (super::has_password_name(&path) || self.path(&path) == PathPlace::Outside)
    }

    fn protects_repository(&self, root: &Path) -> bool {
        fs::canonicalize(root).is_ok_and(|root| self.repositories.contains(&root))
    }

    fn variable(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str)
    }

    fn program(&self, name: &str) -> ProgramPlace {
        if name.is_empty() || name.contains('/') {
            return ProgramPlace::Missing;
        }
        let is_program = |dir: &&PathBuf| {
            fs::metadata(dir.join(name))
                .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
        };
        let mut places = self.path.iter().filter(is_program);
        let Some(dir) = places.next() else { return ProgramPlace::Missing };
        let named = dir.join(name);
        let (Ok(real), true) = (fs::canonicalize(&named), dir.is_absolute()) else {
            return ProgramPlace::Writable(named);
        };
        let hides_another = !self.is_system(dir) && places.any(|later| self.is_system(later));
        if hides_another || !self.is_own(&real) || !self.is_own_directory(dir) {
            return ProgramPlace::Writable(named);
        }
        ProgramPlace::Trusted(named)
    }

    fn path(&self, path: &Path) -> PathPlace {
        let Some(real) = resolve_links(path) else { return PathPlace::Outside };
        // Both names count: that of a link, and that of its target.
        let by_name = |path: &Path| by_name_at(path, &self.roots, self.home.as_deref());
        let is_in = |places: &[PathBuf]| places.iter().any(|place| real.starts_with(place));
        let of_target = by_name(&real);
        let of_name = if real == path { of_target } else { by_name(path) };
        match (of_target, of_name) {
            _ if is_in(&self.hidden) => PathPlace::Secret,
            (PathPlace::Secret, _) | (_, PathPlace::Secret) => PathPlace::Secret,
            (PathPlace::Outside, _) => PathPlace::Outside,
            (PathPlace::Private, _) | (_, PathPlace::Private) => PathPlace::Private,
            (PathPlace::Protected, _) | (_, PathPlace::Protected) => PathPlace::Protected,
            _ if is_in(&self.protected) => PathPlace::Protected,
            (PathPlace::Inside, PathPlace::Inside | PathPlace::Outside) => PathPlace::Inside,
        }
    }

    #[cfg(target_os = "linux")]
    fn is_cached(&self, path: &Path) -> bool {
        use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        openat2(CWD, path, flags, Mode::empty(), ResolveFlags::CACHED).is_ok()
    }

    fn hide_private(&self, is_hidden: bool) {
        self.hides_private.store(is_hidden, Ordering::Relaxed);
    }

    fn names_in(&self, directory: &Path) -> Option<Vec<OsString>> {
        let listed = match fs::read_dir(directory) {
            Ok(listed) => listed,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return Some(Vec::new());
            }
            Err(_) => return None,
        };
        let names: Vec<OsString> = listed
            .take(MAX_TREE_ENTRIES)
            .map(|entry| Some(entry.ok()?.file_name()))
            .collect::<Option<_>>()?;
        (names.len() < MAX_TREE_ENTRIES).then_some(names)
    }

    fn tree(&self, root: &Path, walk: TreeWalk) -> PathPlace {
        let is_readable = |place| matches!(place, PathPlace::Inside | PathPlace::Protected);
        let place = self.path(root);
        let Some(real) = resolve_links(root).filter(|_| is_readable(place)) else { return place };
        let mut seen = HashSet::from([real.clone()]);
        let mut open = vec![real];
        let (mut entries, mut private) = (0, Vec::new());
        while let Some(dir) = open.pop() {
            // A file, or a directory that the program cannot read either.
            let Ok(listed) = fs::read_dir(&dir) else { continue };
            for entry in listed {
                entries += 1;
                let Some((entry, kind)) =
                    entry.ok().and_then(|entry| entry.file_type().ok().map(|kind| (entry, kind)))
                else {
                    return PathPlace::Outside;
                };
                if entries > MAX_TREE_ENTRIES {
                    return PathPlace::Outside;
                }
                if walk.skips_hidden && entry.file_name().as_encoded_bytes().starts_with(b".") {
                    continue;
                }
                if walk.splits_names && !is_one_word(&entry.file_name()) {
                    return PathPlace::Outside;
                }
                let path = entry.path();
                let (path, place) = if !kind.is_symlink() {
                    let place = self.entry_place(&path);
                    (path, place)
                } else if walk.follows_links {
                    let place = self.path(&path);
                    (resolve_links(&path).unwrap_or(path), place)
                } else {
                    continue;
                };
                // A link's target also has another name, under which it is not hidden.
                let is_hidden = || !kind.is_symlink() || self.path(&path) == PathPlace::Private;
                if place == PathPlace::Private && self.hides_private.load(Ordering::Relaxed) && is_hidden() {
                    private.push(path);
                    continue;
                }
                let is_listed_name = !walk.reads_contents && !kind.is_dir() && !kind.is_symlink();
                if !is_listed_name && !is_readable(place) {
                    return place;
                }
                if !kind.is_file() && seen.insert(path.clone()) {
                    open.push(path);
                }
            }
        }
        self.private.record(private);
        place
    }
}

impl HostPathClassifier {
    /// Place of a walked entry that is no link.
    fn entry_place(&self, path: &Path) -> PathPlace {
        if self.hidden.iter().any(|place| path.starts_with(place)) {
            return PathPlace::Secret;
        }
        by_name_at(path, &self.roots, self.home.as_deref())
    }

    fn is_own_directory(&self, dir: &Path) -> bool {
        let Ok(real) = fs::canonicalize(dir) else { return false };
        // The directory's entry in its parent is not checked, since the parents belong to the system or the
        // person.
        self.is_own(&real.join("."))
    }
}

/// Whether a name is a single word of a text, and no flag.
fn is_one_word(name: &OsStr) -> bool {
    let is_plain = |found: char| found.is_alphanumeric() || "._-+=@%,:~#^&!$()[]{}".contains(found);
    name.to_str().is_some_and(|name| !name.starts_with(['-', '@']) && name.chars().all(is_plain))
}

/// Resolves all links of a path; for a missing path, the links of its existing part. `None` after a failure.
fn resolve_links(path: &Path) -> Option<PathBuf> {
    if !path.is_absolute() {
        return None;
    }
    if has_no_links(path) {
        return Some(super::normalise(path));
    }
    let mut existing = path.to_owned();
    let mut rest = Vec::new();
    loop {
        match fs::canonicalize(&existing) {
            Ok(real) => return Some(rest.iter().rev().fold(real, |real, name| real.join(name))),
            // A write through a dangling link would create the target, so the target counts.
            Err(error) if error.kind() == ErrorKind::NotFound && !existing.is_symlink() => {
                match existing.components().next_back()? {
                    Component::Normal(name) => rest.push(name.to_owned()),
                    Component::ParentDir | Component::CurDir | Component::RootDir | Component::Prefix(_) => {
                        return None;
                    }
                }
                existing.pop();
            }
            Err(_) => return None,
        }
    }
}

/// Whether a path exists without a link in it. `false` also if the system cannot say so without reading a disk.
#[cfg(target_os = "linux")]
fn has_no_links(path: &Path) -> bool {
    use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
    let resolve = ResolveFlags::CACHED | ResolveFlags::NO_SYMLINKS;
    openat2(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), resolve).is_ok()
}

#[cfg(not(target_os = "linux"))]
fn has_no_links(_path: &Path) -> bool {
    false
}

#[cfg(test)]
mod tests;
