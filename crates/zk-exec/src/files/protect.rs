use std::path::{Component, Path, PathBuf};

/// What a tool wants of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
}

/// What is done with what a rule names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// Neither read nor written.
    Secret,
    /// Read, not written.
    ReadOnly,
}

const CREDENTIALS: &str = "it holds credentials; a person has to do this";
const GIT: &str = "programs are started from what is in it; use git commands";
const ZK: &str = "it holds the settings of zk; a person has to change them";
const START: &str = "programs are started from it; a person has to change it";
const SYSTEM: &str = "it belongs to the system; a person has to change it";
const PROCESS: &str = "it shows the memory and the environment of processes";

/// Directories with their content and files, wherever they are. Compared without regard to case.
const ANYWHERE: [(&str, Rule, &str); 34] = [
    (".ssh", Rule::Secret, CREDENTIALS),
    (".gnupg", Rule::Secret, CREDENTIALS),
    (".aws", Rule::Secret, CREDENTIALS),
    (".azure", Rule::Secret, CREDENTIALS),
    (".netrc", Rule::Secret, CREDENTIALS),
    ("_netrc", Rule::Secret, CREDENTIALS),
    (".git-credentials", Rule::Secret, CREDENTIALS),
    (".pgpass", Rule::Secret, CREDENTIALS),
    (".pypirc", Rule::Secret, CREDENTIALS),
    (".vault-token", Rule::Secret, CREDENTIALS),
    (".git", Rule::ReadOnly, GIT),
    ("git~1", Rule::ReadOnly, GIT),
    (".gitconfig", Rule::ReadOnly, GIT),
    (".zk", Rule::ReadOnly, ZK),
    (".bashrc", Rule::ReadOnly, START),
    (".bash_profile", Rule::ReadOnly, START),
    (".bash_login", Rule::ReadOnly, START),
    (".bash_logout", Rule::ReadOnly, START),
    (".bash_aliases", Rule::ReadOnly, START),
    (".profile", Rule::ReadOnly, START),
    (".zshrc", Rule::ReadOnly, START),
    (".zshenv", Rule::ReadOnly, START),
    (".zprofile", Rule::ReadOnly, START),
    (".zlogin", Rule::ReadOnly, START),
    (".zlogout", Rule::ReadOnly, START),
    (".kshrc", Rule::ReadOnly, START),
    (".cshrc", Rule::ReadOnly, START),
    (".tcshrc", Rule::ReadOnly, START),
    (".login", Rule::ReadOnly, START),
    (".xprofile", Rule::ReadOnly, START),
    (".xinitrc", Rule::ReadOnly, START),
    (".xsession", Rule::ReadOnly, START),
    (".xsessionrc", Rule::ReadOnly, START),
    (".pam_environment", Rule::ReadOnly, START),
];

/// As before, below the home directory only.
const AT_HOME: [(&str, Rule, &str); 37] = [
    (".config/gh", Rule::Secret, CREDENTIALS),
    (".config/glab-cli", Rule::Secret, CREDENTIALS),
    (".config/hub", Rule::Secret, CREDENTIALS),
    (".config/gcloud", Rule::Secret, CREDENTIALS),
    (".config/op", Rule::Secret, CREDENTIALS),
    (".config/google-chrome", Rule::Secret, CREDENTIALS),
    (".config/chromium", Rule::Secret, CREDENTIALS),
    (".mozilla", Rule::Secret, CREDENTIALS),
    (".thunderbird", Rule::Secret, CREDENTIALS),
    (".password-store", Rule::Secret, CREDENTIALS),
    (".local/share/keyrings", Rule::Secret, CREDENTIALS),
    (".docker/config.json", Rule::Secret, CREDENTIALS),
    (".kube", Rule::Secret, CREDENTIALS),
    (".npmrc", Rule::Secret, CREDENTIALS),
    (".my.cnf", Rule::Secret, CREDENTIALS),
    (".gem/credentials", Rule::Secret, CREDENTIALS),
    (".cargo/credentials", Rule::Secret, CREDENTIALS),
    (".cargo/credentials.toml", Rule::Secret, CREDENTIALS),
    (".terraform.d/credentials.tfrc.json", Rule::Secret, CREDENTIALS),
    (".claude/.credentials.json", Rule::Secret, CREDENTIALS),
    (".codex/auth.json", Rule::Secret, CREDENTIALS),
    (".gemini/oauth_creds.json", Rule::Secret, CREDENTIALS),
    (".cargo/config", Rule::ReadOnly, START),
    (".cargo/config.toml", Rule::ReadOnly, START),
    (".cargo/env", Rule::ReadOnly, START),
    (".config/git", Rule::ReadOnly, GIT),
    (".config/fish", Rule::ReadOnly, START),
    (".config/autostart", Rule::ReadOnly, START),
    (".config/systemd", Rule::ReadOnly, START),
    (".config/environment.d", Rule::ReadOnly, START),
    (".config/pip", Rule::ReadOnly, START),
    (".config/nvim", Rule::ReadOnly, START),
    (".vimrc", Rule::ReadOnly, START),
    (".emacs", Rule::ReadOnly, START),
    (".emacs.d", Rule::ReadOnly, START),
    (".local/bin", Rule::ReadOnly, START),
    ("library/launchagents", Rule::ReadOnly, START),
];

