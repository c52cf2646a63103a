mod host;

use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use zk_core::service::{GuardedPath, PathGuard};

pub use host::{HostPathClassifier, PrivateFiles};

/// Knowledge of the machine that the judge needs: where names and paths lead.
///
/// [`TextPathClassifier`] goes by the text of a path alone. A host that runs what was judged gives an
/// implementation that follows links, so that a link inside of a workspace that leads out of it counts as outside.
pub trait PathClassifier: Send + Sync {
    /// Returns the place that a plain program name leads to.
    fn program(&self, name: &str) -> ProgramPlace;

    /// Returns the place of a path; `path` is absolute, its `.` and `..` are not resolved.
    fn path(&self, path: &Path) -> PathPlace;

    /// Worst place of all that a walk through a directory comes to. By default nobody can tell where links
    /// lead that are followed, or of which words names are, and all else lies where the directory does.
    fn tree(&self, root: &Path, walk: TreeWalk) -> PathPlace {
        if walk.follows_links || walk.splits_names { PathPlace::Outside } else { self.path(root) }
    }

    /// Whether a file tool reads this path, absolute, only once a person allowed it: one that is outside of the workspace, where
    /// such tools can read there at all. By default they cannot, and nobody is asked.
    fn asks_read(&self, _path: &Path) -> bool {
        false
    }

    /// Says whether a sandbox of reads that hides the credentials of the project itself stands from now on. By default
    /// nothing depends on it.
    fn hide_private(&self, _is_hidden: bool) {}

    /// Names in a directory. Nothing where nobody can tell, which is the default.
    fn names_in(&self, _directory: &Path) -> Option<Vec<OsString>> {
        None
    }

    /// Home directory of the person, whose settings name registries of package managers.
    fn home(&self) -> Option<&Path> {
        None
    }

    /// Whether the repository in this directory is one whose configuration no command can have written.
    fn protects_repository(&self, _root: &Path) -> bool {
        false
    }

    /// Variable that commands see, where it names a place of the network.
    fn variable(&self, _name: &str) -> Option<&str> {
        None
    }
}

/// The way in which a program goes through a directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeWalk {
    /// Links in it are followed.
    pub follows_links: bool,
    /// Files in it are read; otherwise their names are listed.
    pub reads_contents: bool,
    /// Names that begin with a dot are left out.
    pub skips_hidden: bool,
    /// Names are taken for words of a text: one that is more than a word, or looks like a flag, leads out.
    pub splits_names: bool,
}

/// Place that a program name leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProgramPlace {
    /// To this file, which only the system's administrator or the person can change.
    Trusted(PathBuf),
    /// To this file, which a tool or somebody else could have put there.
    Writable(PathBuf),
    /// Nowhere.
    Missing,
}

/// Place of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathPlace {
    /// A place in the workspace.
    Inside,
    /// A place in the workspace, but what is written there is run or believed later: a person decides.
    Protected,
    /// Place that holds credentials.
    Secret,
    /// File in the workspace with credentials that the project itself uses: a person decides about each use of its name.
    Private,
    /// Anywhere else.
    Outside,
}

/// A classifier by text: every program is where it should be, a path is inside if it begins with a root, every name is a
/// word, and no pattern matches a file.
#[derive(Clone, Debug, Default)]
pub struct TextPathClassifier {
    roots: Vec<PathBuf>,
}

impl TextPathClassifier {
    /// Makes a classifier of these workspace roots, absolute.
    pub fn new<P: Into<PathBuf>>(roots: impl IntoIterator<Item = P>) -> Self {
        Self { roots: roots.into_iter().map(Into::into).collect() }
    }
}

impl PathClassifier for TextPathClassifier {
    fn program(&self, name: &str) -> ProgramPlace {
        ProgramPlace::Trusted(Path::new("/usr/bin").join(name))
    }

    fn path(&self, path: &Path) -> PathPlace {
        by_name(path, &self.roots)
    }

    fn tree(&self, root: &Path, walk: TreeWalk) -> PathPlace {
        if walk.follows_links { PathPlace::Outside } else { self.path(root) }
    }

    fn names_in(&self, _directory: &Path) -> Option<Vec<OsString>> {
        Some(Vec::new())
    }
}

/// Returns the place of a path by its text alone.
#[must_use]
pub fn by_name(path: &Path, roots: &[PathBuf]) -> PathPlace {
    by_name_at(path, roots, None)
}

/// Returns the place of a path by its text, where it is known whose home directory is where.
pub(crate) fn by_name_at(path: &Path, roots: &[PathBuf], home: Option<&Path>) -> PathPlace {
    let path = normalise(path);
    // A name that cannot be compared may be any.
    let Some(names) = names(&path) else { return PathPlace::Secret };
    let below_home = home.and_then(|home| self::names(path.strip_prefix(home).ok()?)).unwrap_or_default();
    let is_guarded = |guard: fn(PathGuard) -> bool, names: &[String]| {
        let anywhere = GuardedPath::ANYWHERE.iter().filter(|guarded| guarded.is_among(names));
        let at_home = GuardedPath::AT_HOME.iter().filter(|guarded| guarded.begins(&below_home));
        anywhere.chain(at_home).any(|guarded| guard(guarded.guard))
    };
    let is_secret = |guard| guard == PathGuard::Secret;
    if is_guarded(is_secret, &names) || names.iter().any(|name| PASSWORDS.contains(&name.as_str())) {
        return PathPlace::Secret;
    }
    let Some(inner) = roots.iter().find_map(|root| path.strip_prefix(root).ok()) else {
        return PathPlace::Outside;
    };
    let inner = self::names(inner).unwrap_or_default();
    if is_guarded(|guard| guard == PathGuard::Private, &inner) {
        PathPlace::Private
    } else if is_guarded(|guard| guard != PathGuard::Secret, &inner) {
        PathPlace::Protected
    } else {
        PathPlace::Inside
    }
}

/// Whether a path has the name of a file with credentials that a project itself uses.
pub(crate) fn is_private_name(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    private_names().any(|private| private.eq_ignore_ascii_case(name))
}

/// Names of files with credentials that projects themselves use, in lower case.
pub(crate) fn private_names() -> impl Iterator<Item = &'static str> {
    let private = GuardedPath::ANYWHERE.iter().filter(|guarded| guarded.guard == PathGuard::Private);
    private.map(|guarded| guarded.path)
}

/// The names of a path in lower case; nothing if one of them is no text.
fn names(path: &Path) -> Option<Vec<String>> {
    let names = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name),
        Component::Prefix(_) | Component::RootDir | Component::CurDir | Component::ParentDir => None,
    });
    names.map(|name| Some(name.to_str()?.to_ascii_lowercase())).collect()
}

/// Takes `.` and `..` out of an absolute path by its text.
pub(crate) fn normalise(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(out.pop()),
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => out.push(part),
        }
    }
    out
}

/// Files in which the system keeps passwords: the judge asks about a copy of them as well.
const PASSWORDS: [&str; 2] = ["shadow", "gshadow"];
