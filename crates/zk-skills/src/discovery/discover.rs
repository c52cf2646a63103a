use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use zk_core::service::{HostFiles, Trust, TrustItem};

use crate::skill::scan::hide_suspicious;
use crate::skill::{
    Bundle, BundleError, BundleSkill, Diagnostic, SKILL_FILE, Skill, SkillFile, SkillSource, is_own, place,
    read_bundle_skill, read_skill,
};

/// Maximum number of levels below a directory of skills.
pub(crate) const MAX_DEPTH: usize = 5;

/// Maximum number of directories that are searched below one directory of skills.
pub(crate) const MAX_DIRS: usize = 2000;

/// Number of skills from which on threads read them, and the most threads.
const MIN_SKILLS_FOR_THREADS: usize = 64;
const MAX_THREADS: usize = 4;

/// Kind of a project skill's frontmatter in the trust store.
const TRUST_HEAD: &str = "skill";

/// Kind of a project skill's files in the trust store.
const TRUST_FILES: &str = "skill-files";

/// Directories of a project that contain skills.
const PROJECT_DIRS: [&str; 3] = [".agents/skills", ".zk/skills", ".claude/skills"];

/// Places that are searched for skills.
#[derive(Clone, Debug, Default)]
pub struct SkillRoots {
    /// Working directory, canonical.
    pub cwd: PathBuf,
    /// Root of its project, canonical.
    pub project: PathBuf,
    /// Directories from the settings.
    pub configured: Vec<PathBuf>,
    /// The person's own directories, in order of precedence.
    pub user: Vec<PathBuf>,
    /// Skills of bundles that the person added.
    pub bundles: Vec<BundleSkill>,
    /// Skills that the program itself provides.
    pub inline: Vec<Skill>,
    /// Names of skills that are ignored.
    pub exclude: Vec<String>,
    /// Names of the only skills that are used; empty for all.
    pub only: Vec<String>,
    /// Whether the project's skills are ignored, even if trusted.
    pub without_project: bool,
}

impl SkillRoots {
    /// Whether skills with this name are used.
    ///
    /// ```
    /// use zk_skills::SkillRoots;
    ///
    /// let only = vec!["pdf".to_owned(), "charts".to_owned()];
    /// let roots = SkillRoots { only, exclude: vec!["charts".to_owned()], ..SkillRoots::default() };
    /// assert!(roots.uses("pdf") && !roots.uses("charts") && !roots.uses("deploy"));
    /// ```
    #[must_use]
    pub fn uses(&self, name: &str) -> bool {
        let is_wanted = self.only.is_empty() || self.only.iter().any(|only| only == name);
        is_wanted && self.exclude.iter().all(|excluded| excluded != name)
    }
}

/// Result of a search for skills.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SkillSet {
    /// Usable skills, sorted by name.
    pub skills: Vec<Arc<Skill>>,
    /// Skills of the project that are not approved.
    pub untrusted: Vec<Arc<Skill>>,
    /// Skills that are hidden by another of the same name, with the other's path.
    pub shadowed: Vec<(Arc<Skill>, String)>,
    /// Skills that cannot be used.
    pub broken: Vec<BrokenSkill>,
    /// Directories that exist but could not be read, so their skills are unknown.
    pub unread: Vec<PathBuf>,
}

/// Skill that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokenSkill {
    /// Directory of the skill, or a directory of skills that could not be searched completely.
    pub path: PathBuf,
    /// Source of the skill.
    pub source: SkillSource,
    /// Reason why the skill cannot be used.
    pub diagnostic: Diagnostic,
}

impl SkillSet {
    /// Skill with this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Arc<Skill>> {
        let found = self.skills.binary_search_by(|skill| skill.name().cmp(name)).ok()?;
        self.skills.get(found)
    }

    /// Iterates over the skills that are offered to models.
    pub fn for_model(&self) -> impl Iterator<Item = &Arc<Skill>> {
        self.skills.iter().filter(|skill| !skill.manifest.disable_model_invocation)
    }
}

