use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::run::Run;

/// Repository of the checkout.
pub(super) struct Git<'a> {
    root: &'a Path,
}

impl<'a> Git<'a> {
    pub(super) fn new(root: &'a Path) -> Self {
        Self { root }
    }

    pub(super) fn text(&self, args: &[&str]) -> Result<String> {
        let printed = Run::new("git", args, self.root).output()?;
        Ok(String::from_utf8(printed).context("git printed no text")?.trim_end().to_owned())
    }

    pub(super) fn run(&self, args: &[&str]) -> Result<()> {
        Run::new("git", args, self.root).wait()
    }

    pub(super) fn head(&self) -> Result<String> {
        self.text(&["rev-parse", "HEAD"])
    }

    /// File of a commit, if it has one of this path.
    pub(super) fn file(&self, commit: &str, path: &str) -> Result<Option<String>> {
        if self.files(commit, path)?.is_empty() {
            return Ok(None);
        }
        let bytes = Run::new("git", &["show", &format!("{commit}:{path}")], self.root).output()?;
        Ok(Some(String::from_utf8(bytes).with_context(|| format!("{path} is no text"))?))
    }

    /// Paths of a commit at or below `path`, sorted.
    pub(super) fn files(&self, commit: &str, path: &str) -> Result<Vec<String>> {
        let listed = self.text(&["ls-tree", "-r", "--name-only", commit, "--", path])?;
        Ok(listed.lines().map(str::to_owned).collect())
    }

    /// Paths that differ from the commit, new files among them.
    pub(super) fn changed(&self) -> Result<Vec<String>> {
        let listed = Run::new(
            "git",
            &["status", "--porcelain", "-z", "--no-renames", "--untracked-files=all"],
            self.root,
        );
        let listed = String::from_utf8(listed.output()?)?;
        Ok(listed.split('\0').filter_map(|line| line.get(3..).map(str::to_owned)).collect())
    }

    /// Tree of a commit.
    pub(super) fn tree_of(&self, commit: &str) -> Result<String> {
        self.text(&["rev-parse", &format!("{commit}^{{tree}}")])
    }

    /// Tree of the files as they are now, those that git ignores left out. The index stays as it is.
    pub(super) fn tree(&self) -> Result<String> {
        let index = self.root.join("target/release-index");
        fs::create_dir_all(self.root.join("target"))?;
        if index.exists() {
            fs::remove_file(&index)?;
        }
        let name = index.to_string_lossy();
        let git = |args: &[&str]| Run::new("git", args, self.root).env("GIT_INDEX_FILE", &name);
        // An index without times: git compares the contents of all files.
        git(&["read-tree", "HEAD"]).wait()?;
        git(&["add", "--all"]).wait()?;
        let tree = git(&["write-tree"]).output()?;
        fs::remove_file(&index)?;
        Ok(String::from_utf8(tree)?.trim_end().to_owned())
    }

    /// Paths in which two trees differ.
    pub(super) fn differing(&self, one: &str, other: &str) -> Result<Vec<String>> {
        let listed = self.text(&["diff-tree", "-r", "-z", "--name-only", "--no-renames", one, other])?;
        Ok(listed.split_terminator('\0').map(str::to_owned).collect())
    }

    /// Commit that a tag names.
    pub(super) fn tag(&self, name: &str) -> Result<Option<String>> {
        let commit = self.text(&[
            "for-each-ref",
            "--format=%(objectname) %(*objectname)",
            &format!("refs/tags/{name}"),
        ])?;
        // An annotated tag is an object of its own, and names its commit behind that.
        Ok(commit.split_whitespace().last().map(str::to_owned))
    }

    /// First place that has the tag beside this one.
    pub(super) fn pushed_to(&self, tag: &str) -> Result<Option<String>> {
        for remote in self.text(&["remote"])?.lines() {
            let there = self.text(&["ls-remote", "--tags", remote, &format!("refs/tags/{tag}")]);
            let there = there.with_context(|| {
                format!("{remote} does not say whether it has {tag}; undo it when it answers")
            })?;
            if !there.is_empty() {
                return Ok(Some(remote.to_owned()));
            }
        }
        Ok(None)
    }
}
