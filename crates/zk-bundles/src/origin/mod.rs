//! Origins of bundles.

pub(crate) mod fetch;
mod git;
pub(crate) mod marketplace;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use zk_core::service::visible_line;

use crate::bundle::is_bundle_name;

/// File name extensions of supported archives.
const ARCHIVE_ENDINGS: [&str; 3] = [".tar.gz", ".tgz", ".zip"];

/// Beginnings of addresses from which git may fetch.
const SCHEMES: [&str; 4] = ["https://", "http://", "ssh://", "file://"];

/// Origin of a bundle, or of a marketplace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "from", rename_all = "kebab-case")]
pub enum Source {
    /// Directory on this machine.
    Directory {
        /// Canonical path.
        path: PathBuf,
    },
    /// Archive on this machine.
    Archive {
        /// Canonical path.
        path: PathBuf,
    },
    /// Repository.
    Git {
        /// Address of the repository.
        url: String,
        /// Directory of the bundle in the repository; `None` for the root.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path: Option<String>,
        /// Branch or tag; `None` for the default branch.
        #[serde(default, skip_serializing_if = "Option::is_none", rename = "ref")]
        reference: Option<String>,
        /// Required commit.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sha: Option<String>,
    },
    /// Entry of a marketplace that was added before.
    Marketplace {
        /// Name of the bundle in the marketplace.
        plugin: String,
        /// Name of the marketplace.
        marketplace: String,
    },
}

/// Reason why a text is no origin.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The path does not exist, and the text has no other valid form.
    #[error(
        "`{0}` is no directory, no .tar.gz or .zip, no address of a repository and no NAME@MARKETPLACE that there is"
    )]
    Nothing(String),
    /// The file is no archive.
    #[error("`{0}` is a file, but no .tar.gz, .tgz or .zip")]
    NoArchive(String),
    /// The address cannot be used.
    #[error("the address `{url}` {why}")]
    Address {
        /// Address, without its user.
        url: String,
        /// Reason why it is refused.
        why: &'static str,
    },
}

impl Source {
    /// Parses what a person typed: a path, an address of a repository (with `#BRANCH` at its end, or `OWNER/REPOSITORY`
    /// for one on GitHub), or `NAME@MARKETPLACE`.
    ///
    /// # Errors
    /// [`SourceError`].
    pub fn parse(text: &str, cwd: &Path) -> Result<Self, SourceError> {
        let text = text.trim();
        if let Some((plugin, marketplace)) = text.split_once('@')
            && is_bundle_name(plugin)
            && is_bundle_name(marketplace)
            && !cwd.join(text).exists()
        {
            let (plugin, marketplace) = (plugin.to_owned(), marketplace.to_owned());
            return Ok(Self::Marketplace { plugin, marketplace });
        }
        let is_address = text.contains("://") || text.contains("::") || is_scp_address(text);
        if is_address {
            let (url, reference) = match text.split_once('#') {
                Some((url, reference)) => (url, Some(reference.to_owned())),
                None => (text, None),
            };
            return Self::git(url, None, reference, None);
        }
        if let Ok(path) = cwd.join(text).canonicalize() {
            return match (path.is_dir(), ARCHIVE_ENDINGS.iter().any(|ending| text.ends_with(ending))) {
                (true, _) => Ok(Self::Directory { path }),
                (false, true) => Ok(Self::Archive { path }),
                (false, false) => Err(SourceError::NoArchive(visible_line(text))),
            };
        }
        match text.split_once('/') {
            Some((owner, repository)) if is_bundle_name(owner) && is_bundle_name(repository) => {
                Self::git(&format!("https://github.com/{text}.git"), None, None, None)
            }
            Some(_) | None => Err(SourceError::Nothing(visible_line(text))),
        }
    }

    /// Repository at an address, checked.
    ///
    /// # Errors
    /// [`SourceError::Address`] for a scheme that could start programs, and for an address with a password in it.
    pub fn git(
        url: &str,
        path: Option<String>,
        reference: Option<String>,
        sha: Option<String>,
    ) -> Result<Self, SourceError> {
        let scheme = SCHEMES.iter().find_map(|scheme| url.strip_prefix(scheme));
        let authority = scheme.map(|rest| rest.split('/').next().unwrap_or_default());
        let refused = |why| {
            let shown = match (authority, url.split_once('@')) {
                (Some(_), Some((_, rest))) => format!("…@{rest}"),
                _ => url.to_owned(),
            };
            Err(SourceError::Address { url: visible_line(&shown), why })
        };
        if authority.is_none() && !is_scp_address(url) {
            return refused("is none of https, ssh and file, so git does not fetch from it");
        }
        if url.starts_with('-') || url.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return refused("has characters that no address has");
        }
        let has_password = authority.is_some_and(|authority| {
            authority.rsplit_once('@').is_some_and(|(user, _)| user.contains(':') || url.starts_with("http"))
        });
        if has_password {
            return refused(
                "has a password or token in it, which would be stored; let git's credential helper give it",
            );
        }
        if reference.as_deref().is_some_and(|name| !is_reference(name)) {
            return refused("has a branch or tag behind `#` that cannot be one");
        }
        if sha.as_deref().is_some_and(|sha| sha.len() != 40 || !sha.chars().all(|c| c.is_ascii_hexdigit())) {
            return refused("comes with a commit that is no SHA-1 of 40 digits");
        }
        Ok(Self::Git { url: url.to_owned(), path, reference, sha })
    }
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Directory { path } | Self::Archive { path } => {
                f.write_str(&visible_line(&path.display().to_string()))
            }
            Self::Git { url, path, reference, .. } => {
                f.write_str(&visible_line(url))?;
                if let Some(reference) = reference {
                    write!(f, "#{}", visible_line(reference))?;
                }
                match path {
                    Some(path) => write!(f, " ({})", visible_line(path)),
                    None => Ok(()),
                }
            }
            Self::Marketplace { plugin, marketplace } => write!(f, "{plugin}@{marketplace}"),
        }
    }
}

/// Whether a text is an address in the form of `scp`: `user@host:path`.
fn is_scp_address(text: &str) -> bool {
    let Some((host, path)) = text.split_once(':') else { return false };
    let is_host = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let (user, host) = host.split_once('@').unwrap_or(("", host));
    !user.is_empty()
        && user.chars().all(is_host)
        && host.starts_with(|c: char| c.is_ascii_alphanumeric())
        && host.chars().all(is_host)
        && !path.is_empty()
        && !path.starts_with([':', '-'])
}

/// Whether a text can name a branch or tag, and is not an option of git.
fn is_reference(name: &str) -> bool {
    let is_usable = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/' | '+');
    !name.is_empty()
        && !name.starts_with(['-', '/', '.'])
        && name.chars().all(is_usable)
        && !name.contains("..")
}
