use std::path::{Path, PathBuf};

use zk_core::model::{Effect, Effects};

use crate::approvals::ApprovalKind;
use crate::classifier::{PathClassifier, PathPlace};
use crate::judge::Verdict;
use crate::rules::Decision;
use crate::shell::Script;

/// Programs whose first words are subcommands, with the number of words that identify the action.
const SUBCOMMANDS: [(&str, usize); 20] = [
    ("bun", 2),
    ("cargo", 1),
    ("deno", 1),
    ("docker", 1),
    ("dotnet", 1),
    ("gh", 2),
    ("git", 1),
    ("go", 1),
    ("gradle", 1),
    ("just", 1),
    ("kubectl", 1),
    ("make", 1),
    ("mvn", 1),
    ("npm", 2),
    ("pip", 1),
    ("pnpm", 2),
    ("pytest", 0),
    ("tox", 0),
    ("uv", 2),
    ("yarn", 2),
];

/// Broader approval that a person can be offered together with a call: the directory of the files that a tool
/// changes, or a prefix of the only command that needs the question. `None` if it would allow more than it
/// seems.
pub(crate) fn offered(
    verdict: &Verdict,
    effects: &Effects,
    cwd: &Path,
    classifier: &dyn PathClassifier,
) -> Option<ApprovalKind> {
    let Effects::Known { list } = effects else { return None };
    match list.as_slice() {
        [Effect::Executes { command: Some(command), .. }] => prefix(command, verdict),
        effects => directory(effects, cwd, classifier),
    }
}

/// Directory that contains all files that a tool changes.
fn directory(effects: &[Effect], cwd: &Path, classifier: &dyn PathClassifier) -> Option<ApprovalKind> {
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

/// Prefix of the only command that needs approval.
fn prefix(text: &str, verdict: &Verdict) -> Option<ApprovalKind> {
    let script = Script::parse(text).ok()?;
    let mut asked = verdict.reasons.iter().filter(|reason| reason.decision == Decision::Ask);
    let (subject, None) = (asked.next()?.subject.as_str(), asked.next()) else { return None };
    let command =
        script.commands.iter().find(|command| crate::shell::quote_all(&command.words) == subject)?;
    let name = command.words.first()?;
    let (_, count) = SUBCOMMANDS.iter().find(|(known, _)| known == name)?;
    let is_plain = |word: &&String| {
        word.starts_with(|c: char| c.is_ascii_alphanumeric())
            && word.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_:".contains(&b))
    };
    let said: Vec<String> =
        command.words.get(1..)?.iter().take(*count).take_while(is_plain).cloned().collect();
    let is_enough = match name.as_str() {
        // The second word identifies the action: `npm run build`, `gh pr list`.
        "npm" | "pnpm" | "yarn" | "bun" | "gh" | "uv" => said.first().is_some_and(|word| {
            said.len() == 2
                || !matches!(word.as_str(), "run" | "exec" | "x" | "api" | "pr" | "issue" | "repo" | "tool")
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