/// Finds the skills of `roots`, reading only their frontmatter. A project's skill is used, and hides others,
/// only if `trust` has exactly its frontmatter. Blocks on the file system.
///
/// The first of a name is used: those of the project from the working directory upwards, then configured,
/// personal and inline ones.
#[must_use]
pub fn discover(roots: &SkillRoots, files: &dyn HostFiles, trust: Option<&dyn Trust>) -> SkillSet {
    let mut search =
        Search { files, seen: BTreeSet::new(), listed: Vec::new(), broken: Vec::new(), unread: Vec::new() };
    if !roots.without_project && roots.cwd.is_absolute() {
        for dir in project_dirs(roots) {
            for kind in PROJECT_DIRS {
                search.search_root(&dir.join(kind), SkillSource::Project, Some(&roots.project));
            }
        }
    }
    for dir in &roots.configured {
        search.search_root(dir, SkillSource::Configured, None);
    }
    for dir in &roots.user {
        search.search_root(dir, SkillSource::User, None);
    }
    let Search { listed, mut broken, unread, .. } = search;
    let mut found = Vec::with_capacity(listed.len());
    for (file, read) in listed.iter().zip(read_all(&listed, files)) {
        match read {
            Ok(mut skill) => {
                hide_suspicious(&mut skill);
                found.push(skill);
            }
            Err(diagnostic) => {
                broken.push(BrokenSkill { path: file.dir.clone(), source: file.source, diagnostic });
            }
        }
    }
    for part in &roots.bundles {
        match read_bundle_skill(part, files) {
            Ok(mut skill) => {
                hide_suspicious(&mut skill);
                found.push(skill);
            }
            Err(diagnostic) => {
                broken.push(BrokenSkill { path: part.dir.clone(), source: SkillSource::Bundle, diagnostic });
            }
        }
    }
    let mut set = SkillSet { broken, unread, ..SkillSet::default() };
    let found: Vec<Arc<Skill>> =
        found.into_iter().chain(roots.inline.iter().cloned()).map(Arc::new).collect();
    let trusted = check_trust(roots, &found, trust);
    for (skill, trusted) in found.into_iter().zip(trusted) {
        if !roots.uses(skill.name()) {
            continue;
        }
        if !trusted {
            set.untrusted.push(skill);
            continue;
        }
        match set.skills.binary_search_by(|other| other.name().cmp(skill.name())) {
            Ok(first) => {
                let first = set.skills.get(first).map(|first| place(first)).unwrap_or_default();
                set.shadowed.push((skill, first));
            }
            Err(at) => set.skills.insert(at, skill),
        }
    }
    set
}

/// Reads the skill in the canonical directory `dir` as a configured skill.
///
/// # Errors
/// A [`Diagnostic`] when there is no skill, or it cannot be used.
pub fn skill_at(dir: &Path, files: &dyn HostFiles) -> Result<Skill, Diagnostic> {
    let entries = std::fs::read_dir(dir)
        .map_err(|error| Diagnostic::error(format!("it cannot be looked into: {error}")))?;
    let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    // As in a search, the usual spelling comes before any other.
    let name =
        names.filter(|name| name.eq_ignore_ascii_case(SKILL_FILE)).max_by_key(|name| name == SKILL_FILE);
    let name = name.ok_or_else(|| Diagnostic::error(format!("it has no {SKILL_FILE}")))?;
    let file = SkillFile { dir: dir.to_path_buf(), name, source: SkillSource::Configured, fence: None };
    let mut skill = read_skill(&file, files)?;
    hide_suspicious(&mut skill);
    Ok(skill)
}

