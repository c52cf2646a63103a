use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::entry::Entry;
use crate::run::Run;

/// Scripts of shells: the name of the shell, and the file's name.
pub(crate) const COMPLETIONS: [(&str, &str); 5] = [
    ("bash", "zk.bash"),
    ("zsh", "_zk"),
    ("fish", "zk.fish"),
    ("powershell", "zk.ps1"),
    ("nushell", "zk.nu"),
];

/// Files that every package has beside the program.
pub(super) struct Contents {
    /// Names and texts of manual pages.
    pub(super) pages: Vec<(String, Vec<u8>)>,
    /// Shell, file name and text.
    pub(super) completions: Vec<(&'static str, &'static str, Vec<u8>)>,
    /// Licences of zk, and notices of what it is built of.
    pub(super) texts: Vec<Entry>,
}

impl Contents {
    /// Asks `program`, which runs on this machine, for pages and scripts.
    pub(super) fn of(root: &Path, program: &Path, notices: String) -> Result<Self> {
        let name = program.to_string_lossy().into_owned();
        let dir = root.join("target/dist-pages");
        if dir.exists() {
            fs::remove_dir_all(&dir)?;
        }
        Run::new(&name, &["debug", "man", &dir.to_string_lossy()], root).wait()?;
        let mut pages = Vec::new();
        for entry in fs::read_dir(&dir).with_context(|| format!("no pages in {}", dir.display()))? {
            let entry = entry?;
            pages.push((entry.file_name().to_string_lossy().into_owned(), fs::read(entry.path())?));
        }
        pages.sort();
        fs::remove_dir_all(&dir)?;
        anyhow::ensure!(!pages.is_empty(), "`{name} debug man` wrote no page");
        let completions = COMPLETIONS
            .into_iter()
            .map(|(shell, file)| Ok((shell, file, Run::new(&name, &["completions", shell], root).output()?)));
        let mut texts = Vec::new();
        for name in ["LICENSE-APACHE", "LICENSE-MIT", "README.md"] {
            let bytes = fs::read(root.join(name)).with_context(|| format!("there is no {name}"))?;
            texts.push(Entry::file(name, bytes));
        }
        texts.push(Entry::file("THIRD-PARTY-NOTICES", notices));
        Ok(Self { pages, completions: completions.collect::<Result<_>>()?, texts })
    }

    /// Files of an archive, below one folder.
    pub(super) fn archive(&self, program: &[u8], folder: &str) -> Vec<Entry> {
        let mut entries = vec![Entry::program("zk", program)];
        entries.extend(self.texts.iter().cloned());
        entries
            .extend(self.pages.iter().map(|(name, text)| Entry::file(format!("man/{name}"), text.clone())));
        let completions = self.completions.iter();
        entries.extend(
            completions.map(|(_, file, text)| Entry::file(format!("completions/{file}"), text.clone())),
        );
        entries.iter().map(|entry| entry.below(folder)).collect()
    }

    /// Files at their places in a system, without a leading `/`; `zsh_functions` is a directory of `fpath` there.
    pub(super) fn system(&self, program: &[u8], zsh_functions: &str) -> Result<Vec<Entry>> {
        let mut entries = vec![Entry::program("usr/bin/zk", program)];
        for text in &self.texts {
            entries.push(text.below("usr/share/doc/zk"));
        }
        for (name, page) in &self.pages {
            entries.push(Entry::file(format!("usr/share/man/man1/{name}.gz"), super::entry::gzip(page)?));
        }
        for (shell, file, text) in &self.completions {
            let place = match *shell {
                "bash" => "usr/share/bash-completion/completions/zk".to_owned(),
                "zsh" => format!("{zsh_functions}/{file}"),
                "fish" => "usr/share/fish/vendor_completions.d/zk.fish".to_owned(),
                _ => {
                    entries.push(Entry::file(format!("usr/share/zk/completions/{file}"), text.clone()));
                    continue;
                }
            };
            entries.push(Entry::file(place, text.clone()));
        }
        Ok(entries)
    }
}
