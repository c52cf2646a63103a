use std::path::{Path, PathBuf};

use zk_exec::{Environment, Network, SandboxError, SandboxExec, SandboxPolicy, SelfTest, Supervision};
use zk_permission::{GitCredentials, HeldPaths, Rule, Rules};
use zk_tools::ToolsOptions;

use crate::app::{Machine, Workplace};
use crate::exit::{Failure, Outcome};
use crate::settings::Settings;

/// Creates the configured sandbox and tests it.
pub(crate) fn start(work: &Workplace, settings: &Settings, environment: Environment) -> Outcome<SandboxExec> {
    start_with_self_test(work, settings, environment).map(|(exec, _)| exec)
}

/// Creates and tests the read-only sandbox, without a network, for commands that run without a question
/// because they only read.
pub(crate) fn start_for_reads(
    work: &Workplace,
    settings: &Settings,
    environment: Environment,
) -> Outcome<SandboxExec> {
    start_and_test(&policy(work, settings).network(Network::None).deny_writes(), environment)
        .map(|(exec, _)| exec)
}

/// Creates the configured sandbox. On a machine that refuses namespaces, it is limited to Landlock and
/// seccomp, and the reason is returned.
pub(crate) fn start_or_degrade(
    work: &Workplace,
    settings: &Settings,
    environment: Environment,
) -> Outcome<(SandboxExec, Option<String>)> {
    match start_and_test(&policy(work, settings), environment.clone()) {
        Ok((exec, _)) => Ok((exec, None)),
        Err(failure) => match start_and_test(&policy(work, settings).landlock_only(), environment) {
            Ok((exec, _)) => Ok((exec, Some(failure.message))),
            Err(_) => Err(failure),
        },
    }
}

/// Creates the configured sandbox and tests it; returns the result of the self-test, too.
pub(crate) fn start_with_self_test(
    work: &Workplace,
    settings: &Settings,
    environment: Environment,
) -> Outcome<(SandboxExec, SelfTest)> {
    start_and_test(&policy(work, settings), environment)
}

fn start_and_test(policy: &SandboxPolicy, environment: Environment) -> Outcome<(SandboxExec, SelfTest)> {
    let exec = SandboxExec::new(policy, environment, Supervision::of_this_program());
    let exec = exec.map_err(|error| Failure::usage(error.to_string()))?;
    let found = exec.self_test_and_wait().map_err(sandbox_failure)?;
    Ok((exec, found))
}

/// Converts an error of the sandbox's self-test; names the variables that move the state directory.
fn sandbox_failure(error: SandboxError) -> Failure {
    match error {
        SandboxError::StateWithin { .. } => {
            Failure::failed(format!("{error}: set ZK_HOME or XDG_STATE_HOME to another directory"))
        }
        error => Failure::failed(error),
    }
}

/// Creates the policy of the sandbox, which excludes files that rules deny.
fn policy(work: &Workplace, settings: &Settings) -> SandboxPolicy {
    let policy = base_policy(work, settings);
    let (rules, _) = crate::policy::rules(work, settings);
    let writable = policy.writable_paths();
    let held: Vec<HeldPaths> = rules.iter().filter_map(|rule| HeldPaths::of(rule, &writable)).collect();
    held.into_iter().fold(policy, |policy, held| {
        let policy = held.hidden.into_iter().fold(policy, SandboxPolicy::hidden);
        held.protected.into_iter().fold(policy, SandboxPolicy::protected)
    })
}

/// Marks the permission rules that the sandbox enforces.
pub(crate) fn mark_held(work: &Workplace, settings: &Settings, rules: &mut Rules) {
    let policy = base_policy(work, settings);
    let writable = policy.writable_paths();
    rules.iter_mut().filter(|rule| HeldPaths::of(rule, &writable).is_some()).for_each(Rule::hold);
}

