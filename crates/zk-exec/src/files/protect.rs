use std::ffi::OsStr;
use std::fmt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use zk_core::service::{GuardedPath, PathGuard, RunBy};

use super::WorkspaceFiles;

/// Kind of access to a file, as a tool requests it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    /// Read of a file that a walk or search found, and no argument named.
    Found,
    Write,
}

const PROCESS: &str = "it shows the memory and the environment of processes";
const CREDENTIALS: &str = "it holds credentials; a person has to do this";
const HIDDEN: &str = "the settings hide it";
const ZK: &str = "it holds the settings of zk; a person has to change them";

/// Guard of the entry `name` of a directory anywhere in the file system; case is ignored.
#[cfg(any(feature = "docker", feature = "sandbox"))]
pub(crate) fn guard_of(dir: &Path, name: &OsStr) -> Option<PathGuard> {
    let name = &*name.to_str()?.to_ascii_lowercase();
    // Rules out most entries of a project cheaply.
    let mut alike = in_sandbox().chain(private()).filter(|guarded| guarded.path.ends_with(name));
    let is_meant = |guarded: &&GuardedPath| match guarded.path.rsplit_once('/') {
        Some((above, last)) => last == name && ends_with(dir, above),
        None => guarded.path == name,
    };
    alike.find(is_meant).map(|guarded| guarded.guard)
}

/// Whether the last components of a directory are these names; case is ignored.
#[cfg(any(feature = "docker", feature = "sandbox"))]
fn ends_with(dir: &Path, names: &str) -> bool {
    let mut of_dir = dir.iter().rev();
    names.rsplit('/').all(|name| of_dir.next().is_some_and(|own| own.eq_ignore_ascii_case(name)))
}

/// Whether a file of this name starts programs, in any directory.
pub(crate) fn is_start_file(name: &str) -> bool {
    in_sandbox()
        // Compares the suffix first, which rules out most file names.
        .any(|guarded| {
            guarded.path.ends_with(name) && guarded.is_file && guarded.path.rsplit('/').next() == Some(name)
        })
}

/// Guarded paths that commands in a sandbox or container can neither create nor change.
pub(crate) fn in_sandbox() -> impl Iterator<Item = &'static GuardedPath> {
    // `HEAD` is guarded together with the repositories around it.
    let is_guarded = |guarded: &&GuardedPath| {
        guarded.run_by != RunBy::ProjectTool && guarded.guard != PathGuard::Private && guarded.path != "head"
    };
    GuardedPath::ANYWHERE.iter().filter(is_guarded)
}

/// Credentials files that a project itself uses.
#[cfg(any(feature = "docker", feature = "sandbox"))]
pub(crate) fn private() -> impl Iterator<Item = &'static GuardedPath> {
    GuardedPath::ANYWHERE.iter().filter(|guarded| guarded.guard == PathGuard::Private)
}

/// Guarded paths below a home directory.
pub(crate) fn paths_at_home() -> impl Iterator<Item = &'static GuardedPath> {
    GuardedPath::ANYWHERE.iter().chain(&GuardedPath::AT_HOME)
}

/// Files that no tool reads or writes, regardless of permissions.
///
/// Git, a shell or zk itself would later run such files without approval, and credentials in them open other
/// systems. Paths are compared after all links were followed; case, and characters that some file systems
/// ignore, are left out.
#[derive(Clone, Debug, Default)]
pub(super) struct Protection {
    home: Option<Place>,
    /// Guarded places, each with its guard and the reason for it.
    places: Vec<(Place, PathGuard, &'static str)>,
    left_out: Option<LeftOut>,
}

/// Files and directories, by their absolute paths, that no walk and no search goes to.
#[derive(Clone)]
struct LeftOut(Arc<dyn Fn(&Path) -> bool + Send + Sync>);

impl fmt::Debug for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LeftOut")
    }
}

impl WorkspaceFiles {
    /// Leaves the files and directories of which `is_left_out` is true, by their absolute paths, out of walks and searches,
    /// unless these begin at one. They can be read by their own paths.
    #[must_use]
    pub fn leaving_out(mut self, is_left_out: impl Fn(&Path) -> bool + Send + Sync + 'static) -> Self {
        let before = self.protection.left_out.take();
        self.protection.left_out = Some(match before {
            Some(LeftOut(before)) => LeftOut(Arc::new(move |path| before(path) || is_left_out(path))),
            None => LeftOut(Arc::new(is_left_out)),
        });
        self
    }
}

