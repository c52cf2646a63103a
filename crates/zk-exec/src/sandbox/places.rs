//! Physical paths to which a policy applies, found among the existing files.

use std::collections::{BTreeSet, VecDeque};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use zk_core::service::{GuardedPath, PathGuard};

use super::git;
use super::policy::SandboxPolicy;
use super::report::SandboxError;
use crate::files::protect::{self, physical};

/// Maximum number of directories below a writable directory that are searched for repositories and guarded
/// names.
const MAX_SEARCHED_DIRECTORIES: usize = 4000;
/// Large generated directories that are not searched.
const SKIPPED: [&str; 5] = ["node_modules", "target", ".venv", "__pycache__", ".git"];

/// Start files whose programs ask the person before they use a new or changed file.
const ASKED_BY_THEIR_PROGRAM: [&str; 3] = [".envrc", ".mcp.json", ".vscode"];

/// Guarded name that must stay unused. In the sandbox, the broker refuses to create it; for a container, an
/// empty file or directory is made at the name, so that a mount can protect it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Placeholder {
    Directory(PathBuf),
    /// Name for which every placeholder would change the behaviour of a program, so none is made.
    Name(PathBuf),
    /// File with this content.
    File(PathBuf, &'static str),
}

impl Placeholder {
    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Directory(path) | Self::Name(path) | Self::File(path, _) => path,
        }
    }
}

/// Physical paths of a policy, sorted by their access.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places {
    pub(crate) writable: Vec<PathBuf>,
    /// Paths that are readable and not writable, although a parent is hidden.
    pub(crate) readable: Vec<PathBuf>,
    pub(crate) pins: Vec<PathBuf>,
    pub(crate) read_only: Vec<PathBuf>,
    pub(crate) hidden: Vec<PathBuf>,
    /// Credentials that the project itself uses: hidden if the policy denies writes.
    pub(crate) private: Vec<PathBuf>,
    pub(crate) placeholders: Vec<Placeholder>,
    pub(crate) limits: Vec<String>,
}

impl Places {
    /// Computes the places of a policy. Paths that are mounted over others come in mount order.
    pub(crate) fn of(policy: &SandboxPolicy) -> Result<Self, SandboxError> {
        let home = policy.home.as_ref().and_then(|home| home.canonicalize().ok());
        let mut places = Places::default();
        for (at, path) in policy.writable.iter().enumerate() {
            let real = match path.canonicalize() {
                Ok(real) => real,
                Err(source) if at == 0 => return Err(SandboxError::Path { path: path.clone(), source }),
                Err(_) => continue,
            };
            if policy.denies_writes {
                places.readable.push(real);
                continue;
            }
            refuse_too_wide(&real, home.as_deref())?;
            places.writable.push(real);
        }
        match (&policy.project, policy.denies_writes) {
            (Some(project), true) => places.readable.extend(project.canonicalize()),
            (_, true) | (None, false) => {}
            (Some(_), false) => add_project(policy, home.as_deref(), &mut places),
        }
        let roots = outermost_first(places.writable.clone());
        for root in &roots {
            // The name would turn a directory inside a repository into a separate repository.
            let is_part = roots
                .iter()
                .any(|above| root != above && root.starts_with(above) && git::is_repository(above));
            git::protect_tree(root, !is_part, &mut places);
            for guarded in protect::in_sandbox().filter(|guarded| guarded.path != ".git") {
                protect_name(root, guarded, &mut places);
            }
            find_guarded(root, &roots, MAX_SEARCHED_DIRECTORIES, &mut places);
        }
        if policy.denies_writes {
            hide_in_readable(&mut places);
        }
        if let Some(home) = &home {
            protect_below_home(home, &mut places);
        }
        places.read_only.extend(policy.protected.iter().map(|path| physical(path)));
        hide(policy, home.as_deref(), &mut places);
        places.hidden.sort();
        places.hidden.dedup();
        let hidden = &places.hidden;
        if let Some(path) = places.writable.iter().find(|root| hidden.iter().any(|dir| root.starts_with(dir)))
        {
            let why = "it lies in a directory that is hidden from commands";
            return Err(SandboxError::TooWide { path: path.clone(), why });
        }
        places.pins = outermost_first(with_ancestors(&places));
        places.read_only = outermost_first(std::mem::take(&mut places.read_only));
        Ok(places)
    }
}

