use std::fs;
use std::path::{Path, PathBuf};

use zk_core::service::Connections;

use super::rewrites::GitRewrites;
use super::{Vicinity, entries, hosts};
use crate::program::git_subcommand;
use crate::repository::read;

/// Subcommands that connect to a remote.
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

/// First arguments of `git remote` that connect.
const REMOTE_CONNECTS: [&str; 4] = ["prune", "set-head", "show", "update"];

pub(super) fn connects(subcommand: &str) -> bool {
    CONNECT.contains(&subcommand)
}

/// Hosts to which git connects with these arguments; `None` if it does not connect.
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
    let configured = Configuration::around(&dir, near);
    let rewrites = rewrites(near, configured.config.as_deref().filter(|_| configured.is_trusted));
    let of_place = |word: &str| {
        let word = rewrites.apply(word, name == "push");
        hosts::of_url(&word).or_else(|| hosts::of_remote_place(&word, false))
    };
    // For a push or fetch, the first operand is the remote, and `src:dst` names branches.
    let places = match name.as_str() {
        "push" | "fetch" | "pull" | "ls-remote" => operands.get(..1).unwrap_or_default(),
        _ => operands.as_slice(),
    };
    let mut found: Vec<String> = places.iter().filter_map(|word| of_place(word)).collect();
    if found.is_empty() {
        let remotes = configured.remotes(near.trusts_project);
        let named = places.first().filter(|name| remotes.iter().any(|remote| remote.name == **name));
        let of_remotes = remotes.iter().filter(|remote| named.is_none_or(|name| remote.name == *name));
        let far: Vec<_> =
            of_remotes.filter_map(|remote| Some((of_place(&remote.address)?, remote.counts))).collect();
        // A remote on this machine needs no connection.
        if far.is_empty() && !remotes.is_empty() {
            return None;
        }
        found.extend(far.into_iter().filter(|(_, counts)| *counts).map(|(host, _)| host));
    }
    Some(Connections { hosts: found, any_public: false })
}

/// Configuration of the repository around a directory.
#[derive(Default)]
struct Configuration {
    config: Option<String>,
    /// Whether commands cannot have written the configuration, or a person is asked about its hosts.
    is_trusted: bool,
    modules: Option<String>,
}

/// Remote or submodule of a repository.
struct Remote {
    name: String,
    address: String,
    /// Whether connections to the remote's host are granted.
    counts: bool,
}

impl Configuration {
    fn around(dir: &Path, near: Vicinity<'_>) -> Self {
        let with_git = |dir: &Path| Some((dir.to_owned(), common_dir(&dir.join(".git"))?));
        let Some((root, git)) = dir.ancestors().find_map(with_git) else { return Self::default() };
        Self {
            config: read(&git.join("config")),
            is_trusted: near.trusts_project || near.classifier.protects_repository(&root),
            modules: read(&root.join(".gitmodules")),
        }
    }

    /// Remotes and submodules; entries of `.gitmodules`, which any command can write, count only if the
    /// project is trusted.
    fn remotes(&self, trusts_project: bool) -> Vec<Remote> {
        let texts = [(&self.config, self.is_trusted), (&self.modules, trusts_project)];
        let texts = texts.into_iter().filter_map(|(text, counts)| Some((text.as_deref()?, counts)));
        let remotes = texts.flat_map(|(text, counts)| {
            addresses(text).into_iter().map(move |(name, address)| Remote { name, address, counts })
        });
        remotes.collect()
    }
}

/// Address rewrites of the person's git, and of the repository if commands cannot have written its
/// configuration.
fn rewrites(near: Vicinity<'_>, config: Option<&str>) -> GitRewrites {
    let at_home = |name: &str| near.classifier.home().and_then(|home| read(&home.join(name)));
    let files = [read(Path::new("/etc/gitconfig")), at_home(".config/git/config"), at_home(".gitconfig")];
    let all = files.iter().flatten().map(String::as_str).chain(config);
    all.map(GitRewrites::parse).fold(GitRewrites::default(), GitRewrites::and)
}

/// Common directory of a repository, found through its `.git`.
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
