//! Conformance checks for stores of workspaces, also for those of other authors.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::future::Future;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use zk_core::service::{Checkpoint, CheckpointOf, WorkspaceError, WorkspaceRef, Workspaces};

use crate::report::Conformance;

/// Longest time for one check.
const LIMIT: Duration = Duration::from_secs(120);

/// Size in bytes of the binary file that the checks carry.
const BINARY_FILE_BYTES: usize = 10 << 20;

/// Preparation of a directory for its first checkpoint.
pub type PrepareDir = Arc<dyn Fn(&Path) + Send + Sync>;

/// Options of [`check_workspaces`].
#[derive(Clone)]
pub struct WorkspaceOptions {
    /// Empty directory for the files of the checks.
    pub dir: PathBuf,
    /// Prepares a directory with its first files, such as by `git init` and a commit.
    pub prepare: PrepareDir,
    /// Whether the store carries all permission bits, not only whether the owner may execute a file.
    pub carries_permissions: bool,
}

impl fmt::Debug for WorkspaceOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkspaceOptions").field("dir", &self.dir).finish_non_exhaustive()
    }
}

/// Checks the contract of [`Workspaces`]: what is carried and what is not, later and earlier references, directories with
/// other files, and wrong references.
///
/// `make` makes the store of a place, which is named by a number: an empty one for a new number, and the store of another
/// machine over the same references for a number that was given before.
///
/// ```no_run
/// # use std::future::Future;
/// # use std::sync::Arc;
/// # use zk_core::service::Workspaces;
/// # async fn check<F: Future<Output = Arc<dyn Workspaces>>>(make: impl Fn(u32) -> F) {
/// use zk_testkit::{WorkspaceOptions, check_workspaces};
///
/// let options = WorkspaceOptions {
///     dir: "/tmp/empty".into(),
///     prepare: Arc::new(|_| ()),
///     carries_permissions: true,
/// };
/// let conformance = check_workspaces(make, &options).await;
/// assert!(conformance.is_met(), "{conformance}");
/// # }
/// ```
pub async fn check_workspaces<F>(make: impl Fn(u32) -> F, options: &WorkspaceOptions) -> Conformance
where
    F: Future<Output = Arc<dyn Workspaces>>,
{
    let mut suite = Suite { make, options, place: 0, found: Conformance::default() };
    suite.check("files come back on another machine", check_files).await;
    suite.check("a later reference has what was changed, removed and renamed", check_changes).await;
    suite.check("an earlier reference stays", check_earlier).await;
    suite.check("unchanged files give the same reference", check_unchanged).await;
    suite.check("ignored files are not carried", check_ignored).await;
    suite.check("a checkpoint changes nothing in its directory", check_untouched).await;
    suite.check("a materialised directory is checkpointed in turn", check_chain).await;
    suite.check("two runs do not meet", check_two_runs).await;
    suite.check("a wrong reference is an error", check_wrong_references).await;
    suite.check("a missing directory is an error", check_missing_directory).await;
    suite.found
}

type Outcome = Result<(), String>;

struct Suite<'a, M> {
    make: M,
    options: &'a WorkspaceOptions,
    place: u32,
    found: Conformance,
}

/// Two stores over the same references, as on two machines, and a directory for the files of one check.
struct Case {
    here: Arc<dyn Workspaces>,
    there: Arc<dyn Workspaces>,
    options: WorkspaceOptions,
    dir: PathBuf,
}

impl<M, F> Suite<'_, M>
where
    M: Fn(u32) -> F,
    F: Future<Output = Arc<dyn Workspaces>>,
{
    async fn check(&mut self, name: &'static str, check: impl AsyncFnOnce(&Case) -> Outcome) {
        self.place += 1;
        let case = Case {
            here: (self.make)(self.place).await,
            there: (self.make)(self.place).await,
            options: self.options.clone(),
            dir: self.options.dir.join(self.place.to_string()),
        };
        let outcome = tokio::time::timeout(LIMIT, check(&case)).await;
        let outcome = outcome.unwrap_or_else(|_| Err(format!("no end within {} s", LIMIT.as_secs())));
        self.found.add_result(name, outcome);
    }
}

