//! Description of a conversation's place: directory, branch and model.

use std::path::{Component, Path, PathBuf};

use zk_core::service::{HostFiles, HostRead};

/// Maximum size of a file of git to read, in bytes.
const MAX_GIT_FILE_BYTES: usize = 4096;

/// Length of an abbreviated commit hash.
const COMMIT_CHARS: usize = 7;

/// Working directory and its branch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Workplace {
    /// Abbreviated path of the directory: `~` stands for home.
    pub(crate) directory: String,
    /// Branch, or the abbreviated commit if detached; empty outside of a repository.
    pub(crate) branch: String,
}

impl Workplace {
    /// Workplace of `cwd`; the branch is read from the files of git, without a subprocess.
    pub(crate) fn of(cwd: &Path, home: Option<&Path>, files: &dyn HostFiles) -> Self {
        Self { directory: short_path(cwd, home), branch: git_branch(cwd, files).unwrap_or_default() }
    }

    /// Directory and branch, as one text.
    pub(crate) fn describe(&self) -> String {
        if self.branch.is_empty() {
            self.directory.clone()
        } else {
            format!("{} · {}", self.directory, self.branch)
        }
    }
}

fn short_path(cwd: &Path, home: Option<&Path>) -> String {
    let below =
        home.filter(|home| home.components().count() > 1).and_then(|home| cwd.strip_prefix(home).ok());
    match below {
        Some(rest) if rest.as_os_str().is_empty() => "~".to_owned(),
        Some(rest) => format!("~/{}", rest.display()),
        None => cwd.display().to_string(),
    }
}

/// Branch of the git repository that `cwd` is in, or the abbreviated commit if detached. Read from the files of git, without
/// a subprocess.
#[must_use]
pub fn git_branch(cwd: &Path, files: &dyn HostFiles) -> Option<String> {
    let root = cwd.ancestors().find(|dir| files.owner(&dir.join(".git")).is_ok())?;
    let git = root.join(".git");
    let read = |path: &Path| {
        let file = files.read(path, &HostRead::whole(MAX_GIT_FILE_BYTES)).ok()?;
        Some(String::from_utf8_lossy(&file.bytes).trim().to_owned())
    };
    // In a worktree and in a submodule it is a file that names the directory.
    let head = match read(&git.join("HEAD")) {
        Some(head) => head,
        None => read(&join_normalised(root, read(&git)?.strip_prefix("gitdir:")?.trim()).join("HEAD"))?,
    };
    match head.strip_prefix("ref:") {
        Some(name) => {
            let name = name.trim();
            Some(name.strip_prefix("refs/heads/").unwrap_or(name).to_owned())
        }
        None => {
            head.chars().all(|c| c.is_ascii_hexdigit()).then(|| head.chars().take(COMMIT_CHARS).collect())
        }
    }
}

/// Joins `path` to `root` unless absolute, without `..` in the result.
fn join_normalised(root: &Path, path: &str) -> PathBuf {
    let mut whole = PathBuf::new();
    for part in root.join(path).components() {
        match part {
            Component::ParentDir => _ = whole.pop(),
            Component::CurDir => {}
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => whole.push(part),
        }
    }
    whole
}

/// Display name of a model whose id has words and a version: `Claude Sonnet 5.5` for `claude-sonnet-5-5`.
/// Other ids stay as they are.
pub(crate) fn model_title(id: &str) -> String {
    let parts: Vec<&str> = id.split('-').collect();
    let is_number =
        |part: &&str| !part.is_empty() && part.len() <= 2 && part.bytes().all(|byte| byte.is_ascii_digit());
    let is_word = |part: &&str| part.len() > 3 && part.bytes().all(|byte| byte.is_ascii_lowercase());
    let words = parts.iter().take_while(|part| is_word(part)).count();
    let numbers = parts.iter().skip(words).take_while(|part| is_number(part)).count();
    let date = parts.get(words + numbers..).unwrap_or_default();
    let is_dated = matches!(date, [day] if day.len() == 8 && day.bytes().all(|byte| byte.is_ascii_digit()));
    if words == 0 || numbers == 0 || !(date.is_empty() || is_dated) {
        return id.to_owned();
    }
    let capital = |word: &&str| {
        let mut chars = word.chars();
        chars.next().into_iter().flat_map(char::to_uppercase).chain(chars).collect::<String>()
    };
    let named: Vec<String> = parts.iter().take(words).map(capital).collect();
    let version: Vec<&str> = parts.iter().skip(words).take(numbers).copied().collect();
    format!("{} {}", named.join(" "), version.join("."))
}

/// Display name without the maker's name, if the rest still has a name and a version.
pub(crate) fn short_model_title(id: &str) -> String {
    let title = model_title(id);
    match title.split_once(' ') {
        Some((_, rest)) if rest.contains(' ') && title != id => rest.to_owned(),
        Some(_) | None => title,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn place(cwd: &Path, home: &Path) -> Workplace {
        Workplace::of(cwd, Some(home), &zk_exec::LocalHostFiles::default())
    }

    #[test]
    fn a_directory_is_told_from_the_home_on_with_the_branch_of_its_repository() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().canonicalize().unwrap();
        let repo = home.join("src/shop");
        fs::create_dir_all(repo.join(".git")).unwrap();
        fs::create_dir_all(repo.join("deep/er")).unwrap();
        fs::write(repo.join(".git/HEAD"), "ref: refs/heads/fix/cart\n").unwrap();
        assert_eq!(place(&repo.join("deep/er"), &home).describe(), "~/src/shop/deep/er · fix/cart");
        fs::write(repo.join(".git/HEAD"), "0123456789abcdef0123456789abcdef01234567\n").unwrap();
        assert_eq!(place(&repo, &home).branch, "0123456");
        fs::write(repo.join(".git/HEAD"), "\u{1b}[2J garbage").unwrap();
        assert_eq!(place(&repo, &home).branch, "");
        assert_eq!(place(&home, &home).describe(), "~");
        assert_eq!(place(Path::new("/"), &home).directory, "/");
    }

    #[test]
    fn a_worktree_shows_its_own_branch() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().canonicalize().unwrap();
        let (tree, git) = (home.join("tree"), home.join("main/.git/worktrees/tree"));
        fs::create_dir_all(&tree).unwrap();
        fs::create_dir_all(&git).unwrap();
        fs::write(git.join("HEAD"), "ref: refs/heads/other\n").unwrap();
        for named in [git.display().to_string(), "../main/.git/worktrees/tree".to_owned()] {
            fs::write(tree.join(".git"), format!("gitdir: {named}\n")).unwrap();
            assert_eq!(place(&tree, &home).branch, "other");
        }
    }

    #[test]
    fn a_model_id_with_words_and_a_version_has_a_display_name() {
        for (id, title, short) in [
            ("claude-sonnet-5-5", "Claude Sonnet 5.5", "Sonnet 5.5"),
            ("claude-opus-5-20261101", "Claude Opus 5", "Opus 5"),
            ("scripted-1", "Scripted 1", "Scripted 1"),
            ("gpt-6", "gpt-6", "gpt-6"),
            ("qwen3-coder:30b", "qwen3-coder:30b", "qwen3-coder:30b"),
            ("a/b-1", "a/b-1", "a/b-1"),
            ("", "", ""),
        ] {
            assert_eq!((model_title(id).as_str(), short_model_title(id).as_str()), (title, short));
        }
    }
}