/// Adds the repository around the workspace to the writable paths.
fn add_project(policy: &SandboxPolicy, home: Option<&Path>, places: &mut Places) {
    use std::os::unix::fs::PermissionsExt;
    let Some(root) = policy.project.as_ref().and_then(|root| root.canonicalize().ok()) else { return };
    let is_around =
        places.writable.first().is_some_and(|workspace| workspace != &root && workspace.starts_with(&root));
    if !is_around || !git::is_repository(&root) {
        return;
    }
    let is_shared = fs::metadata(&root).is_ok_and(|found| found.permissions().mode() & 0o002 != 0);
    let why = match refuse_too_wide(&root, home) {
        Err(SandboxError::TooWide { why, .. }) => why,
        Ok(()) if is_shared => "everybody can write to it",
        Ok(()) | Err(_) => return places.writable.push(root),
    };
    places.limits.push(format!("the repository {} is read-only: {why}", root.display()));
}

/// Root of the workspace or of the repository around it, if the host's state directory lies there.
pub(super) fn around_state(policy: &SandboxPolicy, writable: &[PathBuf]) -> Option<PathBuf> {
    // The self-test plants files next to the state directory.
    let beside = physical(policy.state.as_deref()?.parent()?);
    let of_workspace = policy.writable.iter().take(1).chain(&policy.project).map(|path| physical(path));
    of_workspace.filter(|root| writable.contains(root)).find(|root| beside.starts_with(root))
}

/// Refuses a writable directory that would include start files or credentials of the person or the system.
fn refuse_too_wide(path: &Path, home: Option<&Path>) -> Result<(), SandboxError> {
    let why = if path == Path::new("/") {
        "it is the root of all files"
    } else if home.is_some_and(|home| home.starts_with(path)) {
        "it contains the home directory, with the start files of shells"
    } else if ["/etc", "/usr", "/bin", "/dev", "/proc", "/sys", "/run"]
        .iter()
        .any(|dir| path.starts_with(dir))
    {
        "it belongs to the system"
    } else {
        return Ok(());
    };
    Err(SandboxError::TooWide { path: path.to_owned(), why })
}

fn add(places: &mut Places, path: PathBuf, guard: PathGuard) {
    match guard {
        PathGuard::Secret => places.hidden.push(path),
        PathGuard::Private => places.private.push(path),
        PathGuard::ReadOnly | PathGuard::Asked => places.read_only.push(path),
    }
}

/// Protects a guarded name in a writable directory, whether or not it exists.
fn protect_name(root: &Path, guarded: &GuardedPath, places: &mut Places) {
    let path = root.join(guarded.path);
    let is_free = |dir: &Path| fs::symlink_metadata(dir).is_err() || is_empty(dir);
    let above = path.parent().filter(|above| *above != root && is_free(above));
    if let Some(above) = above.map(Path::to_owned) {
        // A missing parent directory is protected instead.
        if !places.read_only.contains(&above) {
            places.placeholders.push(Placeholder::Directory(above.clone()));
            places.read_only.push(above);
        }
        return;
    }
    let is_run_unasked = !ASKED_BY_THEIR_PROGRAM.contains(&guarded.path);
    let is_started_from = guarded.is_file || guarded.guard == PathGuard::Asked || guarded.path == ".zk";
    if is_run_unasked && is_started_from {
        // A directory also in place of a file, since git does not list empty directories and no shell reads
        // them.
        places.placeholders.push(Placeholder::Directory(path.clone()));
    }
    if path.is_symlink() {
        places.limits.push(format!("{} is a link, which can be replaced", path.display()));
    }
    add(places, path, guarded.guard);
}

/// Protects start files below the home directory where a writable directory contains them.
fn protect_below_home(home: &Path, places: &mut Places) {
    for guarded in protect::paths_at_home().filter(|guarded| guarded.guard == PathGuard::ReadOnly) {
        let path = home.join(guarded.path);
        if !places.writable.iter().any(|root| path.starts_with(root) && path != *root) {
            continue;
        }
        match guarded.path {
            // Programs outside read these as files, and would fail on a directory.
            ".cargo/config.toml" | ".cargo/env" => {
                places.placeholders.push(Placeholder::File(path.clone(), ""));
            }
            // Cargo prefers this file to `config.toml`, even if it is empty.
            ".cargo/config" => places.placeholders.push(Placeholder::Name(path.clone())),
            _ => places.placeholders.push(Placeholder::Directory(path.clone())),
        }
        add(places, path, guarded.guard);
    }
}

/// Hides credentials in read-only directories, where no other name needs a guard.
fn hide_in_readable(places: &mut Places) {
    let roots = outermost_first(places.readable.clone());
    let mut found = Places::default();
    for root in &roots {
        let secrets = protect::in_sandbox().filter(|guarded| guarded.guard == PathGuard::Secret);
        let secrets = secrets.chain(protect::private());
        found.hidden.extend(secrets.map(|guarded| root.join(guarded.path)));
        find_guarded(root, &roots, MAX_SEARCHED_DIRECTORIES, &mut found);
    }
    places.hidden.append(&mut found.hidden);
    places.hidden.append(&mut found.private);
    places.limits.append(&mut found.limits);
}