impl Case {
    /// Directory with the usual files, prepared for its first checkpoint.
    fn project(&self, name: &str) -> Result<PathBuf, String> {
        let dir = self.dir.join(name);
        let made = || -> io::Result<()> {
            fs::create_dir_all(dir.join("src/deep"))?;
            fs::write(dir.join("src/deep/code.rs"), "fn main() {}\n")?;
            fs::write(dir.join("empty"), "")?;
            fs::write(dir.join("lines"), "one\r\ntwo\n")?;
            fs::write(dir.join("a name with 'marks' * and $Id$"), "$Id$\n")?;
            fs::write(dir.join("run.sh"), "#!/bin/sh\n")?;
            fs::set_permissions(dir.join("run.sh"), fs::Permissions::from_mode(0o755))?;
            fs::write(dir.join(".gitignore"), "/target/\n*.log\n")?;
            fs::write(dir.join(".gitattributes"), "*.rs text eol=crlf\n*.bin filter=unknown\n")?;
            symlink("src/deep/code.rs", dir.join("link"))?;
            symlink("/nowhere/at all", dir.join("dangling"))?;
            Ok(())
        };
        made().map_err(|error| format!("{}: {error}", dir.display()))?;
        (self.options.prepare)(&dir);
        Ok(dir)
    }

    fn target(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    fn files(&self, dir: &Path) -> Result<BTreeMap<PathBuf, String>, String> {
        let mut found = BTreeMap::new();
        list(dir, Path::new(""), self.options.carries_permissions, &mut found)
            .map_err(|error| format!("{}: {error}", dir.display()))?;
        Ok(found)
    }

    fn check_equal(&self, one: &Path, other: &Path) -> Outcome {
        let (one, other) = (self.files(one)?, self.files(other)?);
        let differs: Vec<&PathBuf> =
            one.keys().chain(other.keys()).filter(|path| one.get(*path) != other.get(*path)).collect();
        if differs.is_empty() { Ok(()) } else { Err(format!("these files differ: {differs:?}")) }
    }
}

/// Adds the files of a directory, each with a description that tells different files apart. Repositories are left out.
fn list(
    root: &Path,
    below: &Path,
    with_modes: bool,
    found: &mut BTreeMap<PathBuf, String>,
) -> io::Result<()> {
    for entry in fs::read_dir(root.join(below))? {
        let entry = entry?;
        let path = below.join(entry.file_name());
        let metadata = fs::symlink_metadata(root.join(&path))?;
        let mode = metadata.permissions().mode() & if with_modes { 0o777 } else { 0o100 };
        if entry.file_name() == ".git" {
            continue;
        }
        if metadata.is_dir() {
            list(root, &path, with_modes, found)?;
        } else if metadata.is_symlink() {
            found.insert(path.clone(), format!("link to {}", fs::read_link(root.join(&path))?.display()));
        } else {
            let bytes = fs::read(root.join(&path))?;
            let sum = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
                (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
            });
            found.insert(path, format!("{} bytes {sum:x} {mode:o}", bytes.len()));
        }
    }
    Ok(())
}

fn of(moment: &str, base: Option<&Checkpoint>) -> CheckpointOf {
    let base = base.map(|base| base.reference.clone());
    CheckpointOf { run: "r_check".into(), moment: moment.to_owned(), base }
}

fn text(error: impl fmt::Display) -> String {
    error.to_string()
}

async fn check_files(case: &Case) -> Outcome {
    let project = case.project("project")?;
    let large: Vec<u8> =
        (0..BINARY_FILE_BYTES).map(|at| (at.wrapping_mul(2_654_435_761) >> 7) as u8).collect();
    fs::write(project.join("large.bin"), &large).map_err(text)?;
    if case.options.carries_permissions {
        fs::set_permissions(project.join("lines"), fs::Permissions::from_mode(0o600)).map_err(text)?;
    }
    let kept = case.here.checkpoint(&project, &of("start", None)).await.map_err(text)?;
    if kept.reference.kind() != case.here.kind() || !kept.left_out.is_empty() {
        return Err(format!("{kept:?}"));
    }
    let there = case.target("there");
    case.there.materialise(&kept.reference, &there).await.map_err(text)?;
    case.check_equal(&project, &there)
}

