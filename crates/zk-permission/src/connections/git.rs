use std::fs;
use std::path::{Path, PathBuf};

use zk_core::service::Connections;

use super::rewrites::GitRewrites;
use super::{Vicinity, entries, hosts};
use crate::program::git_subcommand;
use crate::repository::read;

/// Subcommands that connect to where a remote is.
const CONNECT: [&str; 10] = [
    "clone",
    "fetch",
    "fetch-pack",
    "ls-remote",
    "pull",
    "push",
    "remote",
    "send-email",
    "send-pack",
    "submodule",
];

/// First words behind `git remote` that connect.
const REMOTE_CONNECTS: [&str; 4] = ["prune", "set-head", "show", "update"];

pub(super) fn connects(subcommand: &str) -> bool {
    CONNECT.contains(&subcommand)
}

/// Connections of git with these arguments; nothing if it opens none.
pub(super) fn connections(args: &[String], near: Vicinity<'_>) -> Option<Connections> {
    let (at, _) = git_subcommand(args)?;
    let (before, rest) = args.split_at_checked(at)?;
    let (name, rest) = rest.split_first()?;
    if !connects(name) {
        return None;
    }
    let operands: Vec<&str> = rest.iter().map(String::as_str).filter(|word| !word.starts_with('-')).collect();
    if name == "remote" {
        let adds_and_fetches = rest.iter().any(|word| word == "-f") && operands.first() == Some(&"add");
        let connects = operands.first().is_some_and(|first| REMOTE_CONNECTS.contains(first));
        if !connects && !adds_and_fetches {
            return None;
        }
    }
    let mut dir = near.cwd.to_owned();
    let flags: Vec<&str> = before.iter().map(String::as_str).collect();
    flags.windows(2).filter(|pair| pair.first() == Some(&"-C")).for_each(|pair| {
        dir = dir.join(pair.last().copied().unwrap_or_default());
    });
    let config = configuration(&dir);
    let rewrites = rewrites(near, config.as_deref());
    let of_place = |word: &str| {
        let word = rewrites.apply(word, name == "push");
        hosts::of_url(&word).or_else(|| hosts::of_far_place(&word, false))
    };
    // Behind a push or fetch the first word is the place, and `src:dst` names branches.
    let places = match name.as_str() {
        "push" | "fetch" | "pull" | "ls-remote" => operands.get(..1).unwrap_or_default(),
        _ => operands.as_slice(),
    };
    let mut found: Vec<String> = places.iter().filter_map(|word| of_place(word)).collect();
    if found.is_empty() {
        let remotes = remotes(&dir, config.as_deref());
        let named = places.first().filter(|name| remotes.iter().any(|(remote, _)| remote == *name));
        let of_remotes = remotes.iter().filter(|(remote, _)| named.is_none_or(|name| remote == name));
        found.extend(of_remotes.filter_map(|(_, url)| of_place(url)));
        // A remote on this machine needs no connection.
        if found.is_empty() && !remotes.is_empty() {
            return None;
        }
    }
    Some(Connections { hosts: found, any_public: false })
}

/// Names and addresses of the remotes and submodules of the repository around a directory.
fn remotes(dir: &Path, config: Option<&str>) -> Vec<(String, String)> {
    let modules = dir.ancestors().find(|dir| common_dir(&dir.join(".git")).is_some());
    let modules = modules.and_then(|root| read(&root.join(".gitmodules")));
    config.into_iter().chain(modules.as_deref()).flat_map(addresses).collect()
}

/// Configuration of the repository around a directory.
fn configuration(dir: &Path) -> Option<String> {
    let git = dir.ancestors().find_map(|dir| common_dir(&dir.join(".git")))?;
    read(&git.join("config"))
}

/// Rules about addresses of the person's git and of this repository, whose configuration no command writes.
fn rewrites(near: Vicinity<'_>, config: Option<&str>) -> GitRewrites {
    let at_home = |name: &str| near.surroundings.home().and_then(|home| read(&home.join(name)));
    let files = [read(Path::new("/etc/gitconfig")), at_home(".config/git/config"), at_home(".gitconfig")];
    let all = files.iter().flatten().map(String::as_str).chain(config);
    all.map(GitRewrites::parse).fold(GitRewrites::default(), GitRewrites::and)
}

/// Directory with the configuration of a repository, by its `.git`.
fn common_dir(git: &Path) -> Option<PathBuf> {
    if fs::symlink_metadata(git).ok()?.is_dir() {
        return Some(git.to_owned());
    }
    let text = read(git)?;
    let dir = git.parent()?.join(text.strip_prefix("gitdir:")?.trim());
    match read(&dir.join("commondir")) {
        Some(common) => Some(dir.join(common.trim())),
        None => Some(dir),
    }
}

fn addresses(config: &str) -> Vec<(String, String)> {
    let remotes = entries::of_text(config).into_iter().filter_map(|entry| {
        let (kind, quoted) = entry.section.split_once('"')?;
        let is_remote = matches!(kind.trim().to_ascii_lowercase().as_str(), "remote" | "submodule");
        let is_address = matches!(entry.key.as_str(), "url" | "pushurl");
        let name = quoted.trim_end_matches('"').to_owned();
        (is_remote && is_address).then(|| (name, entry.value.to_owned()))
    });
    remotes.collect()
}
