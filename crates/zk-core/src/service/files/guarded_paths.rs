use std::collections::HashMap;
use std::sync::LazyLock;

/// Degree to which a path is protected from tools and commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PathGuard {
    /// The path holds credentials: no tool reads or writes it.
    Secret,
    /// The file holds credentials that a project itself uses: a tool that names it reads or writes it after a
    /// person agreed. A search through a directory skips it, and a sandbox that denies writes hides it.
    Private,
    /// Tools may read the path, and none writes it.
    ReadOnly,
    /// A tool may write the path after a person approved it. Commands in a sandbox cannot, since they do not
    /// ask.
    Asked,
}

/// Programs that execute the contents of a guarded path without asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RunBy {
    /// The next command of a person: a shell prompt, git, zk itself. A sandbox keeps commands from creating
    /// or changing such a path.
    NextCommand,
    /// Programs that ask for trust before they use the file, or read it in a home directory only. A sandbox
    /// may leave such names unprotected.
    Trusting,
    /// Tools that a person starts for the project, which run its code anyway: builds, editors, other agents,
    /// CI services. File tools ask before they write the path; a sandbox lets commands write it.
    ProjectTool,
    /// No program: the path is guarded because of its contents.
    Nobody,
}

/// A path whose contents tell a later program which code to run or whom to trust, without another approval.
///
/// This is the only table of such paths, for the file tools, the sandbox, containers and the judge of
/// permissions.
///
/// ```
/// use zk_core::service::{GuardedPath, PathGuard};
///
/// let hooks = GuardedPath::ANYWHERE.iter().find(|guarded| guarded.path == ".husky");
/// assert_eq!(hooks.map(|guarded| guarded.guard), Some(PathGuard::Asked));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuardedPath {
    /// Path components with `/` between them, in lower case because comparison ignores case.
    pub path: &'static str,
    /// Degree of protection.
    pub guard: PathGuard,
    /// Reason for the guard, as the end of a message.
    pub why: &'static str,
    /// Whether only a file is guarded, not a directory of that name.
    pub is_file: bool,
    /// Programs that execute the contents.
    pub run_by: RunBy,
}

const CREDENTIALS: &str = "it holds credentials; a person has to do this";
const PROJECT_CREDENTIALS: &str = "it holds credentials of the project; read it by its own path";
const GIT: &str = "programs are started from what is in it; use git commands";
const ZK: &str = "it holds the settings of zk; a person has to change them";
const START: &str = "programs are started from it; a person has to change it";
const SYSTEM: &str = "it belongs to the system; a person has to change it";

const fn secret(path: &'static str) -> GuardedPath {
    GuardedPath { path, guard: PathGuard::Secret, why: CREDENTIALS, is_file: false, run_by: RunBy::Nobody }
}

const fn private(path: &'static str) -> GuardedPath {
    GuardedPath {
        path,
        guard: PathGuard::Private,
        why: PROJECT_CREDENTIALS,
        is_file: true,
        run_by: RunBy::Nobody,
    }
}

const fn read_only(path: &'static str, why: &'static str) -> GuardedPath {
    GuardedPath { path, guard: PathGuard::ReadOnly, why, is_file: false, run_by: RunBy::NextCommand }
}

const fn start_file(path: &'static str) -> GuardedPath {
    GuardedPath { is_file: true, ..read_only(path, START) }
}

/// Guards a start file that shells read in a home directory only.
const fn shell_file(path: &'static str) -> GuardedPath {
    GuardedPath { run_by: RunBy::Trusting, ..start_file(path) }
}

/// Guards a directory or file whose change needs a person's answer.
const fn asked_dir(path: &'static str, run_by: RunBy) -> GuardedPath {
    GuardedPath { path, guard: PathGuard::Asked, why: START, is_file: false, run_by }
}

/// Guards a file whose change needs a person's answer.
const fn asked_file(path: &'static str, run_by: RunBy) -> GuardedPath {
    GuardedPath { is_file: true, ..asked_dir(path, run_by) }
}