async fn check_changes(case: &Case) -> Outcome {
    let project = case.project("project")?;
    let first = case.here.checkpoint(&project, &of("start", None)).await.map_err(text)?;
    let there = case.target("there");
    case.there.materialise(&first.reference, &there).await.map_err(text)?;
    change(&there).map_err(text)?;
    let second = case.there.checkpoint(&there, &of("t_1", Some(&first))).await.map_err(text)?;
    if second.reference == first.reference {
        return Err("changed files have the reference of the files before".to_owned());
    }
    let back = case.target("back");
    case.here.materialise(&second.reference, &back).await.map_err(text)?;
    case.check_equal(&there, &back)?;
    // One directory takes other files, and loses what came since.
    fs::write(there.join("extra"), "x").map_err(text)?;
    case.there.materialise(&first.reference, &there).await.map_err(text)?;
    case.check_equal(&project, &there)
}

fn change(dir: &Path) -> io::Result<()> {
    fs::write(dir.join("lines"), "three\n")?;
    fs::remove_file(dir.join("empty"))?;
    fs::rename(dir.join("src/deep"), dir.join("moved"))?;
    fs::remove_file(dir.join("link"))?;
    fs::write(dir.join("link"), "a file now")?;
    fs::set_permissions(dir.join("run.sh"), fs::Permissions::from_mode(0o644))?;
    fs::create_dir_all(dir.join("new/dir"))?;
    fs::write(dir.join("new/dir/file"), "new")
}

async fn check_earlier(case: &Case) -> Outcome {
    let project = case.project("project")?;
    let first = case.here.checkpoint(&project, &of("start", None)).await.map_err(text)?;
    let there = case.target("there");
    case.there.materialise(&first.reference, &there).await.map_err(text)?;
    change(&there).map_err(text)?;
    case.there.checkpoint(&there, &of("t_1", Some(&first))).await.map_err(text)?;
    let back = case.target("back");
    case.here.materialise(&first.reference, &back).await.map_err(text)?;
    case.check_equal(&project, &back)
}

async fn check_unchanged(case: &Case) -> Outcome {
    let project = case.project("project")?;
    let first = case.here.checkpoint(&project, &of("start", None)).await.map_err(text)?;
    let there = case.target("there");
    case.there.materialise(&first.reference, &there).await.map_err(text)?;
    let second = case.there.checkpoint(&there, &of("t_1", Some(&first))).await.map_err(text)?;
    if second.reference == first.reference { Ok(()) } else { Err(format!("{second:?} after {first:?}")) }
}

async fn check_ignored(case: &Case) -> Outcome {
    let project = case.project("project")?;
    let first = case.here.checkpoint(&project, &of("start", None)).await.map_err(text)?;
    let there = case.target("there");
    case.there.materialise(&first.reference, &there).await.map_err(text)?;
    let written = || -> io::Result<()> {
        fs::create_dir_all(there.join("target"))?;
        fs::write(there.join("target/built"), "x")?;
        fs::write(there.join("src/deep/a.log"), "x")
    };
    written().map_err(text)?;
    let second = case.there.checkpoint(&there, &of("t_1", Some(&first))).await.map_err(text)?;
    let back = case.target("back");
    case.here.materialise(&second.reference, &back).await.map_err(text)?;
    case.check_equal(&project, &back)
}

async fn check_untouched(case: &Case) -> Outcome {
    let project = case.project("project")?;
    let before = everything(&project).map_err(text)?;
    case.here.checkpoint(&project, &of("start", None)).await.map_err(text)?;
    let after = everything(&project).map_err(text)?;
    if before == after { Ok(()) } else { Err("the directory is not as it was".to_owned()) }
}

