use std::path::Path;
use std::sync::Arc;

use ignore::gitignore::{Gitignore, GitignoreBuilder};

/// Largest ignore file, in bytes.
pub(super) const MAX_BYTES: usize = 1 << 20;

/// Ignore rules of one directory and its parents.
#[derive(Debug, Default)]
pub(super) struct IgnoreRules {
    above: Option<Arc<IgnoreRules>>,
    /// Rules of `.ignore`.
    plain: Option<Gitignore>,
    /// Rules of `.gitignore`.
    git: Option<Gitignore>,
    /// Rules of `.git/info/exclude`.
    exclude: Option<Gitignore>,
    /// Whether the directory is the root of a repository, at which git ignores rules from its parents.
    is_repository: bool,
}

/// Contents of one directory's ignore files.
#[derive(Debug, Default)]
pub(super) struct IgnoreTexts {
    pub(super) plain: Option<Vec<u8>>,
    pub(super) git: Option<Vec<u8>>,
    pub(super) exclude: Option<Vec<u8>>,
    pub(super) is_repository: bool,
}

impl IgnoreRules {
    /// Rules of `dir` on top of those of its parent.
    pub(super) fn new(dir: &Path, texts: &IgnoreTexts, above: Arc<Self>) -> Arc<Self> {
        let parse = |text: &Option<Vec<u8>>, name: &str| parse(dir, &dir.join(name), text.as_deref()?);
        let rules = Self {
            plain: parse(&texts.plain, ".ignore"),
            git: parse(&texts.git, ".gitignore"),
            exclude: parse(&texts.exclude, ".git/info/exclude"),
            is_repository: texts.is_repository,
            above: None,
        };
        let is_empty = rules.plain.is_none() && rules.git.is_none() && rules.exclude.is_none();
        // A directory without rules is skipped in later checks.
        if is_empty && !rules.is_repository { above } else { Arc::new(Self { above: Some(above), ..rules }) }
    }

    /// Whether a path in this directory is ignored. `.ignore` takes precedence over git's files, and a
    /// directory over its parents.
    pub(super) fn ignores(&self, path: &Path, is_dir: bool) -> bool {
        let (mut plain, mut git, mut exclude) = (None, None, None);
        let mut left_repository = false;
        let mut next = Some(self);
        while let Some(rules) = next {
            plain = plain.or_else(|| verdict(rules.plain.as_ref(), path, is_dir));
            if !left_repository {
                git = git.or_else(|| verdict(rules.git.as_ref(), path, is_dir));
                exclude = exclude.or_else(|| verdict(rules.exclude.as_ref(), path, is_dir));
            }
            left_repository |= rules.is_repository;
            next = rules.above.as_deref();
        }
        plain.or(git).or(exclude).unwrap_or(false)
    }
}

fn parse(dir: &Path, from: &Path, text: &[u8]) -> Option<Gitignore> {
    let mut builder = GitignoreBuilder::new(dir);
    let text = String::from_utf8_lossy(text);
    for line in text.trim_start_matches('\u{feff}').lines() {
        // Invalid lines are skipped, as git does.
        let _ = builder.add_line(Some(from.to_owned()), line);
    }
    builder.build().ok().filter(|rules| !rules.is_empty())
}

fn verdict(rules: Option<&Gitignore>, path: &Path, is_dir: bool) -> Option<bool> {
    let found = rules?.matched(path, is_dir);
    if found.is_ignore() {
        Some(true)
    } else if found.is_whitelist() {
        Some(false)
    } else {
        None
    }
}
