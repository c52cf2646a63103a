use std::path::{Path, PathBuf};

use zk_core::service::{HostFiles, HostRead};

use super::GitRewrites;

/// Largest git configuration that is read, in bytes.
const MAX_CONFIG_BYTES: usize = 1 << 20;

/// Credentials that the person's git can use, according to its configuration.
///
/// ```
/// use zk_permission::GitCredentials;
///
/// let found = GitCredentials::parse(&["[credential \"https://h\"]\n[url \"git@h:\"]\ninsteadOf = https://h/"]);
/// assert_eq!(found.helper_urls, ["https://h"]);
/// assert_eq!(found.ssh_prefixes, [("https://h/".to_owned(), false)]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GitCredentials {
    /// Addresses with a configured credential helper; an empty address matches all.
    pub helper_urls: Vec<String>,
    /// Address prefixes that are rewritten to ssh, each with whether only for pushes.
    pub ssh_prefixes: Vec<(String, bool)>,
}

impl GitCredentials {
    /// Reads the configurations below `home` and of the machine.
    #[must_use]
    pub fn read(home: Option<&Path>, files: &dyn HostFiles) -> Self {
        let at_home = |name: &str| home.map(|home| home.join(name));
        let paths = [at_home(".gitconfig"), at_home(".config/git/config")];
        let paths = paths.into_iter().flatten().chain([PathBuf::from("/etc/gitconfig")]);
        let texts: Vec<String> = paths
            .filter_map(|path| {
                String::from_utf8(files.read(&path, &HostRead::whole(MAX_CONFIG_BYTES)).ok()?.bytes).ok()
            })
            .collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let mut found = Self::parse(&texts);
        if at_home(".netrc").is_some_and(|path| path.exists()) {
            found.helper_urls.push(String::new());
        }
        found
    }

    /// Parses these configurations.
    #[must_use]
    pub fn parse(texts: &[&str]) -> Self {
        let sections = texts.iter().flat_map(|text| text.lines().map(str::trim)).filter_map(|line| {
            let rest = line.strip_prefix("[credential")?.split(']').next()?;
            Some(rest.trim().trim_matches('"').to_owned())
        });
        let rewrites = texts.iter().map(|text| GitRewrites::parse(text));
        let by_ssh = rewrites.fold(GitRewrites::default(), GitRewrites::and);
        let by_ssh = by_ssh.iter().filter(|rule| is_ssh(&rule.instead));
        Self {
            helper_urls: sections.collect(),
            ssh_prefixes: by_ssh.map(|rule| (rule.prefix.clone(), rule.only_pushes)).collect(),
        }
    }
}

/// Whether an address is one of ssh.
fn is_ssh(address: &str) -> bool {
    match address.split_once("://") {
        Some((scheme, _)) => scheme.ends_with("ssh"),
        None => address.contains(':') && !address.starts_with('/'),
    }
}