/// All files with their bytes and modes, also those of a repository.
fn everything(dir: &Path) -> io::Result<BTreeMap<PathBuf, (u32, Vec<u8>)>> {
    let (mut found, mut dirs) = (BTreeMap::new(), vec![dir.to_owned()]);
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir)? {
            let path = entry?.path();
            let metadata = fs::symlink_metadata(&path)?;
            let bytes = match metadata.file_type() {
                kind if kind.is_dir() => {
                    dirs.push(path.clone());
                    Vec::new()
                }
                kind if kind.is_symlink() => fs::read_link(&path)?.into_os_string().into_encoded_bytes(),
                _ => fs::read(&path)?,
            };
            found.insert(path, (metadata.permissions().mode(), bytes));
        }
    }
    Ok(found)
}

async fn check_chain(case: &Case) -> Outcome {
    let project = case.project("project")?;
    let mut last = case.here.checkpoint(&project, &of("start", None)).await.map_err(text)?;
    for turn in 0..4 {
        let (store, dir) = if turn % 2 == 0 {
            (&case.there, case.target("there"))
        } else {
            (&case.here, case.target("here"))
        };
        store.materialise(&last.reference, &dir).await.map_err(text)?;
        fs::write(dir.join(format!("turn-{turn}")), "x").map_err(text)?;
        last = store.checkpoint(&dir, &of(&format!("t_{turn}"), Some(&last))).await.map_err(text)?;
        store.forget(&dir).await;
    }
    let end = case.target("end");
    case.here.materialise(&last.reference, &end).await.map_err(text)?;
    for turn in 0..4 {
        fs::write(project.join(format!("turn-{turn}")), "x").map_err(text)?;
    }
    case.check_equal(&project, &end)
}

async fn check_two_runs(case: &Case) -> Outcome {
    let (one, two) = (case.project("one")?, case.project("two")?);
    fs::write(two.join("lines"), "other").map_err(text)?;
    let other = CheckpointOf { run: "r_other".into(), ..of("start", None) };
    let of = of("start", None);
    let (first, second) = tokio::join!(case.here.checkpoint(&one, &of), case.there.checkpoint(&two, &other));
    let (first, second) = (first.map_err(text)?, second.map_err(text)?);
    let (to_one, to_two) = (case.target("to one"), case.target("to two"));
    let (a, b) = tokio::join!(
        case.here.materialise(&second.reference, &to_two),
        case.here.materialise(&first.reference, &to_one)
    );
    a.and(b).map_err(text)?;
    case.check_equal(&one, &to_one)?;
    case.check_equal(&two, &to_two)
}

async fn check_wrong_references(case: &Case) -> Outcome {
    let project = case.project("project")?;
    let kept = case.here.checkpoint(&project, &of("start", None)).await.map_err(text)?;
    // The last digits name the content, whatever is before them.
    let known = kept.reference.as_str();
    let end = known.char_indices().rev().take_while(|(_, char)| char.is_ascii_hexdigit()).last();
    let (start, digits) = known.split_at(end.map_or(known.len(), |(at, _)| at));
    let turned: String = digits.chars().map(|char| if char == '0' { '1' } else { '0' }).collect();
    let to = case.target("to");
    let unknown = WorkspaceRef::new(&format!("{start}{turned}")).map_err(text)?;
    match case.there.materialise(&unknown, &to).await {
        Err(WorkspaceError::NotFound { .. } | WorkspaceError::Damaged { .. }) => {}
        other => return Err(format!("an unknown reference: {other:?}")),
    }
    let foreign = WorkspaceRef::new("foreign:0123").map_err(text)?;
    match case.there.materialise(&foreign, &to).await {
        Err(WorkspaceError::OtherKind { .. }) => {}
        other => return Err(format!("a reference of another kind: {other:?}")),
    }
    let invalid = WorkspaceRef::new(&format!("{}:../../etc", case.here.kind())).map_err(text)?;
    match case.there.materialise(&invalid, &to).await {
        Err(WorkspaceError::InvalidReference(_)) => Ok(()),
        other => Err(format!("an invalid reference: {other:?}")),
    }
}

async fn check_missing_directory(case: &Case) -> Outcome {
    match case.here.checkpoint(&case.target("missing"), &of("start", None)).await {
        Err(WorkspaceError::Unsuitable { .. } | WorkspaceError::Io { .. }) => Ok(()),
        other => Err(format!("a missing directory: {other:?}")),
    }
}