impl GuardedPath {
    /// Files and directories, with their contents, that are guarded in any directory.
    pub const ANYWHERE: [Self; 108] = [
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
        private(".env"),
        private(".env.local"),
        private(".env.development"),
        private(".env.development.local"),
        private(".env.production"),
        private(".env.production.local"),
        private(".env.prod"),
        private(".env.staging"),
        private(".env.staging.local"),
        private(".env.test.local"),
        private("id_rsa"),
        private("id_dsa"),
        private("id_ecdsa"),
        private("id_ecdsa_sk"),
        private("id_ed25519"),
        private("id_ed25519_sk"),
        read_only(".git", GIT),
        read_only("git~1", GIT),
        Self { is_file: true, run_by: RunBy::Trusting, ..read_only(".gitconfig", GIT) },
        // A directory with `objects`, `refs` and this file is a bare repository, whose `config` git obeys.
        asked_file("head", RunBy::NextCommand),
        asked_file(".gitmodules", RunBy::NextCommand),
        read_only(".zk", ZK),
        shell_file(".bashrc"),
        shell_file(".bash_profile"),
        shell_file(".bash_login"),
        shell_file(".bash_logout"),
        shell_file(".bash_aliases"),
        shell_file(".profile"),
        shell_file(".zshrc"),
        shell_file(".zshenv"),
        shell_file(".zprofile"),
        shell_file(".zlogin"),
        shell_file(".zlogout"),
        shell_file(".kshrc"),
        shell_file(".cshrc"),
        shell_file(".tcshrc"),
        shell_file(".login"),
        shell_file(".xprofile"),
        shell_file(".xinitrc"),
        shell_file(".xsession"),
        shell_file(".xsessionrc"),
        shell_file(".pam_environment"),
        asked_file(".envrc", RunBy::Trusting),
        asked_file(".mcp.json", RunBy::Trusting),
        asked_dir(".husky", RunBy::NextCommand),
        asked_dir(".vscode", RunBy::Trusting),
        asked_file(".claude/settings.json", RunBy::Trusting),
        asked_file(".claude/settings.local.json", RunBy::Trusting),
        asked_dir(".claude/agents", RunBy::ProjectTool),
        asked_dir(".claude/commands", RunBy::ProjectTool),
        asked_dir(".claude/hooks", RunBy::ProjectTool),
        asked_dir(".claude/skills", RunBy::ProjectTool),
        asked_file(".codex/config.toml", RunBy::ProjectTool),
        asked_file(".codex/hooks.json", RunBy::ProjectTool),
        asked_file(".cursor/hooks.json", RunBy::ProjectTool),
        asked_file(".cursor/mcp.json", RunBy::ProjectTool),
        asked_file(".gemini/settings.json", RunBy::ProjectTool),
        asked_dir(".opencode", RunBy::ProjectTool),
        asked_file("opencode.json", RunBy::ProjectTool),
        asked_file(".roo/mcp.json", RunBy::ProjectTool),
        asked_dir(".devcontainer", RunBy::ProjectTool),
        asked_file(".devcontainer.json", RunBy::ProjectTool),
        asked_dir(".idea", RunBy::ProjectTool),
        asked_file(".zed/settings.json", RunBy::ProjectTool),
        asked_file(".zed/tasks.json", RunBy::ProjectTool),
        asked_file(".dir-locals.el", RunBy::ProjectTool),
        asked_file(".exrc", RunBy::ProjectTool),
        asked_file(".gdbinit", RunBy::ProjectTool),
        asked_file(".lldbinit", RunBy::ProjectTool),
        asked_file(".nvim.lua", RunBy::ProjectTool),
        asked_file(".cargo/config", RunBy::ProjectTool),
        asked_file(".cargo/config.toml", RunBy::ProjectTool),
        asked_file("rust-toolchain", RunBy::ProjectTool),
        asked_file("rust-toolchain.toml", RunBy::ProjectTool),
        asked_file(".npmrc", RunBy::ProjectTool),
        asked_file(".pnpmfile.cjs", RunBy::ProjectTool),
        asked_file(".yarnrc", RunBy::ProjectTool),
        asked_file(".yarnrc.yml", RunBy::ProjectTool),
        asked_dir(".mvn", RunBy::ProjectTool),
        asked_file(".bazelrc", RunBy::ProjectTool),
        asked_file(".bundle/config", RunBy::ProjectTool),
        asked_file(".mise.toml", RunBy::ProjectTool),
        asked_file("mise.toml", RunBy::ProjectTool),
        asked_file("mise.local.toml", RunBy::ProjectTool),
        asked_dir(".mise", RunBy::ProjectTool),
        asked_file(".pre-commit-config.yaml", RunBy::ProjectTool),
        asked_file(".overcommit.yml", RunBy::ProjectTool),
        asked_file("lefthook.yml", RunBy::ProjectTool),
        asked_file(".lefthook.yml", RunBy::ProjectTool),
        asked_dir(".githooks", RunBy::ProjectTool),
        asked_dir(".github/actions", RunBy::ProjectTool),
        asked_dir(".github/workflows", RunBy::ProjectTool),
        asked_dir(".circleci", RunBy::ProjectTool),
        asked_dir(".buildkite", RunBy::ProjectTool),
        asked_file(".gitlab-ci.yml", RunBy::ProjectTool),
        asked_file(".travis.yml", RunBy::ProjectTool),
        asked_file("azure-pipelines.yml", RunBy::ProjectTool),
        asked_file("jenkinsfile", RunBy::ProjectTool),
    ];

