mod index;

use std::fs;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{Mode, OFlags, open};

/// Largest configuration file that is read, in bytes.
const MAX_CONFIGURATION_BYTES: u64 = 64 * 1024;
/// Largest index that is read, in bytes.
const MAX_INDEX_BYTES: u64 = 256 << 20;
/// Maximum number of levels of nested repositories that are checked.
const MAX_REPOSITORY_DEPTH: usize = 4;

/// Harmless sections of a repository's configuration, with their harmless keys; an empty list means all keys.
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

/// Whether a read-only git starts no program of this repository: its configuration has only keys known to be
/// harmless, it has no submodules and no hook that runs after a look at the index, and the same holds for
/// each repository that its index refers to. Returns false for anything unusual, such as a `.git` that git
/// would ignore in favour of an outer repository.
#[must_use]
pub fn starts_nothing(root: &Path) -> bool {
    starts_nothing_at(root, MAX_REPOSITORY_DEPTH)
}

fn starts_nothing_at(root: &Path, depth: usize) -> bool {
    let git = root.join(".git");
    if !fs::symlink_metadata(&git).is_ok_and(|found| found.is_dir()) || !is_git_directory(&git) {
        return false;
    }
    let is_absent = |name: &str| fs::symlink_metadata(git.join(name)).is_err();
    if !["modules", "commondir", "config.worktree", "hooks/post-index-change"].into_iter().all(is_absent) {
        return false;
    }
    let is_part_harmless = |part: &PathBuf| {
        let part = root.join(part);
        fs::symlink_metadata(part.join(".git")).is_err()
            || depth.checked_sub(1).is_some_and(|depth| starts_nothing_at(&part, depth))
    };
    read(&git.join("config")).is_some_and(|config| is_harmless(&config))
        && gitlinks(&git.join("index")).is_some_and(|parts| parts.iter().all(is_part_harmless))
}

/// Whether git accepts a directory as a git directory.
fn is_git_directory(git: &Path) -> bool {
    let is_directory = |name: &str| fs::metadata(git.join(name)).is_ok_and(|found| found.is_dir());
    let names_commit = |head: &str| {
        let head = head.trim_end();
        let target = head.strip_prefix("ref:").map(str::trim_start);
        let is_hash = || head.len() >= 40 && head.bytes().all(|byte| byte.is_ascii_hexdigit());
        target.map_or_else(is_hash, |target| target.starts_with("refs/"))
    };
    is_directory("objects")
        && is_directory("refs")
        && read(&git.join("HEAD")).is_some_and(|head| names_commit(&head))
}

/// Identity of a file's content: device, inode, length, and time of the last change.
type State = (u64, u64, u64, i64, i64);

/// Gitlinks of the index that was read last.
struct KnownIndex {
    path: PathBuf,
    state: State,
    parts: Option<Vec<PathBuf>>,
}

/// Gitlinks of an index; `None` if they cannot be determined. The last result is cached until the file
/// changes.
fn gitlinks(path: &Path) -> Option<Vec<PathBuf>> {
    static LAST_INDEX: Mutex<Option<KnownIndex>> = Mutex::new(None);
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match open(path, flags, Mode::empty()) {
        Ok(file) => fs::File::from(file),
        // A new repository has no index.
        Err(rustix::io::Errno::NOENT) => return Some(Vec::new()),
        Err(_) => return None,
    };
    let found = file.metadata().ok().filter(|found| found.is_file() && found.len() <= MAX_INDEX_BYTES)?;
    let state = (found.dev(), found.ino(), found.len(), found.ctime(), found.ctime_nsec());
    let mut last = LAST_INDEX.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = last.as_ref().filter(|known| known.path == path && known.state == state) {
        return known.parts.clone();
    }
    let mut bytes = Vec::new();
    file.take(MAX_INDEX_BYTES + 1).read_to_end(&mut bytes).ok()?;
    let parts = index::gitlinks(&bytes);
    *last = Some(KnownIndex { path: path.to_owned(), state, parts: parts.clone() });
    parts
}

/// Reads a small regular file. It is opened once, so that the checked file is the one that is read; links are
/// refused, and a pipe does not block.
pub(crate) fn read(path: &Path) -> Option<String> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = fs::File::from(open(path, flags, Mode::empty()).ok()?);
    let found =
        file.metadata().ok().filter(|found| found.is_file() && found.len() <= MAX_CONFIGURATION_BYTES)?;
    let mut text = String::with_capacity(usize::try_from(found.len()).unwrap_or_default());
    // A file that has grown meanwhile is too large as well.
    let read = file.take(MAX_CONFIGURATION_BYTES + 1).read_to_string(&mut text).ok()?;
    (read as u64 <= MAX_CONFIGURATION_BYTES).then_some(text)
}