/// Creates the sandbox policy without permission rules: working directories, their repository, and the paths of
/// `[sandbox]`.
fn base_policy(work: &Workplace, settings: &Settings) -> SandboxPolicy {
    let mut policy = SandboxPolicy::new(&work.cwd).project(&work.project).limits(settings.limits.limits());
    policy = policy.grant_connections();
    let home = work.machine.env.path("HOME");
    if let Some(home) = &home {
        policy = policy.home(home);
    }
    let dirs = &work.machine.dirs;
    match dirs.worktrees().filter(|copies| work.project.starts_with(copies)) {
        // A copy of the project lies in the directory of state, whose other entries stay hidden.
        Some(copies) => {
            let others = dirs.own(&work.roots()).into_iter().chain(dirs.outputs());
            policy = others.fold(policy.state(copies.join("sandbox")), SandboxPolicy::hidden);
            // The repository of the copy borrows the objects of the project's.
            let alternates = work.project.join(".git/objects/info/alternates");
            let borrowed = std::fs::read_to_string(alternates).unwrap_or_default();
            policy = borrowed.lines().fold(policy, SandboxPolicy::readable);
        }
        None => {
            let own = dirs.config.iter();
            policy = dirs.state.iter().fold(policy, SandboxPolicy::state);
            policy = own.fold(policy, SandboxPolicy::hidden);
        }
    }
    let policy = settings.sandbox.policy(policy, home.as_deref());
    work.roots().into_iter().skip(1).fold(policy, SandboxPolicy::writable)
}

/// Returns the files of a copy whose originals are hidden or denied, since rules and settings with absolute paths do
/// not reach the copy.
pub(crate) fn hidden_in_copy(original: &Workplace, copy: &Path, settings: &Settings) -> Vec<String> {
    let (rules, _) = crate::policy::rules(original, settings);
    let held = rules.iter().filter_map(|rule| HeldPaths::of(rule, &[&original.project]));
    let denied = held.flat_map(|held| held.hidden).chain(hidden(&original.machine, settings));
    let project = resolve_links(&original.project);
    // A path may lead to the original through links, and an entry of the original may be a link elsewhere.
    let of_copy = denied.flat_map(|path| {
        let as_given = in_copy(&path, &original.project, copy);
        let resolved =
            in_copy(&resolve_links(&path), &project, copy).filter(|found| as_given.as_ref() != Some(found));
        as_given.into_iter().chain(resolved)
    });
    of_copy.filter_map(|path| path.into_os_string().into_string().ok()).collect()
}

/// Resolves the links in the existing part of a path.
fn resolve_links(path: &Path) -> PathBuf {
    let real =
        path.ancestors().find_map(|above| Some((above.canonicalize().ok()?, path.strip_prefix(above).ok()?)));
    real.map_or_else(|| path.to_owned(), |(real, rest)| real.components().chain(rest.components()).collect())
}

/// Converts a path below the original to the path in the copy; `None` for the original itself.
fn in_copy(path: &Path, original: &Path, copy: &Path) -> Option<PathBuf> {
    let below = path.strip_prefix(original).ok()?;
    (below.file_name().is_some()).then(|| copy.join(below))
}

/// Adds the known credentials of the person's git.
pub(crate) fn with_git(machine: &Machine, tools: ToolsOptions) -> ToolsOptions {
    let found = GitCredentials::read(machine.env.path("HOME").as_deref(), &machine.host_files);
    ToolsOptions { git_helper_urls: found.helper_urls, git_ssh_prefixes: found.ssh_prefixes, ..tools }
}

/// Returns the paths of the setting `sandbox.hidden`, which apply in every execution context.
pub(crate) fn hidden(machine: &Machine, settings: &Settings) -> Vec<PathBuf> {
    settings.sandbox.hidden_paths(machine.env.path("HOME").as_deref())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_through_a_link_is_the_one_that_it_leads_to() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("project")).unwrap();
        std::fs::write(root.join("project/key"), "x").unwrap();
        std::os::unix::fs::symlink("project", root.join("link")).unwrap();
        for name in ["key", "missing/key"] {
            let found = resolve_links(&root.join("link").join(name));
            assert_eq!(found, root.join("project").join(name));
            let copied = in_copy(&found, &root.join("project"), Path::new("/copy"));
            assert_eq!(copied, Some(Path::new("/copy").join(name)));
        }
    }
}
