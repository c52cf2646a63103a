/// How a path is guarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PathGuard {
    /// It holds credentials: no tool reads or writes it.
    Secret,
    /// No tool writes it.
    ReadOnly,
    /// A tool writes it once a person agreed; a command in a sandbox, which nobody is asked about, does not.
    Asked,
}

/// A path of which a later program reads what to run or whom to trust, outside of any approval.
///
/// One table for all who guard paths: the file tools, the sandbox and containers, and the judge of permissions.
///
/// ```
/// use zk_core::service::{GuardedPath, PathGuard};
///
/// let hooks = GuardedPath::ANYWHERE.iter().find(|guarded| guarded.path == ".husky");
/// assert_eq!(hooks.map(|guarded| guarded.guard), Some(PathGuard::Asked));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuardedPath {
    /// Names, with `/` between them: in lower case, since they are compared without regard to case.
    pub path: &'static str,
    /// How it is guarded.
    pub guard: PathGuard,
    /// Why, as the end of a message.
    pub why: &'static str,
    /// Whether programs look for a file there, not for a directory.
    pub is_file: bool,
}

const CREDENTIALS: &str = "it holds credentials; a person has to do this";
const GIT: &str = "programs are started from what is in it; use git commands";
const ZK: &str = "it holds the settings of zk; a person has to change them";
const START: &str = "programs are started from it; a person has to change it";
const SYSTEM: &str = "it belongs to the system; a person has to change it";

const fn secret(path: &'static str) -> GuardedPath {
    GuardedPath { path, guard: PathGuard::Secret, why: CREDENTIALS, is_file: false }
}

const fn read_only(path: &'static str, why: &'static str) -> GuardedPath {
    GuardedPath { path, guard: PathGuard::ReadOnly, why, is_file: false }
}

const fn start_file(path: &'static str) -> GuardedPath {
    GuardedPath { path, guard: PathGuard::ReadOnly, why: START, is_file: true }
}

const fn asked(path: &'static str, is_file: bool) -> GuardedPath {
    GuardedPath { path, guard: PathGuard::Asked, why: START, is_file }
}

impl GuardedPath {
    /// Files, and directories with their content, wherever they are.
    pub const ANYWHERE: [Self; 41] = [
        secret(".ssh"),
        secret(".gnupg"),
        secret(".aws"),
        secret(".azure"),
        secret(".netrc"),
        secret("_netrc"),
        secret(".git-credentials"),
        secret(".pgpass"),
        secret(".pypirc"),
        secret(".vault-token"),
        read_only(".git", GIT),
        read_only("git~1", GIT),
        Self { is_file: true, ..read_only(".gitconfig", GIT) },
        asked(".gitmodules", true),
        read_only(".zk", ZK),
        start_file(".bashrc"),
        start_file(".bash_profile"),
        start_file(".bash_login"),
        start_file(".bash_logout"),
        start_file(".bash_aliases"),
        start_file(".profile"),
        start_file(".zshrc"),
        start_file(".zshenv"),
        start_file(".zprofile"),
        start_file(".zlogin"),
        start_file(".zlogout"),
        start_file(".kshrc"),
        start_file(".cshrc"),
        start_file(".tcshrc"),
        start_file(".login"),
        start_file(".xprofile"),
        start_file(".xinitrc"),
        start_file(".xsession"),
        start_file(".xsessionrc"),
        start_file(".pam_environment"),
        asked(".envrc", true),
        asked(".mcp.json", true),
        asked(".husky", false),
        asked(".vscode", false),
        asked(".claude/settings.json", true),
        asked(".claude/settings.local.json", true),
    ];

    /// As before, below a home directory only.
    pub const AT_HOME: [Self; 37] = [
        secret(".config/gh"),
        secret(".config/glab-cli"),
        secret(".config/hub"),
        secret(".config/gcloud"),
        secret(".config/op"),
        secret(".config/google-chrome"),
        secret(".config/chromium"),
        secret(".mozilla"),
        secret(".thunderbird"),
        secret(".password-store"),
        secret(".local/share/keyrings"),
        secret(".docker/config.json"),
        secret(".kube"),
        secret(".npmrc"),
        secret(".my.cnf"),
        secret(".gem/credentials"),
        secret(".cargo/credentials"),
        secret(".cargo/credentials.toml"),
        secret(".terraform.d/credentials.tfrc.json"),
        secret(".claude/.credentials.json"),
        secret(".codex/auth.json"),
        secret(".gemini/oauth_creds.json"),
        start_file(".cargo/config"),
        start_file(".cargo/config.toml"),
        start_file(".cargo/env"),
        read_only(".config/git", GIT),
        read_only(".config/fish", START),
        read_only(".config/autostart", START),
        read_only(".config/systemd", START),
        read_only(".config/environment.d", START),
        read_only(".config/pip", START),
        read_only(".config/nvim", START),
        start_file(".vimrc"),
        start_file(".emacs"),
        read_only(".emacs.d", START),
        read_only(".local/bin", START),
        read_only("library/launchagents", START),
    ];

    /// Below the root of all files.
    pub const OF_SYSTEM: [Self; 5] = [
        secret("etc/shadow"),
        secret("etc/gshadow"),
        secret("etc/sudoers"),
        read_only("etc", SYSTEM),
        read_only("var/spool/cron", SYSTEM),
    ];

    /// Whether these names, in lower case, are this path or below it.
    pub fn begins<N: AsRef<str>>(&self, names: &[N]) -> bool {
        let mut names = names.iter();
        self.path.split('/').all(|part| names.next().is_some_and(|name| name.as_ref() == part))
    }

    /// Whether this path, or something below it, is anywhere among these names, in lower case.
    pub fn is_among<N: AsRef<str>>(&self, names: &[N]) -> bool {
        // Asked of every file of a search: most names are ruled out by their length.
        let first = self.path.split_once('/').map_or(self.path, |(first, _)| first);
        let begins = |at: usize| names.get(at..).is_some_and(|rest| self.begins(rest));
        names.iter().enumerate().any(|(at, name)| name.as_ref() == first && begins(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_several_names_are_found_among_others() {
        let find = |path: &str| {
            let names: Vec<&str> = path.split('/').collect();
            GuardedPath::ANYWHERE.iter().find(|guarded| guarded.is_among(&names)).map(|guarded| guarded.path)
        };
        assert_eq!(find("a/.claude/settings.json"), Some(".claude/settings.json"));
        assert_eq!(find("a/.husky/_/x"), Some(".husky"));
        for other in ["a/.claude/skills/x", ".claude", "settings.json/.claude", "a/bashrc"] {
            assert_eq!(find(other), None, "{other}");
        }
    }

    #[test]
    fn all_paths_are_in_lower_case_and_relative() {
        let all = GuardedPath::ANYWHERE.iter().chain(&GuardedPath::AT_HOME).chain(&GuardedPath::OF_SYSTEM);
        for GuardedPath { path, .. } in all {
            assert!(path.to_lowercase() == *path && !path.starts_with('/') && !path.ends_with('/'), "{path}");
        }
    }
}
