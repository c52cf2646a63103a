use std::fs;
use std::path::{Path, PathBuf};

use zk_core::service::Connections;

use super::hosts;
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
pub(super) fn connections(args: &[String], cwd: &Path) -> Option<Connections> {
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
    let of_place = |word: &str| hosts::of_url(word).or_else(|| hosts::of_far_place(word, false));
    // Behind a push or fetch the first word is the place, and `src:dst` names branches.
    let places = match name.as_str() {
        "push" | "fetch" | "pull" | "ls-remote" => operands.get(..1).unwrap_or_default(),
        _ => operands.as_slice(),
    };
    let mut found: Vec<String> = places.iter().filter_map(|word| of_place(word)).collect();
    if found.is_empty() {
        let mut dir = cwd.to_owned();
        let flags: Vec<&str> = before.iter().map(String::as_str).collect();
        flags.windows(2).filter(|pair| pair.first() == Some(&"-C")).for_each(|pair| {
            dir = dir.join(pair.last().copied().unwrap_or_default());
        });
        let remotes = remotes(&dir);
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
fn remotes(dir: &Path) -> Vec<(String, String)> {
    let Some((root, git)) = dir.ancestors().find_map(|dir| Some((dir, common_dir(&dir.join(".git"))?)))
    else {
        return Vec::new();
    };
    let files = [git.join("config"), root.join(".gitmodules")];
    files.iter().filter_map(|path| read(path)).flat_map(|text| addresses(&text)).collect()
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
    let mut found = Vec::new();
    let mut name = None;
    for line in config.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[') {
            let section = section.split(']').next().unwrap_or_default();
            name = section.split_once('"').filter(|(kind, _)| {
                matches!(kind.trim().to_ascii_lowercase().as_str(), "remote" | "submodule")
            });
            continue;
        }
        let (Some((_, quoted)), Some((key, value))) = (name, line.split_once('=')) else { continue };
        if matches!(key.trim().to_ascii_lowercase().as_str(), "url" | "pushurl") {
            let value = value.trim().trim_matches('"').to_owned();
            found.push((quoted.trim_end_matches('"').to_owned(), value));
        }
    }
    found
}