    /// Files and directories, with their contents, that are guarded only below a home directory.
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

    /// Directories that are guarded only below the root of the file system.
    pub const OF_SYSTEM: [Self; 5] = [
        secret("etc/shadow"),
        secret("etc/gshadow"),
        secret("etc/sudoers"),
        read_only("etc", SYSTEM),
        read_only("var/spool/cron", SYSTEM),
    ];

    /// Whether a path with the components `names`, in lower case, is this guarded path or below it.
    pub fn begins<N: AsRef<str>>(&self, names: &[N]) -> bool {
        let mut names = names.iter();
        self.path.split('/').all(|part| names.next().is_some_and(|name| name.as_ref() == part))
    }

    /// Paths of [`ANYWHERE`](Self::ANYWHERE) that the components `names`, in lower case, contain at any
    /// position, in the order of the table.
    ///
    /// ```
    /// use zk_core::service::GuardedPath;
    ///
    /// let found = GuardedPath::anywhere_in(&["src", ".git", "config"]);
    /// assert_eq!(found.first().map(|guarded| guarded.path), Some(".git"));
    /// assert!(GuardedPath::anywhere_in(&["src", "main.rs"]).is_empty());
    /// ```
    #[must_use]
    pub fn anywhere_in<N: AsRef<str>>(names: &[N]) -> Vec<&'static Self> {
        // Called for every file of a search and every path of a call: nearly no name begins a guarded path, and most
        // differ in first letter and length already.
        static BY_FIRST_NAME: LazyLock<FirstNames> = LazyLock::new(|| {
            let mut first = FirstNames { lengths: [0; 256], rows: HashMap::new() };
            for (index, guarded) in TABLE.iter().enumerate() {
                first.add(guarded.path.split('/').next().unwrap_or_default(), index);
            }
            first
        });
        static TABLE: [GuardedPath; GuardedPath::ANYWHERE.len()] = GuardedPath::ANYWHERE;
        let mut found = Vec::new();
        for (at, name) in names.iter().enumerate() {
            let rest = names.get(at..).unwrap_or_default();
            for index in BY_FIRST_NAME.rows_of(name.as_ref()) {
                found.extend(
                    TABLE.get(*index).filter(|guarded| guarded.covers(rest)).map(|guarded| (*index, guarded)),
                );
            }
        }
        found.sort_unstable_by_key(|(index, _)| *index);
        found.into_iter().map(|(_, guarded)| guarded).collect()
    }

    /// Whether a path that begins with these components is this guarded path or below it.
    fn covers<N: AsRef<str>>(&self, names: &[N]) -> bool {
        // A directory with the name of a guarded file is not guarded.
        let is_last = self.is_file && matches!(self.guard, PathGuard::Asked | PathGuard::Private);
        (!is_last || names.len() == self.path.split('/').count()) && self.begins(names)
    }
}

/// Rows of a table of guarded paths by their first component.
struct FirstNames {
    /// Lengths of the names for each first byte, as a set of bits.
    lengths: [u64; 256],
    rows: HashMap<&'static str, Vec<usize>>,
}

impl FirstNames {
    fn add(&mut self, name: &'static str, row: usize) {
        self.rows.entry(name).or_default().push(row);
        let first = name.bytes().next().map_or(0, usize::from);
        if let Some(lengths) = self.lengths.get_mut(first) {
            *lengths |= length_bit(name);
        }
    }

    fn rows_of(&self, name: &str) -> &[usize] {
        let first = name.bytes().next().map_or(0, usize::from);
        let may_be = self.lengths.get(first).is_some_and(|lengths| lengths & length_bit(name) != 0);
        may_be.then(|| self.rows.get(name)).flatten().map_or(&[], Vec::as_slice)
    }
}

/// Bit of a name's length; longer names share the last one.
fn length_bit(name: &str) -> u64 {
    1 << name.len().min(63)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_several_names_are_found_among_others() {
        let find = |path: &str| {
            let names: Vec<&str> = path.split('/').collect();
            GuardedPath::anywhere_in(&names).first().map(|guarded| guarded.path)
        };
        assert_eq!(find("a/.claude/settings.json"), Some(".claude/settings.json"));
        assert_eq!(find("a/.husky/_/x"), Some(".husky"));
        assert_eq!(find("a/head"), Some("head"));
        assert_eq!(find("a/.env"), Some(".env"));
        for other in [
            "a/.env/bin/python",
            ".env.example",
            "id_rsa.pub",
            "a/head/x",
            "a/.github/x",
            ".claude",
            "settings.json/.claude",
            "a/bashrc",
            "a//.hus/ky",
            ".claud/settings.json",
        ] {
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
