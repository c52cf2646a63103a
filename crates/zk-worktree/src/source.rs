use std::io::Read;
use std::path::{Path, PathBuf};

use crate::WorktreeError;
use crate::beneath::{Found, Tree, path_from_bytes};
use crate::git::Git;

/// Size in bytes of the part of `.gitattributes` that is searched for the filter of Git LFS.
const MAX_ATTRIBUTES_BYTES: u64 = 1 << 20;

/// The repository that a copy is made of, as far as git tells without changing it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Source {
    /// Root of the work tree.
    pub(crate) root: PathBuf,
    /// Directory of the objects.
    pub(crate) objects: PathBuf,
    /// The commit that is checked out.
    pub(crate) head: String,
    /// Name of the branch, if one is checked out.
    pub(crate) branch: Option<String>,
    /// Format of the object ids: `sha1` or `sha256`.
    pub(crate) format: String,
    /// Files that are tracked, or neither tracked nor ignored, relative to the root.
    pub(crate) files: Vec<PathBuf>,
}

impl Source {
    /// Reads the repository around `cwd`.
    pub(crate) async fn read(git: &Git, cwd: &Path) -> Result<Self, WorktreeError> {
        let wanted = [
            "rev-parse",
            "--path-format=absolute",
            "--show-toplevel",
            "--git-path",
            "objects",
            "--show-object-format",
        ];
        let facts = git.output_in(cwd, &wanted).await.map_err(|error| {
            let why = match error {
                WorktreeError::Git { why, .. } => why,
                other => other.to_string(),
            };
            WorktreeError::NoRepository { dir: cwd.to_owned(), why }
        })?;
        let mut lines = facts.split(|byte| *byte == b'\n');
        let mut line = || lines.next().unwrap_or_default().to_vec();
        let (root, objects, format) =
            (path_from_bytes(&line()), path_from_bytes(&line()), trimmed_text(&line()));
        // The repository's configuration can name any directory as its work tree.
        let real = |path: &Path| path.canonicalize().map_err(|error| WorktreeError::io("find", path, error));
        let (cwd, root) = (real(cwd)?, real(&root)?);
        if !cwd.starts_with(&root) {
            return Err(WorktreeError::Elsewhere { root, dir: cwd });
        }
        let unsupported =
            |what: &str| WorktreeError::Unsupported { root: root.clone(), what: what.to_owned() };
        let head = git.output_in(&root, &["rev-parse", "--verify", "--quiet", "HEAD^{commit}"]).await;
        let head = trimmed_text(&head.map_err(|_| unsupported("no commit yet"))?);
        let branch = git.output_in(&root, &["symbolic-ref", "--quiet", "--short", "HEAD"]).await.ok();
        let staged = git.output_in(&root, &["ls-files", "-z", "--stage"]).await?;
        for entry in staged.split(|byte| *byte == 0).filter(|entry| !entry.is_empty()) {
            if entry.starts_with(b"160000 ") {
                return Err(unsupported("submodules"));
            }
            let facts = entry.split(|byte| *byte == b'\t').next().unwrap_or_default();
            if !facts.ends_with(b" 0") {
                return Err(unsupported("a merge with conflicts in progress"));
            }
        }
        let tagged = git.output_in(&root, &["ls-files", "-z", "-t"]).await?;
        if tagged.split(|byte| *byte == 0).any(|entry| entry.starts_with(b"S ")) {
            return Err(unsupported("a sparse checkout"));
        }
        let listed = ["ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate"];
        let listed = git.output_in(&root, &listed).await?;
        let files: Vec<PathBuf> =
            listed.split(|byte| *byte == 0).filter(|path| !path.is_empty()).map(path_from_bytes).collect();
        let tree = Tree::open(&root).map_err(|error| WorktreeError::io("open", &root, error))?;
        if files.iter().any(|path| path.ends_with(".gitattributes") && uses_git_lfs(&tree, path)) {
            return Err(unsupported("large files by Git LFS"));
        }
        let branch = branch.map(|name| trimmed_text(&name)).filter(|name| !name.is_empty());
        Ok(Self { root, objects, head, branch, format, files })
    }
}

fn trimmed_text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim().to_owned()
}

/// Whether a `.gitattributes` file names the filter of Git LFS. Only the beginning of a large file is searched.
fn uses_git_lfs(tree: &Tree, path: &Path) -> bool {
    let Ok(Some(Found::File { file, .. })) = tree.find(path) else { return false };
    let mut text = Vec::new();
    // An unreadable file is not copied either.
    let _ = file.take(MAX_ATTRIBUTES_BYTES).read_to_end(&mut text);
    String::from_utf8_lossy(&text).lines().any(|line| !line.starts_with('#') && line.contains("filter=lfs"))
}
