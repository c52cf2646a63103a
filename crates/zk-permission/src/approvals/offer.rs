use std::path::{Path, PathBuf};

use zk_core::model::{Effect, Effects};
use zk_core::service::SERVER_TOOL_PREFIX;

use crate::approvals::ApprovalKind;
use crate::classifier::{PathClassifier, PathPlace, sounds_like_credentials};
use crate::judge::Verdict;
use crate::rules::{Decision, ProjectCode, filtered_command, is_runner, plain_command};
use crate::shell::Script;

/// Programs whose first words are subcommands, with the number of words that identify the action. Programs that run the code
/// of the project are in [`ProjectCode`].
const SUBCOMMANDS: [(&str, usize); 10] = [
    ("bun", 2),
    ("cargo", 1),
    ("docker", 1),
    ("gh", 2),
    ("git", 1),
    ("kubectl", 1),
    ("npm", 2),
    ("pip", 1),
    ("pnpm", 2),
    ("yarn", 2),
];

/// Directory and sandbox of a call that a person is asked about.
#[derive(Clone, Copy)]
pub(crate) struct AskedPlace<'a> {
    pub(crate) cwd: &'a Path,
    pub(crate) project: &'a Path,
    pub(crate) classifier: &'a dyn PathClassifier,
    /// Whether the call runs in the sandbox of commands.
    pub(crate) is_contained: bool,
}

/// Broader approval that a person can be offered together with a call: the directory of changed files, a way
/// of running the project's code, a prefix of the only command that needs the question, or every call of a
/// server's tool. `None` if it would allow more than it seems.
pub(crate) fn offered(
    tool: &str,
    verdict: &Verdict,
    effects: &Effects,
    at: AskedPlace<'_>,
) -> Option<ApprovalKind> {
    let Effects::Known { list } = effects else {
        let is_of_server = tool.starts_with(SERVER_TOOL_PREFIX);
        return is_of_server.then(|| ApprovalKind::Tools { server: None, names: vec![tool.to_owned()] });
    };
    match list.as_slice() {
        [Effect::Executes { command: Some(command), .. }] => {
            let prefix = || at.is_contained.then(|| prefix_approval(command, verdict)).flatten();
            project_code_approval(command, at).or_else(prefix)
        }
        effects => directory_approval(effects, at.cwd, at.classifier),
    }
}

/// Directory outside of the workspace that a tool lists, or that contains the one file it reads.
fn read_approval(effects: &[Effect], cwd: &Path, classifier: &dyn PathClassifier) -> Option<ApprovalKind> {
    let [Effect::Reads { paths }] = effects else { return None };
    let [path] = paths.as_slice() else { return None };
    let path = crate::classifier::normalise(&cwd.join(path));
    let is_credentials = || path.file_name().is_some_and(|name| sounds_like_credentials(Path::new(name)));
    if !classifier.asks_read(&path) || is_credentials() {
        return None;
    }
    let directory = if path.is_dir() { path } else { path.parent()?.to_owned() };
    // An approval of `/`, of a top-level directory such as `/usr`, or of one that contains the home directory
    // would allow more than it seems.
    let is_wide =
        directory.parent().is_none_or(|above| above.parent().is_none() && !is_system_settings(&directory))
            || classifier.home().is_some_and(|home| home.starts_with(&directory));
    (!is_wide).then_some(ApprovalKind::Reads { path: directory })
}

/// Whether a top-level directory holds settings of the system and no files of users.
fn is_system_settings(directory: &Path) -> bool {
    directory == Path::new("/etc")
}

/// Kind of approval for a plain command that runs the project's code; in the sandbox also with filters after
/// it.
fn project_code_approval(text: &str, at: AskedPlace<'_>) -> Option<ApprovalKind> {
    let code = if at.is_contained {
        let argv = plain_command(text).or_else(|| Some(filtered_command(text)?.0))?;
        ProjectCode::in_sandbox(&argv)
    } else {
        ProjectCode::bound(&plain_command(text)?, at.cwd, at.project)
    };
    code.map(ApprovalKind::Code)
}

/// Directory that contains all files that a tool changes.
fn directory_approval(
    effects: &[Effect],
    cwd: &Path,
    classifier: &dyn PathClassifier,
) -> Option<ApprovalKind> {
    if let Some(reads) = read_approval(effects, cwd, classifier) {
        return Some(reads);
    }
    let mut parents: Vec<PathBuf> = Vec::new();
    for effect in effects {
        match effect {
            Effect::Reads { .. } => {}
            Effect::Writes { paths } if !paths.is_empty() => {
                parents.extend(paths.iter().filter_map(|path| cwd.join(path).parent().map(Path::to_owned)));
            }
            Effect::Writes { .. }
            | Effect::Executes { .. }
            | Effect::Network { .. }
            | Effect::LeavesContext { .. } => return None,
        }
    }
    let first = parents.first()?.clone();
    let is_same = parents.iter().all(|parent| *parent == first);
    let is_inside = classifier.path(&first) == PathPlace::Inside;
    (is_same && is_inside).then_some(ApprovalKind::Directory { path: crate::classifier::normalise(&first) })
}

/// Prefix of the only command that needs approval. Only for the sandbox: an option such as `git push --receive-pack` would
/// run any program on the host.
fn prefix_approval(text: &str, verdict: &Verdict) -> Option<ApprovalKind> {
    let script = Script::parse(text).ok()?;
    let mut asked = verdict.reasons.iter().filter(|reason| reason.decision == Decision::Ask);
    let (subject, None) = (asked.next()?.subject.as_str(), asked.next()) else { return None };
    let command =
        script.commands.iter().find(|command| crate::shell::quote_all(&command.words) == subject)?;
    let name = command.words.first()?;
    if is_runner(name) && ProjectCode::in_sandbox(&command.words).is_some() {
        return None;
    }
    let (_, count) = SUBCOMMANDS.iter().find(|(known, _)| known == name)?;
    let is_plain = |word: &&String| {
        word.starts_with(|c: char| c.is_ascii_alphanumeric())
            && word.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_:".contains(&b))
    };
    let said: Vec<String> =
        command.words.get(1..)?.iter().take(*count).take_while(is_plain).cloned().collect();
    let is_enough = match name.as_str() {
        // The second word identifies the action: `npm run build`, `gh pr list`.
        "npm" | "pnpm" | "yarn" | "bun" | "gh" => said.first().is_some_and(|word| {
            (said.len() == 2 || !matches!(word.as_str(), "api" | "pr" | "issue" | "repo"))
                && !matches!(word.as_str(), "run" | "run-script" | "exec" | "x" | "dlx")
        }),
        // The first word alone would allow any host or code.
        "docker" | "kubectl" => !said.first().is_none_or(|word| matches!(word.as_str(), "run" | "exec")),
        "git" => !said
            .first()
            .is_none_or(|word| matches!(word.as_str(), "config" | "submodule" | "bisect" | "rebase")),
        _ => said.len() == *count,
    };
    let words: Vec<String> = std::iter::once(name.clone()).chain(said).collect();
    is_enough.then_some(ApprovalKind::Prefix { words })
}
