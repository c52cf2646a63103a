pub(crate) mod names;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use toml::Table;

/// Checkout in which the program runs, or a similar tree in a test.
pub(crate) struct Workspace {
    root: PathBuf,
}

/// Text file of the checkout.
pub(crate) struct Text {
    /// Path relative to the root, with `/`.
    pub(crate) path: String,
    pub(crate) text: String,
}

/// Package of the workspace.
pub(crate) struct Package {
    /// Name for cargo and registries.
    pub(crate) name: String,
    /// Path relative to the root, with `/`.
    pub(crate) dir: String,
    pub(crate) manifest: Table,
}

impl Package {
    /// Name by which people call it.
    pub(crate) fn folder(&self) -> &str {
        self.dir.rsplit('/').next().unwrap_or(&self.dir)
    }

    /// Whether it can be published.
    pub(crate) fn is_published(&self) -> bool {
        let publish = self.manifest.get("package").and_then(|package| package.get("publish"));
        publish.and_then(toml::Value::as_bool) != Some(false)
    }

    /// Arguments in its `package.metadata.example.run`, with which it runs as an example.
    pub(crate) fn example_args(&self) -> Vec<String> {
        let about = self
            .manifest
            .get("package")
            .and_then(|package| package.get("metadata")?.get("example")?.get("run"));
        let args = about.and_then(toml::Value::as_array).into_iter().flatten();
        args.filter_map(|arg| arg.as_str().map(str::to_owned)).collect()
    }
}

/// Folders that are skipped; findings of a fuzzer may look like text files.
const NOT_OURS: [&str; 5] = ["target", ".git", "node_modules", "corpus", "artifacts"];

impl Workspace {
    /// Workspace around the current folder. A program that another checkout built into a shared target folder
    /// checks the checkout in which it runs.
    pub(crate) fn here() -> Result<Self> {
        let current = std::env::current_dir().context("cannot tell the current folder")?;
        Self::around(&current)
    }

    fn around(folder: &Path) -> Result<Self> {
        let is_root = |dir: &&Path| dir.join("xtask/Cargo.toml").is_file() && dir.join("crates").is_dir();
        let root = folder.ancestors().find(is_root).with_context(|| {
            format!("{} is in no checkout of zk; run `cargo xtask` inside of one", folder.display())
        })?;
        Ok(Self::at(root))
    }

    pub(crate) fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// All text files, sorted by path.
    pub(crate) fn texts(&self) -> Result<Vec<Text>> {
        let mut paths = Vec::new();
        collect(&self.root, &mut paths)?;
        paths.sort();
        let mut texts = Vec::new();
        for path in paths {
            // A file with invalid UTF-8 is no text file.
            if let Ok(text) = String::from_utf8(fs::read(&path)?) {
                texts.push(Text { path: self.relative(&path)?, text });
            }
        }
        Ok(texts)
    }

    /// Packages of `crates/` and `xtask`, sorted by name.
    pub(crate) fn packages(&self) -> Result<Vec<Package>> {
        let mut dirs = self.folders("crates")?;
        dirs.push(self.root.join("xtask"));
        self.packages_in(dirs)
    }

    /// Packages of `examples/`, which use zk from outside, sorted by name.
    pub(crate) fn example_packages(&self) -> Result<Vec<Package>> {
        self.packages_in(self.folders("examples")?)
    }

    fn folders(&self, of: &str) -> Result<Vec<PathBuf>> {
        let of = self.root.join(of);
        let entries = fs::read_dir(&of).with_context(|| format!("no {}", of.display()))?;
        entries.map(|entry| Ok(entry?.path())).collect()
    }

    fn packages_in(&self, mut dirs: Vec<PathBuf>) -> Result<Vec<Package>> {
        dirs.retain(|dir| dir.join("Cargo.toml").is_file());
        dirs.sort();
        dirs.iter()
            .map(|dir| {
                let path = dir.join("Cargo.toml");
                let manifest: Table = fs::read_to_string(&path)?
                    .parse()
                    .with_context(|| format!("{} does not parse", path.display()))?;
                let name = manifest.get("package").and_then(|package| package.get("name")?.as_str());
                let name = name.with_context(|| format!("{} names no package", path.display()))?.to_owned();
                Ok(Package { name, dir: self.relative(dir)?, manifest })
            })
            .collect()
    }

    /// Names of the examples of `package`.
    pub(crate) fn examples(&self, package: &Package) -> Result<Vec<String>> {
        let dir = self.root.join(&package.dir).join("examples");
        let mut names = Vec::new();
        if dir.is_dir() {
            for entry in fs::read_dir(dir)? {
                let path = entry?.path();
                if path.extension().is_some_and(|extension| extension == "rs")
                    && let Some(name) = path.file_stem().and_then(|name| name.to_str())
                {
                    names.push(name.to_owned());
                }
            }
        }
        names.sort();
        Ok(names)
    }

    fn relative(&self, path: &Path) -> Result<String> {
        let parts = path.strip_prefix(&self.root)?.components();
        Ok(parts.map(|part| part.as_os_str().to_string_lossy().into_owned()).collect::<Vec<_>>().join("/"))
    }
}

fn collect(dir: &Path, into: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        // In a linked worktree `.git` is a file.
        if NOT_OURS.iter().any(|name| entry.file_name() == *name) {
            continue;
        }
        if kind.is_dir() {
            collect(&entry.path(), into)?;
        } else if kind.is_file() {
            into.push(entry.path());
        }
    }
    Ok(())
}
