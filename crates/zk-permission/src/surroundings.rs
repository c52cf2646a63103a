use std::path::{Component, Path, PathBuf};

/// What the judge has to know of the machine: where names and paths lead.
///
/// [`AssumedSurroundings`] goes by the text of a path alone. A host that runs what was judged gives an
/// implementation that follows links, so that a link inside of a workspace that leads out of it counts as outside.
pub trait Surroundings: Send + Sync {
    /// Where a plain program name leads.
    fn program(&self, name: &str) -> ProgramPlace;

    /// Where a path lies; `path` is absolute, its `.` and `..` are not resolved.
    fn path(&self, path: &Path) -> PathPlace;
}

/// Where a program name leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProgramPlace {
    /// To this file, which only the system's administrator or the person can change.
    Trusted(PathBuf),
    /// To this file, which a tool or somebody else could have put there.
    Writable(PathBuf),
    /// Nowhere.
    Missing,
}

/// Where a path lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathPlace {
    /// In the workspace.
    Inside,
    /// In the workspace, but what is written there is run or believed later: a person decides.
    Protected,
    /// It holds credentials.
    Secret,
    /// Anywhere else.
    Outside,
}

/// Surroundings by text: every program is where it should be, and a path is inside if it begins with a root.
#[derive(Clone, Debug, Default)]
pub struct AssumedSurroundings {
    roots: Vec<PathBuf>,
}

impl AssumedSurroundings {
    /// With these workspace roots, absolute.
    pub fn new<P: Into<PathBuf>>(roots: impl IntoIterator<Item = P>) -> Self {
        Self { roots: roots.into_iter().map(Into::into).collect() }
    }
}

impl Surroundings for AssumedSurroundings {
    fn program(&self, name: &str) -> ProgramPlace {
        ProgramPlace::Trusted(Path::new("/usr/bin").join(name))
    }

    fn path(&self, path: &Path) -> PathPlace {
        by_name(path, &self.roots)
    }
}

/// Where a path lies by its text alone.
#[must_use]
pub fn by_name(path: &Path, roots: &[PathBuf]) -> PathPlace {
    let path = normalise(path);
    if path.components().any(|part| has_name(part, &SECRET)) {
        return PathPlace::Secret;
    }
    let Some(inner) = roots.iter().find_map(|root| path.strip_prefix(root).ok()) else {
        return PathPlace::Outside;
    };
    let is_protected = inner.components().any(|part| has_name(part, &PROTECTED));
    if is_protected { PathPlace::Protected } else { PathPlace::Inside }
}

fn has_name(part: Component<'_>, names: &[&str]) -> bool {
    let Component::Normal(name) = part else { return false };
    name.to_str().is_none_or(|name| names.iter().any(|known| known.eq_ignore_ascii_case(name)))
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

/// Names that hold credentials, wherever they are.
const SECRET: [&str; 12] = [
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".netrc",
    "_netrc",
    ".git-credentials",
    ".pgpass",
    ".pypirc",
    ".vault-token",
    "shadow",
    "gshadow",
];

/// Names from which programs are started later.
const PROTECTED: [&str; 29] = [
    ".git",
    "git~1",
    ".gitconfig",
    ".gitmodules",
    ".zk",
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".bash_aliases",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".zlogout",
    ".kshrc",
    ".cshrc",
    ".tcshrc",
    ".login",
    ".xprofile",
    ".xinitrc",
    ".xsession",
    ".xsessionrc",
    ".pam_environment",
    ".envrc",
    ".husky",
    ".vscode",
    ".mcp.json",
];