/// Absolute guarded path with its normalised names.
#[derive(Clone, Debug)]
struct Place {
    path: PathBuf,
    names: Vec<String>,
}

impl Place {
    fn new(path: PathBuf) -> Self {
        Self { names: plain_names(&path), path }
    }
}

impl Protection {
    /// Whether walks and searches leave a path out.
    pub(super) fn leaves_out(&self, path: &Path) -> bool {
        self.left_out.as_ref().is_some_and(|LeftOut(is_left_out)| is_left_out(path))
    }

    pub(super) fn home(&mut self, home: &Path) {
        self.home = Some(Place::new(home.canonicalize().unwrap_or_else(|_| home.to_owned())));
    }

    /// Adds a file or directory of the host that is neither read nor written.
    pub(super) fn secret(&mut self, path: &Path) {
        self.places.push((Place::new(physical(path)), PathGuard::Secret, CREDENTIALS));
    }

    /// Adds a file or directory that a person hides from all tools.
    pub(super) fn hidden(&mut self, path: &Path) {
        self.places.push((Place::new(physical(path)), PathGuard::Secret, HIDDEN));
    }

    /// Adds a file or directory that is read and not written.
    pub(super) fn read_only(&mut self, path: &Path) {
        self.places.push((Place::new(physical(path)), PathGuard::ReadOnly, ZK));
    }

    /// Reason why this access to a path is refused; `None` if it is allowed.
    pub(super) fn refusal(&self, path: &Path, access: Access) -> Option<&'static str> {
        self.refusal_of(&plain_names(path), access)
    }

    fn refusal_of(&self, names: &[String], access: Access) -> Option<&'static str> {
        let applies = |guard: PathGuard| match guard {
            PathGuard::Secret => true,
            PathGuard::Private => access == Access::Found,
            PathGuard::ReadOnly => access == Access::Write,
            // The approval of the call covers this path.
            PathGuard::Asked => false,
        };
        if let [first, second, ..] = names
            && first == "proc"
            && (second.bytes().all(|byte| byte.is_ascii_digit())
                || second.ends_with("self")
                || second == "kcore")
        {
            return Some(PROCESS);
        }
        let in_table = |table: &[GuardedPath], is_meant: &dyn Fn(&GuardedPath) -> bool| {
            table
                .iter()
                .find(|guarded| applies(guarded.guard) && is_meant(guarded))
                .map(|guarded| guarded.why)
        };
        let host = self.places.iter().find(|(place, guard, _)| {
            applies(*guard) && !place.names.is_empty() && names.starts_with(&place.names)
        });
        let host = host.map(|(_, _, why)| *why);
        let of_system = in_table(&GuardedPath::OF_SYSTEM, &|guarded| guarded.begins(names));
        of_system
            .or(host)
            .or_else(|| {
                let mut anywhere = GuardedPath::anywhere_in(names).into_iter();
                anywhere.find(|guarded| applies(guarded.guard)).map(|guarded| guarded.why)
            })
            .or_else(|| {
                let below = names.strip_prefix(self.home.as_ref()?.names.as_slice())?;
                in_table(&GuardedPath::AT_HOME, &|guarded| guarded.begins(below))
            })
    }

    /// Existing credentials files, used to recognise them under other names.
    pub(super) fn secret_files(&self) -> Vec<PathBuf> {
        let is_secret = |guard: PathGuard| guard == PathGuard::Secret;
        let own = self.places.iter().filter(|(_, guard, _)| is_secret(*guard));
        let own = own.map(|(place, ..)| place.path.clone());
        let of_system = GuardedPath::OF_SYSTEM.iter().filter(|guarded| is_secret(guarded.guard));
        let mut places: Vec<PathBuf> =
            own.chain(of_system.map(|guarded| Path::new("/").join(guarded.path))).collect();
        if let Some(home) = &self.home {
            let secrets = paths_at_home().filter(|guarded| is_secret(guarded.guard));
            places.extend(secrets.map(|guarded| home.path.join(guarded.path)));
        }
        let inside = |place: &PathBuf| {
            let entries = place.read_dir().into_iter().flatten().take(256);
            entries.filter_map(|entry| Some(entry.ok()?.path())).collect::<Vec<_>>()
        };
        let below: Vec<PathBuf> = places.iter().flat_map(inside).collect();
        places.extend(below);
        places
    }
}

/// Checks many reads in turn, and reuses the normalised names of their common directory.
#[cfg(feature = "grep")]
pub(super) struct Reading<'a> {
    protection: &'a Protection,
    directory: PathBuf,
    /// Normalised names of the last directory.
    names: Vec<String>,
}

