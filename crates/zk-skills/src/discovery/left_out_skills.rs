use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use zk_core::service::HostFiles;

use crate::discovery::discover::{MAX_DEPTH, MAX_DIRS, SkillRoots, SkillSet, dirs};
use crate::skill::{SKILL_FILE, SkillSource, is_own};

/// Maximum number of levels of a search for `SKILL.md` files that discovery skips.
const MAX_SEARCH_DEPTH: usize = 20;

const IN_ROOT: &str = "it is in the directory of skills itself: a skill needs a directory of its own";
const IN_SKILL: &str = "it is inside of another skill: move it out of that";
const HIDDEN: &str = "it is below a directory whose name begins with a dot, which is not looked into";
const OF_MODULES: &str = "it is below `node_modules`, which is not looked into";
const TOO_DEEP: &str = "it is more than 5 directories below the directory of skills";
const EXCLUDED: &str = "the settings leave its name out";
const TOO_MANY: &str = "more than 2000 directories come before it";

/// `SKILL.md` below a directory of skills that discovery skips.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOutSkill {
    /// Directory of the skill.
    pub path: PathBuf,
    /// Source of the skill.
    pub source: SkillSource,
    /// Reason, as the end of a sentence about the skill; or a note about the unsearched part of a directory
    /// of skills.
    pub why: Cow<'static, str>,
}

/// Finds each `SKILL.md` below the directories of `roots` that is not in `set`, with the reason, for a person
/// who asks. It searches directories that discovery skips, at most 2,000 below each root, and follows no
/// links. A root that is deeper or wider than discovery's limits is listed once itself, with the number of
/// directories. Blocks as [`discover`](fn@crate::discover) does.
#[must_use]
pub fn left_out(roots: &SkillRoots, set: &SkillSet, files: &dyn HostFiles) -> Vec<LeftOutSkill> {
    let shadowed = set.shadowed.iter().map(|(skill, _)| skill);
    let skills = set.skills.iter().chain(&set.untrusted).chain(shadowed);
    let known = skills.filter_map(|skill| skill.dir.clone());
    let known: BTreeSet<PathBuf> = known.chain(set.broken.iter().map(|broken| broken.path.clone())).collect();
    let source = |dir: &PathBuf| match dir {
        dir if roots.configured.contains(dir) => SkillSource::Configured,
        dir if roots.user.contains(dir) => SkillSource::User,
        _ => SkillSource::Project,
    };
    // Directories outside of the project are not searched here either.
    let followed = |real: &Path, source| {
        source != SkillSource::Project || (real.starts_with(&roots.project) && is_own(real, files))
    };
    let real = dirs(roots).into_iter().filter_map(|dir| Some((dir.canonicalize().ok()?, source(&dir))));
    let places: BTreeMap<PathBuf, SkillSource> =
        real.filter(|(real, source)| followed(real, *source)).collect();
    let excludes = !roots.exclude.is_empty() || !roots.only.is_empty();
    let (source, found) = (SkillSource::Project, Vec::new());
    let mut search = Search { places, known, found, excludes, source, left: 0, deep: 0, is_cut: false };
    for (dir, source) in search.places.clone() {
        (search.source, search.left, search.deep, search.is_cut) = (source, MAX_DIRS, 0, false);
        search.search_dir(&dir, 0, None);
        search.report_incomplete_search(&dir);
    }
    search.found
}

struct Search {
    /// Directories of skills.
    places: BTreeMap<PathBuf, SkillSource>,
    known: BTreeSet<PathBuf>,
    found: Vec<LeftOutSkill>,
    /// Whether the settings exclude names.
    excludes: bool,
    /// Source of the current directory of skills.
    source: SkillSource,
    /// Number of directories that may still be searched.
    left: usize,
    /// Number of directories below discovery's depth limit.
    deep: usize,
    /// Whether there were more directories than the limit.
    is_cut: bool,
}

impl Search {
    /// Reports how much of a directory of skills was not searched.
    fn report_incomplete_search(&mut self, root: &Path) {
        let at_least = if self.is_cut { "at least " } else { "" };
        let deep = (self.deep > 0).then(|| {
            let are = if self.deep == 1 { "directory is" } else { "directories are" };
            format!("{at_least}{} {are} more than {MAX_DEPTH} below it", self.deep)
        });
        let wide = self.is_cut.then(|| format!("it has more than {MAX_DIRS} directories"));
        let said: Vec<String> = wide.into_iter().chain(deep).collect();
        if !said.is_empty() {
            let why = format!("{}; skills there are not found", said.join(", and "));
            self.found.push(LeftOutSkill { path: root.to_path_buf(), source: self.source, why: why.into() });
        }
    }

    /// Searches a directory; `why` is a reason that applies to all skills below.
    fn search_dir(&mut self, dir: &Path, depth: usize, why: Option<&'static str>) {
        if self.left == 0 || depth > MAX_SEARCH_DEPTH {
            self.is_cut |= self.left == 0;
            return;
        }
        self.left -= 1;
        self.deep += usize::from(depth > MAX_DEPTH && why.is_none());
        let Ok(entries) = std::fs::read_dir(dir) else { return };
        let mut below = Vec::new();
        let mut has_file = false;
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            has_file |= name.eq_ignore_ascii_case(SKILL_FILE);
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                below.push((name, entry.path()));
            }
        }
        if has_file && !self.known.contains(dir) {
            let here = match depth {
                0 => IN_ROOT,
                _ if depth > MAX_DEPTH => TOO_DEEP,
                _ if self.excludes => EXCLUDED,
                _ => TOO_MANY,
            };
            let why = Cow::Borrowed(why.unwrap_or(here));
            self.found.push(LeftOutSkill { path: dir.to_path_buf(), source: self.source, why });
        }
        let why = why.or((has_file && depth > 0).then_some(IN_SKILL));
        below.sort();
        for (name, path) in below {
            if self.places.contains_key(&path) {
                continue;
            }
            let skipped = match name.as_str() {
                "node_modules" => Some(OF_MODULES),
                _ => name.starts_with('.').then_some(HIDDEN),
            };
            self.search_dir(&path, depth + 1, why.or(skipped));
        }
    }
}
