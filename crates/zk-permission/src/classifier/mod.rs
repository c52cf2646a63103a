mod host;

use std::ffi::{OsStr, OsString};
use std::path::{Component, Path, PathBuf};

use zk_core::service::{GuardedPath, PathGuard};

pub use host::{HostPathClassifier, PrivateFiles};

/// Facts about the machine that the judge needs: where program names and paths lead.
///
/// [`TextPathClassifier`] looks only at a path's text. A host that executes judged calls needs an
/// implementation that follows links, so that a link out of the workspace counts as outside.
pub trait PathClassifier: Send + Sync {
    /// Place of the program with a name that contains no slash.
    fn program(&self, name: &str) -> ProgramPlace;

    /// Place of an absolute path, whose `.` and `..` are not resolved yet.
    fn path(&self, path: &Path) -> PathPlace;

    /// Whether all components of an existing absolute path are in the kernel's cache, so that its place is
    /// known without waiting for a disk or a network. False by default.
    fn is_cached(&self, _path: &Path) -> bool {
        false
    }

    /// Worst place that a walk through a directory reaches. By default [`PathPlace::Outside`] if links are
    /// followed or names are split into words, otherwise the place of the directory.
    fn tree(&self, root: &Path, walk: TreeWalk) -> PathPlace {
        if walk.follows_links || walk.splits_names { PathPlace::Outside } else { self.path(root) }
    }

    /// Whether a file tool needs a person's approval to read this absolute path: one outside of the
    /// workspace, if such tools can read there. By default they cannot.
    fn asks_read(&self, _path: &Path) -> bool {
        false
    }

    /// Reports whether there is a read-only sandbox that hides the project's own credentials. The default
    /// ignores it.
    fn hide_private(&self, _is_hidden: bool) {}

    /// Names in a directory; `None` if unknown, which is the default.
    fn names_in(&self, _directory: &Path) -> Option<Vec<OsString>> {
        None
    }

    /// Home directory of the person, whose settings may name registries of package managers.
    fn home(&self) -> Option<&Path> {
        None
    }

    /// Whether commands cannot write the configuration of the repository in this directory.
    fn protects_repository(&self, _root: &Path) -> bool {
        false
    }

    /// Environment variable of commands that names a registry or another network address.
    fn variable(&self, _name: &str) -> Option<&str> {
        None
    }
}

/// Behaviour of a program that walks a directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeWalk {
    /// Whether it follows links.
    pub follows_links: bool,
    /// Whether it reads the files; otherwise it only lists their names.
    pub reads_contents: bool,
    /// Whether it skips names that begin with a dot.
    pub skips_hidden: bool,
    /// Whether the listed file names are passed on as words of a text, as to `xargs`. A name with blanks, or one like a
    /// flag, then counts as outside of the project.
    pub splits_names: bool,
}

/// Place of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProgramPlace {
    /// File that only the administrator or the person can change.
    Trusted(PathBuf),
    /// File that a tool or another user could have put there.
    Writable(PathBuf),
    /// The program does not exist.
    Missing,
}

/// Place of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathPlace {
    /// Inside the workspace.
    Inside,
    /// Inside the workspace, but files there are run or trusted later, so a person decides about writes.
    Protected,
    /// Place with credentials.
    Secret,
    /// Credentials file in the workspace that the project itself uses; a person decides about each use of its
    /// name.
    Private,
    /// Any other place.
    Outside,
}

/// Classifier by text alone: every program is trusted, a path is inside if it begins with a root, every name
/// is one word, and no pattern matches a file.
#[derive(Clone, Debug, Default)]
pub struct TextPathClassifier {
    roots: Vec<PathBuf>,
}

