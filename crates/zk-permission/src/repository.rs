use std::fs;
use std::io::Read;
use std::path::Path;

use rustix::fs::{Mode, OFlags, open};

/// The largest configuration that is looked at, in bytes.
const MAX_BYTES: u64 = 64 * 1024;

/// Sections of a repository's configuration that start nothing, with the keys that are known; all if empty.
const HARMLESS: [(&str, &[&str]); 6] = [
    (
        "core",
        &[
            "repositoryformatversion",
            "filemode",
            "bare",
            "logallrefupdates",
            "ignorecase",
            "precomposeunicode",
            "symlinks",
            "autocrlf",
            "eol",
            "safecrlf",
            "longpaths",
            "abbrev",
        ],
    ),
    ("remote", &["url", "fetch", "pushurl", "tagopt", "prune", "gh-resolved"]),
    ("branch", &["remote", "merge", "rebase", "vscode-merge-base", "description"]),
    ("user", &["name", "email"]),
    ("pull", &["rebase", "ff"]),
    ("init", &["defaultbranch"]),
];

/// Whether git starts no program of this repository when it only reads: its configuration has nothing but well-known
/// harmless keys, it has no submodules and no hook that follows a look at the index. Anything unusual is a no.
#[must_use]
pub fn starts_nothing(root: &Path) -> bool {
    let git = root.join(".git");
    if !fs::symlink_metadata(&git).is_ok_and(|found| found.is_dir()) {
        return false;
    }
    let is_absent = |name: &str| fs::symlink_metadata(git.join(name)).is_err();
    if !["modules", "commondir", "config.worktree", "hooks/post-index-change"].into_iter().all(is_absent) {
        return false;
    }
    read(&git.join("config")).is_some_and(|config| is_harmless(&config))
}

/// A file that is not too large. It is opened once, so that what was looked at is what is read: no link, and no pipe that
/// makes whoever opens it wait.
pub(crate) fn read(path: &Path) -> Option<String> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = fs::File::from(open(path, flags, Mode::empty()).ok()?);
    let found = file.metadata().ok().filter(|found| found.is_file() && found.len() <= MAX_BYTES)?;
    let mut text = String::with_capacity(usize::try_from(found.len()).unwrap_or_default());
    // One that grew meanwhile is too large as well.
    let read = file.take(MAX_BYTES + 1).read_to_string(&mut text).ok()?;
    (read as u64 <= MAX_BYTES).then_some(text)
}

fn is_harmless(config: &str) -> bool {
    let mut keys: Option<&[&str]> = None;
    config.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with(['#', ';'])).all(
        |line| {
            // A value that goes on, or a key behind a section on one line, is not looked into.
            if line.ends_with('\\') {
                return false;
            }
            if let Some(section) = line.strip_prefix('[') {
                let Some(section) = section.strip_suffix(']') else { return false };
                let name = section.split([' ', '.', '\t']).next().unwrap_or_default().to_ascii_lowercase();
                keys = HARMLESS.iter().find(|(known, _)| *known == name).map(|(_, keys)| *keys);
                return keys.is_some() && !section.contains(']');
            }
            let (key, value) = line.split_once('=').unwrap_or((line, ""));
            let key = key.trim().to_ascii_lowercase();
            // `ext::` and its like name a program as an address.
            keys.is_some_and(|keys| keys.contains(&key.as_str())) && !value.contains("::")
        },
    )
}

#[cfg(test)]
mod tests {
    use rustix::fs::{CWD, FileType, mknodat};

    use super::*;

    const PLAIN: &str = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n[remote \"origin\"]\n\turl = \
                         git@example.org:a/b.git\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n[branch \"main\"]\n\tremote = \
                         origin\n\tmerge = refs/heads/main\n";

    #[test]
    fn a_configuration_that_names_programs_starts_something() {
        assert!(is_harmless(PLAIN) && is_harmless(""));
        for more in [
            "[core]\n\tfsmonitor = sh x\n",
            "[core]\n\thooksPath = x\n",
            "[core]\n\tpager = sh\n",
            "[core]\n\tsshCommand = sh\n",
            "[core] fsmonitor = sh x\n",
            "[core]\n\tfile\\\nmode = x\n",
            "[diff]\n\texternal = sh\n",
            "[diff \"x\"]\n\ttextconv = sh\n",
            "[filter \"x\"]\n\tclean = sh\n",
            "[alias]\n\tstatus = !sh\n",
            "[include]\n\tpath = x\n",
            "[includeIf \"gitdir:x\"]\n\tpath = x\n",
            "[gpg]\n\tprogram = sh\n",
            "[log]\n\tshowSignature = true\n",
            "[extensions]\n\tworktreeConfig = true\n",
            "[submodule \"x\"]\n\turl = x\n",
            "[credential]\n\thelper = sh\n",
            "[remote \"x\"]\n\turl = ext::sh\n",
            "[remote \"x\"]\n\tuploadpack = sh\n",
            "[remote \"]\n[core\"]\n\tfsmonitor = x\n",
            "stray = x\n",
        ] {
            assert!(
                !is_harmless(&format!("{PLAIN}{more}")) || more == "stray = x\n" && !is_harmless(more),
                "{more}"
            );
        }
    }

    #[test]
    fn a_repository_with_more_than_a_plain_configuration_starts_something() {
        let dir = tempfile::tempdir().unwrap();
        let git = dir.path().join(".git");
        assert!(!starts_nothing(dir.path()));
        fs::create_dir_all(git.join("hooks")).unwrap();
        assert!(!starts_nothing(dir.path()));
        fs::write(git.join("config"), PLAIN).unwrap();
        assert!(starts_nothing(dir.path()));
        // Neither followed, nor waited for, nor read on and on.
        let (config, plain) = (git.join("config"), git.join("plain"));
        let others: [&dyn Fn(); 4] = [
            &|| std::os::unix::fs::symlink("plain", &config).unwrap(),
            &|| fs::create_dir(&config).unwrap(),
            &|| mknodat(CWD, &config, FileType::Fifo, Mode::RWXU, 0).unwrap(),
            &|| fs::write(&config, PLAIN.repeat(MAX_BYTES as usize / PLAIN.len() + 1)).unwrap(),
        ];
        for put in others {
            fs::rename(&config, &plain).unwrap();
            put();
            assert!(!starts_nothing(dir.path()));
            fs::remove_file(&config).or_else(|_| fs::remove_dir(&config)).unwrap();
            fs::rename(&plain, &config).unwrap();
        }
        assert!(starts_nothing(dir.path()));
        for name in ["modules", "commondir", "config.worktree", "hooks/post-index-change"] {
            fs::write(git.join(name), "").unwrap();
            assert!(!starts_nothing(dir.path()), "{name}");
            fs::remove_file(git.join(name)).unwrap();
        }
        fs::rename(&git, dir.path().join("elsewhere")).unwrap();
        fs::write(&git, "gitdir: elsewhere\n").unwrap();
        assert!(!starts_nothing(dir.path()));
    }
}