/// Absolute ones.
const SYSTEM_WIDE: [(&str, Rule, &str); 5] = [
    ("/etc/shadow", Rule::Secret, CREDENTIALS),
    ("/etc/gshadow", Rule::Secret, CREDENTIALS),
    ("/etc/sudoers", Rule::Secret, CREDENTIALS),
    ("/etc", Rule::ReadOnly, SYSTEM),
    ("/var/spool/cron", Rule::ReadOnly, SYSTEM),
];

/// What is done with a file or directory of this name, wherever it is.
#[cfg_attr(not(feature = "sandbox"), expect(dead_code, reason = "the sandbox asks for it"))]
pub(crate) fn rule_of_name(name: &str) -> Option<Rule> {
    ANYWHERE.iter().find(|(known, _, _)| *known == name).map(|(_, rule, _)| *rule)
}

/// Whether programs are started from a file of this name, wherever it is.
pub(crate) fn is_start_file(name: &str) -> bool {
    let is_file = |why: &str, known: &str| why == START || known == ".gitconfig";
    ANYWHERE.iter().any(|(known, _, why)| *known == name && is_file(why, known))
}

/// Names that have a rule wherever they are.
#[cfg_attr(not(feature = "sandbox"), expect(dead_code, reason = "the sandbox asks for it"))]
pub(crate) fn names_anywhere() -> impl Iterator<Item = (&'static str, Rule)> {
    ANYWHERE.iter().map(|(name, rule, _)| (*name, *rule))
}

/// Paths below a home directory that have a rule.
#[cfg_attr(not(feature = "sandbox"), expect(dead_code, reason = "the sandbox asks for it"))]
pub(crate) fn paths_at_home() -> impl Iterator<Item = (&'static str, Rule)> {
    ANYWHERE.iter().chain(&AT_HOME).map(|(name, rule, _)| (*name, *rule))
}

/// Absolute paths of the system that have a rule.
#[cfg_attr(not(feature = "sandbox"), expect(dead_code, reason = "the sandbox asks for it"))]
pub(crate) fn paths_of_system() -> impl Iterator<Item = (&'static str, Rule)> {
    SYSTEM_WIDE.iter().map(|(path, rule, _)| (*path, *rule))
}

/// The files that no tool reads or writes, whatever is allowed otherwise.
///
/// What is written there is run later by git, a shell or zk itself, outside of any approval; what is read there
/// opens other doors. Paths are compared after all links were followed, without regard to case and to characters
/// that some file systems ignore.
#[derive(Clone, Debug, Default)]
pub(super) struct Protection {
    home: Option<Place>,
    places: Vec<(Place, Rule)>,
}

