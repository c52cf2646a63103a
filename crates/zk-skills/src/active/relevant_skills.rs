//! Skills with file patterns, which are mentioned to a model once it works with a matching file.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use zk_core::events::{ContextReduced, ResultPatch, ToolBegin, ToolTransform};
use zk_core::kernel::{Cx, HookOptions, Reach, Scope};
use zk_core::model::{CallId, Effect, Effects};
use zk_core::service::ContextId;

use crate::active::skills::Skills;
use crate::discovery::catalog::{description, escape};
use crate::instructions::with_text;
use crate::skill::Skill;

/// Maximum number of pending calls whose files are remembered.
const MAX_CALLS_REMEMBERED: usize = 64;

#[derive(Default)]
struct Seen {
    /// Skills that were mentioned to each agent.
    told: HashMap<Option<ContextId>, BTreeSet<String>>,
    /// Files of calls without a result yet.
    calls: Vec<(CallId, Vec<PathBuf>)>,
}

/// Registers handlers that mention matching skills with the result of the first call on such a file.
pub(crate) fn register(scope: &Scope, skills: &Skills) {
    let everywhere = HookOptions { reach: Some(Reach::Descendants), ..HookOptions::default() };
    let seen: Arc<Mutex<Seen>> = Arc::default();
    let (noted, known) = (seen.clone(), skills.clone());
    scope.on_sync_at(everywhere, move |begin: &ToolBegin, _: &Cx| {
        let Effects::Known { list } = &begin.effects else { return };
        if !known.found().is_some_and(|set| set.for_model().any(|skill| !skill.manifest.paths.is_empty())) {
            return;
        }
        let mut files = Vec::new();
        for effect in list {
            if let Effect::Reads { paths } | Effect::Writes { paths } = effect {
                files.extend(paths.iter().cloned());
            }
        }
        let mut seen = lock(&noted);
        if seen.calls.len() == MAX_CALLS_REMEMBERED {
            seen.calls.remove(0);
        }
        seen.calls.push((begin.call.call_id.clone(), files));
    });
    let (noted, known) = (seen.clone(), skills.clone());
    scope.on_sync_at(everywhere, move |result: &ToolTransform, cx: &Cx| {
        let files = {
            let mut seen = lock(&noted);
            let at = seen.calls.iter().position(|(id, _)| *id == result.call.call_id)?;
            seen.calls.remove(at).1
        };
        let set = known.found()?;
        let (cwd, root) = (known.cwd(cx), known.project());
        let about =
            |skill: &&Arc<Skill>| files.iter().any(|file| matches_file(skill, &cwd.join(file), &root));
        let found: Vec<&Arc<Skill>> = set.for_model().filter(about).collect();
        let mut seen = lock(&noted);
        let told = seen.told.entry(cx.service::<ContextId>().map(|id| (*id).clone())).or_default();
        let news = found.into_iter().filter(|skill| told.insert(skill.name().to_owned()));
        let rows: Vec<String> = news
            .map(|skill| {
                format!("<skill name=\"{}\">{}</skill>", escape(skill.name()), escape(&description(skill)))
            })
            .collect();
        if rows.is_empty() {
            return None;
        }
        let more = format!("<skills_for_this_file>\n{}\n</skills_for_this_file>", rows.join("\n"));
        Some(ResultPatch { content: Some(with_text(&result.content, &more)), ..ResultPatch::default() })
    });
    scope.on_sync_at(everywhere, move |_: &ContextReduced, cx: &Cx| {
        lock(&seen).told.remove(&cx.service::<ContextId>().map(|id| (*id).clone()));
    });
}

fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether one of the skill's globs matches a file: by its path in the project, or by its name if the glob
/// has no slash.
fn matches_file(skill: &Skill, file: &Path, root: &Path) -> bool {
    if skill.manifest.paths.is_empty() {
        return false;
    }
    let below = file.strip_prefix(root).unwrap_or(file);
    globs(&skill.manifest.paths).is_some_and(|globs| globs.is_match(below))
}

/// Compiles the globs of a skill; invalid ones match nothing.
fn globs(paths: &[String]) -> Option<GlobSet> {
    let mut globs = GlobSetBuilder::new();
    for path in paths {
        let path = path.trim_start_matches("./").trim_start_matches('/');
        let path = if path.contains('/') { path.to_owned() } else { format!("**/{path}") };
        if let Ok(glob) = GlobBuilder::new(&path).literal_separator(true).build() {
            globs.add(glob);
        }
    }
    globs.build().ok()
}