/// Reads many frontmatters, in several threads if needed. Results are in the order of `listed`.
fn read_all(listed: &[SkillFile], files: &dyn HostFiles) -> Vec<Result<Skill, Diagnostic>> {
    let read = |part: &[SkillFile]| part.iter().map(|file| read_skill(file, files)).collect::<Vec<_>>();
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS);
    if threads == 1 || listed.len() < MIN_SKILLS_FOR_THREADS {
        return read(listed);
    }
    std::thread::scope(|scope| {
        let parts: Vec<&[SkillFile]> = listed.chunks(listed.len().div_ceil(threads)).collect();
        let begun: Vec<_> = parts.iter().map(|part| (*part, scope.spawn(|| read(part)))).collect();
        // A part whose thread panicked is read again here, where the panic is caught.
        begun.into_iter().flat_map(|(part, thread)| thread.join().unwrap_or_else(|_| read(part))).collect()
    })
}

/// Directories that are searched, existing or not.
pub(crate) fn dirs(roots: &SkillRoots) -> Vec<PathBuf> {
    let of_project = !roots.without_project && roots.cwd.is_absolute();
    let project = project_dirs(roots).into_iter().filter(|_| of_project);
    let project = project.flat_map(|dir| PROJECT_DIRS.iter().map(move |kind| dir.join(kind)));
    project.chain(roots.configured.iter().cloned()).chain(roots.user.iter().cloned()).collect()
}

/// Directories of a project from the working directory upwards.
fn project_dirs(roots: &SkillRoots) -> Vec<&Path> {
    let root = if roots.cwd.starts_with(&roots.project) { &roots.project } else { &roots.cwd };
    roots.cwd.ancestors().take_while(|dir| dir.starts_with(root)).collect()
}

fn check_trust(roots: &SkillRoots, skills: &[Arc<Skill>], trust: Option<&dyn Trust>) -> Vec<bool> {
    let names: Vec<String> = skills.iter().map(|skill| trust_name(skill, &roots.project)).collect();
    let of_project = |skill: &Skill| skill.source == SkillSource::Project;
    let items: Vec<TrustItem<'_>> = skills
        .iter()
        .zip(&names)
        .filter(|(skill, _)| of_project(skill))
        .map(|(skill, name)| TrustItem {
            project: &roots.project,
            kind: TRUST_HEAD,
            name,
            bytes: &skill.head,
        })
        .collect();
    let mut known =
        trust.map_or_else(|| vec![false; items.len()], |trust| trust.are_trusted(&items)).into_iter();
    skills.iter().map(|skill| !of_project(skill) || known.next().unwrap_or(false)).collect()
}

/// Name of a project's skill in the trust store: its directory in the project.
fn trust_name(skill: &Skill, project: &Path) -> String {
    let dir = skill.dir.clone().unwrap_or_default();
    dir.strip_prefix(project).unwrap_or(&dir).to_string_lossy().into_owned()
}

/// Content of a project's skill for approval: its frontmatter, which is shown to models, and its files, which
/// are needed once it is used.
#[derive(Clone, Debug)]
pub struct SkillApproval {
    name: String,
    head: Arc<[u8]>,
    files: Vec<u8>,
}

impl SkillApproval {
    /// Reads all files of a skill of `project`.
    ///
    /// # Errors
    /// `BundleError` when they cannot be read, or are too many.
    pub fn of(skill: &Skill, project: &Path, files: &dyn HostFiles) -> Result<Self, BundleError> {
        let name = trust_name(skill, project);
        let bytes = Bundle::of(skill)?.bytes(files)?;
        Ok(Self { name, head: skill.head.clone(), files: bytes })
    }

    /// Items of the trust store: one for the frontmatter and one for the files.
    #[must_use]
    pub fn items<'a>(&'a self, project: &'a Path) -> [TrustItem<'a>; 2] {
        let item = |kind, bytes| TrustItem { project, kind, name: &self.name, bytes };
        [item(TRUST_HEAD, &*self.head), item(TRUST_FILES, &*self.files)]
    }

    /// Whether `trust` has all files exactly as they are.
    #[must_use]
    pub fn is_given(&self, project: &Path, trust: &dyn Trust) -> bool {
        trust.are_trusted(&self.items(project)).into_iter().all(|is| is)
    }
}