#[cfg(feature = "grep")]
impl<'a> Reading<'a> {
    pub(super) fn new(protection: &'a Protection) -> Self {
        Self { protection, directory: PathBuf::new(), names: Vec::new() }
    }

    pub(super) fn refusal(&mut self, path: &Path) -> Option<&'static str> {
        let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
            return self.protection.refusal(path, Access::Found);
        };
        if directory.as_os_str() != self.directory.as_os_str() {
            self.names = plain_names(directory);
            self.directory = directory.to_owned();
        }
        self.names.push(plain_name(name));
        let refusal = self.protection.refusal_of(&self.names, Access::Found);
        self.names.pop();
        refusal
    }
}

/// Normalises a path for comparisons: names in lower case, without characters that some file systems ignore.
fn plain_names(path: &Path) -> Vec<String> {
    path.components()
        .filter_map(|part| match part {
            Component::Normal(name) => Some(plain_name(name)),
            Component::Prefix(_) | Component::RootDir | Component::CurDir | Component::ParentDir => None,
        })
        .collect()
}

fn plain_name(name: &OsStr) -> String {
    let ignored = |char: &char| matches!(char, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}');
    let name = name.to_string_lossy();
    match name.is_ascii() {
        true => name.to_ascii_lowercase(),
        false => name.chars().filter(|char| !ignored(char)).flat_map(char::to_lowercase).collect(),
    }
}

/// Resolves the links of the existing part of a path.
pub(crate) fn physical(path: &Path) -> PathBuf {
    for above in path.ancestors() {
        if let (Ok(real), Ok(rest)) = (above.canonicalize(), path.strip_prefix(above)) {
            // A join with an empty rest would add a slash to the path of a file.
            return if rest.as_os_str().is_empty() { real } else { real.join(rest) };
        }
    }
    path.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(any(feature = "docker", feature = "sandbox"))]
    #[test]
    fn the_guard_of_an_entry_is_that_of_its_name_in_any_case() {
        for (dir, name) in [("/w", ".env"), ("/w/sub", ".ENV"), ("/w", ".Env.Local")] {
            assert_eq!(guard_of(Path::new(dir), OsStr::new(name)), Some(PathGuard::Private), "{dir}/{name}");
        }
        assert_eq!(guard_of(Path::new("/w"), OsStr::new("ENV")), None);
    }

    #[test]
    fn spellings_of_a_protected_name_are_protected_too() {
        let mut protection = Protection::default();
        protection.home(Path::new("/nobody/home"));
        for path in [
            "/w/.git/hooks/pre-commit",
            "/w/.GIT/config",
            "/w/deep/.git",
            "/w/.g\u{200c}it/hooks/x",
            "/w/GIT~1/config",
            "/w/.zk/settings.toml",
            "/w/.ZK/new",
            "/w/.bashrc",
            "/w/.Profile",
            "/nobody/home/.config/FISH/config.fish",
            "/etc/profile.d/x.sh",
        ] {
            assert!(protection.refusal(Path::new(path), Access::Write).is_some(), "{path}");
            assert!(protection.refusal(Path::new(path), Access::Read).is_none(), "{path}");
        }
        for path in [
            "/w/.ssh/id_rsa",
            "/w/.SSH/id_rsa",
            "/w/.aws/credentials",
            "/w/.netrc",
            "/nobody/home/.config/gh/hosts.yml",
            "/NOBODY/home/.npmrc",
            "/etc/shadow",
            "/proc/self/environ",
            "/proc/1/mem",
            "/proc/thread-self/environ",
        ] {
            assert!(protection.refusal(Path::new(path), Access::Read).is_some(), "{path}");
            assert!(protection.refusal(Path::new(path), Access::Write).is_some(), "{path}");
        }
        for path in ["/w/.env", "/w/sub/.ENV.local", "/w/keys/id_ed25519"] {
            for (access, is_refused) in [(Access::Read, false), (Access::Found, true), (Access::Write, false)]
            {
                assert_eq!(protection.refusal(Path::new(path), access).is_some(), is_refused, "{path}");
            }
        }
        for path in [
            "/w/src/main.rs",
            "/w/.env.example",
            "/w/.env/bin/python",
            "/w/.envrc",
            "/w/.claude/settings.json",
            "/w/.gitignore",
            "/w/.github/x.yml",
            "/w/.npmrc",
            "/w/ssh/x",
            "/proc/cpuinfo",
        ] {
            assert!(protection.refusal(Path::new(path), Access::Write).is_none(), "{path}");
        }
    }
}