impl TextPathClassifier {
    /// Classifier for these absolute workspace roots.
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

/// Place of a path, by its text alone.
#[must_use]
pub fn by_name(path: &Path, roots: &[PathBuf]) -> PathPlace {
    by_name_at(path, roots, None)
}

/// Place of a path, by its text and a known home directory.
pub(crate) fn by_name_at(path: &Path, roots: &[PathBuf], home: Option<&Path>) -> PathPlace {
    let path = normalise(path);
    // A name that is not valid text could be any name.
    let Some(names) = folded_names(&path) else { return PathPlace::Secret };
    let below_home = home.and_then(|home| folded_names(path.strip_prefix(home).ok()?)).unwrap_or_default();
    let at_home: Vec<PathGuard> = GuardedPath::AT_HOME
        .iter()
        .filter(|guarded| guarded.begins(&below_home))
        .map(|guarded| guarded.guard)
        .collect();
    let guards_of = |names: &[String]| {
        let anywhere = GuardedPath::anywhere_in(names).into_iter().map(|guarded| guarded.guard);
        anywhere.chain(at_home.iter().copied()).collect::<Vec<_>>()
    };
    if guards_of(&names).contains(&PathGuard::Secret)
        || names.iter().any(|name| PASSWORDS.contains(&name.as_str()))
    {
        return PathPlace::Secret;
    }
    let Some(inner) = roots.iter().find_map(|root| path.strip_prefix(root).ok()) else {
        return PathPlace::Outside;
    };
    let guards = guards_of(&folded_names(inner).unwrap_or_default());
    if guards.contains(&PathGuard::Private) {
        PathPlace::Private
    } else if guards.iter().any(|guard| *guard != PathGuard::Secret) {
        PathPlace::Protected
    } else {
        PathPlace::Inside
    }
}

/// Whether a path has the name of a credentials file that projects use.
pub(crate) fn is_private_name(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    private_names().any(|private| private.eq_ignore_ascii_case(name))
}

/// Whether a part of a path is named as files with credentials often are. Files of code are not.
#[must_use]
pub fn sounds_like_credentials(path: &Path) -> bool {
    path.iter().any(|name| {
        let name = name.to_string_lossy().to_ascii_lowercase();
        let (stem, extension) = name.rsplit_once('.').unwrap_or((&name, ""));
        let is_example = |part: &str| ["example", "sample", "template", "dist"].contains(&part);
        is_private_name(Path::new(&name))
            || CREDENTIAL_NAMES.contains(&name.as_str())
            || (name.starts_with(".env.") && !is_example(extension))
            || KEY_EXTENSIONS.contains(&extension)
            || (DATA_EXTENSIONS.contains(&extension)
                && CREDENTIAL_WORDS.iter().any(|word| stem.contains(word)))
    })
}

/// Names of files that hold passwords, keys or tokens, in lower case.
const CREDENTIAL_NAMES: [&str; 12] = [
    ".dockercfg",
    ".htpasswd",
    ".npmrc",
    ".s3cfg",
    ".yarnrc.yml",
    "auth.json",
    "kubeconfig",
    "shadow",
    "terraform.tfstate",
    "token",
    "tokens",
    "wp-config.php",
];

/// Extensions of files with keys, in lower case.
const KEY_EXTENSIONS: [&str; 11] =
    ["jks", "kdbx", "key", "keystore", "ovpn", "p12", "p8", "pem", "pfx", "ppk", "tfvars"];

/// Extensions of data files, in lower case; the empty one is for names without an extension.
const DATA_EXTENSIONS: [&str; 16] = [
    "",
    "bak",
    "cfg",
    "conf",
    "csv",
    "db",
    "env",
    "ini",
    "json",
    "old",
    "properties",
    "sqlite",
    "toml",
    "txt",
    "yaml",
    "yml",
];

/// Words in the names of files with credentials, in lower case.
const CREDENTIAL_WORDS: [&str; 7] =
    ["credential", "passwd", "password", "private_key", "privatekey", "secret", "service-account"];

/// Names of credentials files that projects use, in lower case.
pub(crate) fn private_names() -> impl Iterator<Item = &'static str> {
    let private = GuardedPath::ANYWHERE.iter().filter(|guarded| guarded.guard == PathGuard::Private);
    private.map(|guarded| guarded.path)
}

/// Components of a path in lower case; `None` if one is no valid text.
fn folded_names(path: &Path) -> Option<Vec<String>> {
    let names = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name),
        Component::Prefix(_) | Component::RootDir | Component::CurDir | Component::ParentDir => None,
    });
    names.map(|name| Some(name.to_str()?.to_ascii_lowercase())).collect()
}

/// Removes `.` and `..` from an absolute path, by its text.
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

/// Password files of the system; copies of them need a question as well.
const PASSWORDS: [&str; 2] = ["shadow", "gshadow"];

/// Whether a part of a path is named like a file of passwords, which the file service refuses in `/etc` alone.
fn has_password_name(path: &Path) -> bool {
    let is_known = |part: &OsStr| PASSWORDS.iter().any(|known| part.eq_ignore_ascii_case(known));
    path.iter().any(is_known)
}