fn is_harmless(config: &str) -> bool {
    let mut keys: Option<&[&str]> = None;
    config.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with(['#', ';'])).all(
        |line| {
            // Continued lines, and keys on the line of their section, are not parsed.
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
            // `ext::` and similar addresses name a program, also in the quoted form `ext":":`.
            let is_plain = !value.contains("::") && !value.contains(['"', '\\']);
            keys.is_some_and(|keys| keys.contains(&key.as_str())) && is_plain
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
            "[remote \"x\"]\n\turl = ext\":\":sh -c x\n",
            "[remote \"x\"]\n\turl = ext\"\"::sh -c x\n",
            "[remote \"x\"]\n\turl = \"ext:\":sh -c x\n",
            "[user]\n\tname = a\\tb\n",
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

    #[expect(clippy::disallowed_methods, reason = "the real git makes what is looked at")]
    fn git(dir: &Path, args: &[&str]) -> bool {
        let mut command = std::process::Command::new("git");
        command.args(["-c", "user.name=x", "-c", "user.email=x@x"]).args(args).current_dir(dir);
        command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
        command.status().is_ok_and(|status| status.success())
    }

    #[test]
    fn a_repository_in_the_index_counts_as_the_one_that_names_it() {
        let dir = tempfile::tempdir().unwrap();
        let (root, sub) = (dir.path(), dir.path().join("a-directory/with/a-long-name-for-its-depth/sub"));
        for (format, version) in [("sha256", "2"), ("sha1", "2"), ("sha1", "3"), ("sha1", "4")] {
            let _ = fs::remove_dir_all(root.join(".git"));
            let _ = fs::remove_dir_all(root.join("a-directory"));
            fs::create_dir_all(&sub).unwrap();
            for name in ["first", "second", "z"] {
                fs::write(root.join(name), name).unwrap();
                fs::write(sub.parent().unwrap().join(name), name).unwrap();
            }
            let object_format = format!("--object-format={format}");
            if !git(root, &["init", "-q", "--template=", &object_format]) {
                continue;
            }
            assert!(git(&sub, &["init", "-q", "--template=", &object_format]));
            assert!(git(&sub, &["commit", "-q", "--allow-empty", "-m", "x"]));
            assert!(git(root, &["add", "first"]));
            assert!(git(root, &["update-index", "--index-version", version]));
            // An intent-to-add entry has extended flags.
            assert!(git(root, &["add", "-N", "second"]));
            let found = gitlinks(&root.join(".git/index"));
            if format == "sha256" {
                assert_eq!(found, None, "its extension is refused before");
                continue;
            }
            assert!(found.unwrap().is_empty());
            assert!(git(root, &["add", "."]));
            let part = sub.strip_prefix(root).unwrap();
            assert_eq!(gitlinks(&root.join(".git/index")).unwrap(), [part], "{version}");
            assert!(starts_nothing(root));
            assert!(git(&sub, &["config", "core.fsmonitor", "x"]));
            assert!(!starts_nothing(root));
            fs::rename(sub.join(".git"), sub.join("git")).unwrap();
            assert!(starts_nothing(root), "there is no repository");
        }
        assert!(
            git(root, &["update-index", "--split-index"]) && gitlinks(&root.join(".git/index")).is_none()
        );
    }

    #[test]
    fn a_repository_with_more_than_a_plain_configuration_starts_something() {
        let dir = tempfile::tempdir().unwrap();
        let git = dir.path().join(".git");
        assert!(!starts_nothing(dir.path()));
        fs::create_dir_all(git.join("hooks")).unwrap();
        assert!(!starts_nothing(dir.path()));
        fs::write(git.join("config"), PLAIN).unwrap();
        for name in ["objects", "refs"] {
            assert!(!starts_nothing(dir.path()), "git looks for another one");
            fs::create_dir(git.join(name)).unwrap();
        }
        for (head, is_one) in [("", false), ("x", false), ("ref: x", false), ("ref: refs/heads/main\n", true)]
        {
            fs::write(git.join("HEAD"), head).unwrap();
            assert_eq!(starts_nothing(dir.path()), is_one, "{head}");
        }
        // A link as configuration is not followed, a pipe does not block, and a large file is refused.
        let (config, plain) = (git.join("config"), git.join("plain"));
        let others: [&dyn Fn(); 4] = [
            &|| std::os::unix::fs::symlink("plain", &config).unwrap(),
            &|| fs::create_dir(&config).unwrap(),
            &|| mknodat(CWD, &config, FileType::Fifo, Mode::RWXU, 0).unwrap(),
            &|| fs::write(&config, PLAIN.repeat(MAX_CONFIGURATION_BYTES as usize / PLAIN.len() + 1)).unwrap(),
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