/// A place of the host, with its names as they are compared.
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
    pub(super) fn home(&mut self, home: &Path) {
        self.home = Some(Place::new(home.canonicalize().unwrap_or_else(|_| home.to_owned())));
    }

    /// Also a file or directory of the host's that is neither read nor written.
    pub(super) fn secret(&mut self, path: &Path) {
        self.places.push((Place::new(physical(path)), Rule::Secret));
    }

    /// Also one that is not written.
    pub(super) fn read_only(&mut self, path: &Path) {
        self.places.push((Place::new(physical(path)), Rule::ReadOnly));
    }

    /// Why a path may not be used this way.
    pub(super) fn refusal(&self, path: &Path, access: Access) -> Option<&'static str> {
        let names = plain_names(path);
        let applies = |rule: Rule| rule == Rule::Secret || access == Access::Write;
        if let [first, second, ..] = names.as_slice()
            && first == "proc"
            && (second.bytes().all(|byte| byte.is_ascii_digit())
                || second.ends_with("self")
                || second == "kcore")
        {
            return Some(PROCESS);
        }
        let system = SYSTEM_WIDE.iter().find(|(place, rule, _)| applies(*rule) && is_below(&names, place));
        let host = self.places.iter().find(|(place, rule)| {
            applies(*rule) && !place.names.is_empty() && names.starts_with(&place.names)
        });
        let host = host.map(|(_, rule)| match rule {
            Rule::Secret => CREDENTIALS,
            Rule::ReadOnly => ZK,
        });
        let anywhere =
            ANYWHERE.iter().find(|(name, rule, _)| applies(*rule) && names.iter().any(|part| part == name));
        system.map(|(_, _, why)| *why).or(host).or(anywhere.map(|(_, _, why)| *why)).or_else(|| {
            let below = names.strip_prefix(self.home.as_ref()?.names.as_slice())?;
            let found = AT_HOME.iter().find(|(place, rule, _)| applies(*rule) && is_below(below, place));
            found.map(|(_, _, why)| *why)
        })
    }

    /// The files with credentials that are there now, to be found again under other names of theirs.
    pub(super) fn secret_files(&self) -> Vec<PathBuf> {
        let secret = |rule: Rule| rule == Rule::Secret;
        let mut places: Vec<PathBuf> = self
            .places
            .iter()
            .filter(|(_, rule)| secret(*rule))
            .map(|(place, _)| place.path.clone())
            .collect();
        places.extend(
            SYSTEM_WIDE.iter().filter(|(_, rule, _)| secret(*rule)).map(|(place, _, _)| place.into()),
        );
        if let Some(home) = &self.home {
            let names = ANYWHERE.iter().chain(&AT_HOME).filter(|(_, rule, _)| secret(*rule));
            places.extend(names.map(|(name, _, _)| home.path.join(name)));
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

/// A path as it is compared: its names in lower case, without characters that some file systems ignore.
fn plain_names(path: &Path) -> Vec<String> {
    let ignored = |char: &char| matches!(char, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}');
    path.components()
        .filter_map(|part| match part {
            Component::Normal(name) => Some(name.to_string_lossy()),
            Component::Prefix(_) | Component::RootDir | Component::CurDir | Component::ParentDir => None,
        })
        .map(|name| match name.is_ascii() {
            true => name.to_ascii_lowercase(),
            false => name.chars().filter(|char| !ignored(char)).flat_map(char::to_lowercase).collect(),
        })
        .collect()
}

/// Whether these names begin with those of a place in one of the tables, which are plain as they stand.
fn is_below(names: &[String], place: &str) -> bool {
    let mut names = names.iter();
    place.trim_start_matches('/').split('/').all(|part| names.next().is_some_and(|name| name == part))
}

/// A path whose existing part has no links.
fn physical(path: &Path) -> PathBuf {
    for above in path.ancestors() {
        if let (Ok(real), Ok(rest)) = (above.canonicalize(), path.strip_prefix(above)) {
            return real.join(rest);
        }
    }
    path.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

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
        for path in
            ["/w/src/main.rs", "/w/.gitignore", "/w/.github/x.yml", "/w/.npmrc", "/w/ssh/x", "/proc/cpuinfo"]
        {
            assert!(protection.refusal(Path::new(path), Access::Write).is_none(), "{path}");
        }
    }
}