struct Search<'a> {
    files: &'a dyn HostFiles,
    /// Searched directories, canonical.
    seen: BTreeSet<PathBuf>,
    /// Skills that are to be read.
    listed: Vec<SkillFile>,
    broken: Vec<BrokenSkill>,
    unread: Vec<PathBuf>,
}

/// Remaining budget of directories below a directory of skills.
struct Left {
    dirs: usize,
    /// Whether the budget was exceeded.
    is_cut: bool,
}

impl Search<'_> {
    fn search_root(&mut self, dir: &Path, source: SkillSource, fence: Option<&Path>) {
        // Most candidate directories do not exist.
        let Ok(real) = dir.canonicalize() else { return };
        let skip =
            |why: String| BrokenSkill { path: dir.to_path_buf(), source, diagnostic: Diagnostic::error(why) };
        if fence.is_some_and(|fence| !real.starts_with(fence)) {
            self.broken
                .push(skip("it is a link that leads out of the project, and was not followed".to_owned()));
            return;
        }
        if source == SkillSource::Project && !is_own(&real, self.files) {
            self.broken.push(skip("it belongs to another user".to_owned()));
            return;
        }
        let mut left = Left { dirs: MAX_DIRS, is_cut: false };
        self.search_dir(&real, source, fence, 0, &mut left);
        if left.is_cut {
            self.broken.push(skip(format!(
                "it has more than {MAX_DIRS} directories; the others were not looked into"
            )));
        }
    }

    fn search_dir(
        &mut self,
        dir: &Path,
        source: SkillSource,
        fence: Option<&Path>,
        depth: usize,
        left: &mut Left,
    ) {
        if left.dirs == 0 {
            left.is_cut = true;
            return;
        }
        if !self.seen.insert(dir.to_path_buf()) {
            return;
        }
        left.dirs -= 1;
        let entries = match std::fs::read_dir(dir) {
            Ok(entries) => entries,
            Err(error) => {
                // The directory may have been removed since.
                if error.kind() != std::io::ErrorKind::NotFound {
                    let diagnostic = Diagnostic::error(format!("it cannot be looked into: {error}"));
                    self.broken.push(BrokenSkill { path: dir.to_path_buf(), source, diagnostic });
                    self.unread.push(dir.to_path_buf());
                }
                return;
            }
        };
        let mut below = Vec::new();
        let mut file: Option<String> = None;
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.eq_ignore_ascii_case(SKILL_FILE) {
                if name == SKILL_FILE || file.is_none() {
                    file = Some(name);
                }
                continue;
            }
            let Ok(kind) = entry.file_type() else { continue };
            if !name.starts_with('.') && name != "node_modules" && (kind.is_dir() || kind.is_symlink()) {
                below.push((name, kind.is_symlink()));
            }
        }
        // A directory of skills may itself have a text file.
        if let Some(name) = file.filter(|_| depth > 0) {
            let fence = fence.map(Path::to_path_buf);
            self.listed.push(SkillFile { dir: dir.to_path_buf(), name, source, fence });
            return;
        }
        if depth == MAX_DEPTH {
            return;
        }
        below.sort();
        for (name, is_link) in below {
            let path = dir.join(name);
            let real = if is_link { path.canonicalize() } else { Ok(path.clone()) };
            let Ok(real) = real else { continue };
            if is_link && fence.is_some_and(|fence| !real.starts_with(fence)) {
                let diagnostic =
                    Diagnostic::error("it is a link that leads out of the project, and was not followed");
                self.broken.push(BrokenSkill { path, source, diagnostic });
                continue;
            }
            self.search_dir(&real, source, fence, depth + 1, left);
        }
    }
}