fn hide(policy: &SandboxPolicy, home: Option<&Path>, places: &mut Places) {
    let is_secret = |guarded: &&GuardedPath| guarded.guard == PathGuard::Secret;
    if let Some(home) = home {
        places
            .hidden
            .extend(protect::paths_at_home().filter(is_secret).map(|guarded| home.join(guarded.path)));
    }
    let of_system = GuardedPath::OF_SYSTEM.iter().filter(is_secret);
    places.hidden.extend(of_system.map(|guarded| Path::new("/").join(guarded.path)));
    places.hidden.extend(policy.hidden.iter().map(|path| physical(path)));
}

/// Whether a directory is empty, as a placeholder is.
pub(super) fn is_empty(dir: &Path) -> bool {
    fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_none())
}

/// Finds repositories and guarded names below a root, the nearest first. Other `roots` below it are skipped.
fn find_guarded(root: &Path, roots: &[PathBuf], most: usize, places: &mut Places) {
    let mut left = most;
    let (mut todo, mut is_cut) = (VecDeque::from([root.to_owned()]), false);
    while let Some(dir) = todo.pop_front() {
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let is_below_root = dir != root;
            if name == OsStr::new(".git") && is_below_root {
                git::protect_tree(&dir, false, places);
            } else if let Some(guard) = protect::guard_of(&dir, &name)
                && (is_below_root || is_in_other_case(&name))
            {
                add(places, entry.path(), guard);
            }
            let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if !is_dir || SKIPPED.iter().any(|skipped| name == *skipped) || roots.contains(&entry.path()) {
                continue;
            }
            match left.checked_sub(1) {
                Some(less) => {
                    left = less;
                    todo.push_back(entry.path());
                }
                None => is_cut = true,
            }
        }
    }
    if is_cut {
        let root = root.display();
        places.limits.push(format!(
            "repositories and start files deep inside {root} are not guarded: it has more than {most} \
             directories"
        ));
    }
}

/// Whether a name is no guarded name in exactly this case; for exact names the root's own rules hold.
fn is_in_other_case(name: &OsStr) -> bool {
    name.as_encoded_bytes().iter().any(u8::is_ascii_uppercase)
}

/// All pins, and every directory between a writable root and a protected path in it.
fn with_ancestors(places: &Places) -> Vec<PathBuf> {
    let mut pins: BTreeSet<PathBuf> = places.pins.iter().cloned().collect();
    let protected = places.pins.iter().chain(&places.read_only).chain(&places.hidden);
    for path in protected {
        // The outermost root counts: directories between it and an inner root could be moved together with
        // the inner root.
        let around = places.writable.iter().filter(|root| path.starts_with(root));
        let Some(root) = around.min_by_key(|root| root.components().count()) else { continue };
        let above = path.ancestors().skip(1).take_while(|above| above.starts_with(root) && above != root);
        pins.extend(above.map(Path::to_owned));
    }
    pins.into_iter().collect()
}

pub(super) fn outermost_first(mut paths: Vec<PathBuf>) -> Vec<PathBuf> {
    paths.sort_by_key(|path| (path.components().count(), path.clone()));
    paths.dedup();
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find_places(root: &Path) -> Places {
        let mut places = Places::default();
        find_guarded(root, &[], 20, &mut places);
        places
    }

    #[test]
    fn private_files_are_found_in_any_case() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("sub")).unwrap();
        for name in [".ENV", "sub/.Env"] {
            fs::write(dir.path().join(name), "").unwrap();
        }
        assert_eq!(find_places(dir.path()).private, [dir.path().join(".ENV"), dir.path().join("sub/.Env")]);
    }

    #[test]
    fn the_path_of_a_hidden_file_stays_that_of_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().canonicalize().unwrap().join("notes");
        fs::write(&file, "x").unwrap();
        // Comparing `Path` values would ignore a trailing slash.
        assert_eq!(physical(&file).as_os_str(), file.as_os_str());
    }

    #[test]
    fn repositories_are_found_however_deep_and_what_is_too_large_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let deep = dir.path().join("a/b/c/d/e/f/g/h/i");
        fs::create_dir_all(deep.join(".git/objects")).unwrap();
        fs::write(deep.join(".git/HEAD"), "ref: refs/heads/main").unwrap();
        let places = find_places(dir.path());
        assert!(places.read_only.contains(&deep.join(".git/config")), "{places:?}");
        assert_eq!(places.limits, [""; 0]);
        for number in 0..20 {
            fs::create_dir(dir.path().join(format!("z{number}"))).unwrap();
        }
        let limits = find_places(dir.path()).limits;
        assert!(matches!(&*limits, [only] if only.contains("are not guarded")), "{limits:?}");
    }
}
