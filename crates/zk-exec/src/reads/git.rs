//! Arguments and environment of git, for zk's own calls and for those of read-only commands.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use zk_core::service::{Exec, ExecError, ExecRequest, Process};

/// Settings under which a reading git starts no program named by the repository. Filters, text conversions
/// and external diffs are not covered, since they have free names or no neutral value.
const READ_SETTINGS: [(&str, &str); 5] = [
    ("diff.autoRefreshIndex", "false"),
    ("core.fsmonitor", "false"),
    ("core.hooksPath", "/dev/null"),
    ("diff.ignoreSubmodules", "all"),
    ("safe.bareRepository", "explicit"),
];

/// Environment for a read-only git: it starts no hook or file monitor, ignores bare repositories, skips
/// submodules, and does not refresh the index.
///
/// ```
/// let variables = zk_exec::git_read_variables();
/// assert!(variables.contains(&("GIT_OPTIONAL_LOCKS".to_owned(), "0".to_owned())));
/// ```
#[must_use]
pub fn git_read_variables() -> Vec<(String, String)> {
    let count = ("GIT_CONFIG_COUNT".to_owned(), READ_SETTINGS.len().to_string());
    let locks = ("GIT_OPTIONAL_LOCKS".to_owned(), "0".to_owned());
    let settings = READ_SETTINGS.iter().enumerate().flat_map(|(at, (key, value))| {
        [
            (format!("GIT_CONFIG_KEY_{at}"), (*key).to_owned()),
            (format!("GIT_CONFIG_VALUE_{at}"), (*value).to_owned()),
        ]
    });
    [count, locks].into_iter().chain(settings).collect()
}

/// Executor of read-only commands, which adds the variables for a read-only git.
pub(crate) struct GitReads(pub(crate) Arc<dyn Exec>);

impl GitReads {
    fn with_variables(mut request: ExecRequest) -> ExecRequest {
        let variables = git_read_variables().into_iter().map(|(name, value)| (name.into(), value.into()));
        request.env.extend(variables);
        request
    }
}

#[async_trait]
impl Exec for GitReads {
    async fn spawn(&self, request: ExecRequest) -> Result<Box<dyn Process>, ExecError> {
        self.0.spawn(Self::with_variables(request)).await
    }

    async fn spawn_detached(
        &self,
        request: ExecRequest,
        output: &Path,
    ) -> Result<Box<dyn Process>, ExecError> {
        self.0.spawn_detached(Self::with_variables(request), output).await
    }
}

/// Variable that keeps git from copying template hooks into a new repository.
#[cfg(feature = "sandbox")]
pub(crate) const NO_TEMPLATE: (&str, &str) = ("GIT_TEMPLATE_DIR", "");

/// Whether a request is a single git command that creates a repository, in plain words and without flags that
/// name a program.
pub(crate) fn makes_repository(request: &ExecRequest) -> bool {
    let args: Vec<&str> = request.args.iter().filter_map(|arg| arg.to_str()).collect();
    match (request.program.to_str(), args.as_slice()) {
        _ if args.len() < request.args.len() => false,
        (Some("bash"), ["-c", text]) => {
            let is_plain = |char: char| {
                char.is_ascii_alphanumeric()
                    || matches!(char, ' ' | '.' | '_' | '/' | ':' | '@' | '=' | '+' | '-')
            };
            let words: Vec<&str> = text.trim().split(' ').filter(|word| !word.is_empty()).collect();
            text.trim().chars().all(is_plain) && is_making(&words)
        }
        (Some("git"), args) => is_making(&[&["git"], args].concat()),
        _ => false,
    }
}

fn is_making(words: &[&str]) -> bool {
    /// Flags without a value, and flags with a value.
    type Flags = (&'static [&'static str], &'static [&'static str]);
    const INIT: Flags =
        (&["-q", "--quiet", "--template="], &["-b", "--initial-branch", "--object-format", "--ref-format"]);
    const CLONE: Flags = (
        &[
            "-q",
            "--quiet",
            "-v",
            "--verbose",
            "--progress",
            "-n",
            "--no-checkout",
            "--single-branch",
            "--no-single-branch",
            "--no-tags",
            "--no-hardlinks",
            "-l",
            "--local",
            "--sparse",
            "--template=",
        ],
        &["-b", "--branch", "-o", "--origin", "--depth", "--filter", "-j", "--jobs"],
    );
    const WORKTREE: Flags =
        (&["-q", "--quiet", "-f", "--force", "-d", "--detach", "--no-checkout", "--no-track"], &["-b", "-B"]);
    let ((bare, valued), rest, most) = match words {
        ["git", "init", rest @ ..] => (INIT, rest, 1),
        ["git", "clone", rest @ ..] => (CLONE, rest, 2),
        ["git", "worktree", "add", rest @ ..] => (WORKTREE, rest, 2),
        _ => return false,
    };
    let (mut rest, mut operands) = (rest.iter(), 0);
    while let Some(word) = rest.next() {
        let (name, value) = word.split_once('=').map_or((*word, None), |(name, value)| (name, Some(value)));
        let is_sticky = value.is_some() && name.starts_with("--") && valued.contains(&name);
        if bare.contains(word) || is_sticky {
            continue;
        }
        if valued.contains(word) {
            if rest.next().is_none_or(|value| value.starts_with('-')) {
                return false;
            }
            continue;
        }
        if word.starts_with('-') {
            return false;
        }
        operands += 1;
    }
    operands <= most
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_plain_git_command_makes_a_repository() {
        for command in [
            "git init",
            " git init -q ",
            "git init -b main .",
            "git init --initial-branch=main --template= sub",
            "git clone https://example.org/a.git",
            "git clone --depth 1 ../a .",
            "git worktree add -b x sub/x",
        ] {
            assert!(makes_repository(&ExecRequest::shell(command, "/")), "{command}");
        }
        for command in [
            "git init; x",
            "git init && git add .",
            "git init\nx",
            "git init $x",
            "git init `x`",
            "git init > .git/config",
            "git init a b",
            "git init --template=hooks",
            "git init --template hooks",
            "git init --separate-git-dir=x",
            "git init -b",
            "git init -b --template=x",
            "git -C sub init",
            "git -c core.hooksPath=x init",
            "git clone -c core.fsmonitor=x a",
            "git clone --config=x a",
            "git clone --upload-pack=x a",
            "git clone -u x a",
            "git status",
            "git worktree add --lock x",
            "x=1 git init",
            "./git init",
        ] {
            assert!(!makes_repository(&ExecRequest::shell(command, "/")), "{command}");
        }
        let direct = |args: &[&str]| ExecRequest {
            args: args.iter().map(Into::into).collect(),
            ..ExecRequest::new("git", "/")
        };
        assert!(makes_repository(&direct(&["init"])) && !makes_repository(&direct(&["init", "-x"])));
    }
}
