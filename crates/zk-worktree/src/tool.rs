use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};
use zk_core::kernel::Cx;
use zk_core::model::{Approved, CallKind, Display, Effects, ToolError, ToolErrorKind, ToolOutput, ToolSpec};
use zk_core::service::{CallPlace, Files, Tool, ToolCx};

use crate::apply;
use crate::blocking::blocking;
use crate::diff;
use crate::git::Git;
use crate::kept::Keeper;
use crate::patch::{APPLY_TOOL, Edit, Patch, Plan};

const ABOUT: &str = "Apply the changes that a sub-agent made in its copy of the project to the project itself, or discard them.";

/// Tool that applies the patch of a copy to the workspace: one change, reviewed and approved like an edit.
pub(crate) struct ApplyChanges {
    spec: Arc<ToolSpec>,
    keeper: Arc<Keeper>,
    git: Git,
}

#[derive(Debug, Deserialize)]
struct Args {
    agent: String,
    #[serde(default)]
    discard: bool,
}

impl ApplyChanges {
    pub(crate) fn new(keeper: Arc<Keeper>, git: Git) -> Self {
        let schema = json!({
            "type": "object",
            "properties": {
                "agent": {"type": "string", "description": "Its name, as `spawn` gave it"},
                "discard": {"type": "boolean", "description": "Forget the changes instead"},
            },
            "required": ["agent"],
        });
        Self { spec: ToolSpec::new(APPLY_TOOL, ABOUT, schema), keeper, git }
    }

    /// Finds the patch of a sub-agent below the caller. Patches of other agents belong to their own parents.
    fn find(&self, agent: &str, cx: &Cx) -> Option<Arc<Patch>> {
        self.keeper.patches.find_pending(agent).filter(|_| is_descendant(agent, cx))
    }

    fn pending_patch(&self, agent: &str, cx: &Cx) -> Result<Arc<Patch>, ToolError> {
        self.find(agent, cx).ok_or_else(|| {
            let state = self.keeper.patches.lock();
            let names = state.waiting.keys().filter(|name| is_descendant(name, cx));
            let names: Vec<String> = names.cloned().collect();
            let known = match names.as_slice() {
                [] => "no changes wait".to_owned(),
                names => format!("changes wait of {}", names.join(", ")),
            };
            ToolError::new(ToolErrorKind::NotFound, format!("there are no changes of `{agent}`; {known}"))
        })
    }

    async fn plan_edits(
        &self,
        patch: &Patch,
        place: &CallPlace,
    ) -> Result<(Plan, Arc<dyn Files>), ToolError> {
        let files = place.cx.service::<dyn Files>();
        let files = files.ok_or_else(|| ToolError::failed("this conversation has no files"))?;
        let plan = apply::plan_edits(patch, files.clone(), place.cwd.clone(), &self.git).await;
        plan.map(|plan| (plan, files)).map_err(ToolError::failed)
    }

    /// Diff of a patch against the present files, or its conflict with them, as text.
    pub(crate) async fn show(
        &self,
        agent: &str,
        patch: &Patch,
        place: &CallPlace,
    ) -> Result<String, ToolError> {
        Ok(match self.plan_edits(patch, place).await?.0 {
            Plan::Edits(edits) => unified_diff(&edits),
            Plan::Conflict(paths) => self.describe_conflict(agent, patch, &paths),
        })
    }

    /// Message about a conflict, with both sides. Neither the workspace nor the patch is changed.
    fn describe_conflict(&self, agent: &str, patch: &Patch, paths: &[PathBuf]) -> String {
        let state = self.keeper.patches.lock();
        let describe = |path: &PathBuf| {
            let other = state.writers.get(&patch.root.join(path)).map_or("the workspace", String::as_str);
            format!("{} (changed by {agent} and by {other})", path.display())
        };
        let paths: Vec<String> = paths.iter().map(describe).collect();
        format!(
            "nothing was applied: {agent} and the workspace changed the same lines of {}. The patch is kept in {}; \
             make the changes yourself, or have a sub-agent make them anew",
            paths.join(", "),
            patch.file.display()
        )
    }
}

#[async_trait]
impl Tool for ApplyChanges {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    async fn call(&self, call: &Approved, cx: &ToolCx) -> Result<ToolOutput, ToolError> {
        let Args { agent, discard } = call.parse()?;
        let patch = self.pending_patch(&agent, &cx.cx)?;
        if discard {
            self.keeper.settle(&agent, &patch, &cx.cx).await;
            return Ok(ToolOutput::text(format!("the changes of {agent} are discarded")));
        }
        let (plan, files) = self.plan_edits(&patch, &cx.place()).await?;
        let shown = self.keeper.patches.lock().shown.remove(&agent);
        if matches!(shown, Some(None)) {
            let why = "the changes could not be shown for a review; nothing was applied: call again";
            return Err(ToolError::failed(why));
        }
        if shown.flatten().is_some_and(|shown| shown != plan) {
            let why =
                "the workspace changed since the changes were reviewed; nothing was applied: call again";
            return Err(ToolError::failed(why));
        }
        let edits = match plan {
            Plan::Conflict(paths) => {
                return Err(ToolError::failed(self.describe_conflict(&agent, &patch, &paths)));
            }
            Plan::Edits(edits) => edits,
        };
        let (display, count) = (combined_diff(&patch, &edits), edits.len());
        let written: BTreeSet<PathBuf> = edits.iter().map(|edit| patch.root.join(&edit.path)).collect();
        let root = patch.root.clone();
        let done = blocking(move || apply::write_all(&edits, &root, &*files)).await;
        done.map_err(|error| ToolError::failed(error.to_string()))?.map_err(ToolError::failed)?;
        {
            let mut state = self.keeper.patches.lock();
            state.writers.extend(written.into_iter().map(|path| (path, agent.clone())));
        }
        self.keeper.settle(&agent, &patch, &cx.cx).await;
        let names: Vec<String> =
            patch.changes.iter().map(|change| change.path.display().to_string()).collect();
        let text = match count {
            0 => format!("the workspace has the changes of {agent} already"),
            _ => format!(
                "applied the changes of {agent}: +{} -{} in {}",
                patch.added,
                patch.removed,
                names.join(", ")
            ),
        };
        Ok(ToolOutput::text(text).with_display(display))
    }

    fn kind(&self) -> Option<CallKind> {
        Some(CallKind::Edit)
    }

    fn effects(&self, args: &Value, place: &CallPlace) -> Effects {
        let Ok(Args { agent, discard }) = Args::deserialize(args) else { return Effects::Unknown };
        match self.find(&agent, &place.cx) {
            Some(_) if discard => Effects::none(),
            Some(patch) => Effects::writes(patch.changes.iter().map(|change| patch.root.join(&change.path))),
            // A patch that arrives before the call runs has not been reviewed.
            None => Effects::Unknown,
        }
    }

    /// Diff against the present files, with the changes of both sides merged.
    async fn preview(&self, args: &Value, place: &CallPlace) -> Option<Display> {
        let Args { agent, discard } = Args::deserialize(args).ok()?;
        if discard {
            return None;
        }
        let found = self.find(&agent, &place.cx);
        let plan = match &found {
            Some(patch) => self.plan_edits(patch, place).await.ok().map(|(plan, _)| plan),
            None => None,
        };
        self.keeper.patches.lock().shown.insert(agent.clone(), plan.clone());
        let patch = found?;
        match plan? {
            Plan::Edits(edits) => Some(combined_diff(&patch, &edits)),
            Plan::Conflict(paths) => {
                Some(Display::Line { text: self.describe_conflict(&agent, &patch, &paths) })
            }
        }
    }

    fn summary(&self, args: &Value) -> String {
        let agent = args.get("agent").and_then(Value::as_str).unwrap_or_default();
        match self.keeper.patches.find_pending(agent) {
            Some(patch) => {
                let files = match patch.changes.len() {
                    1 => "1 file".to_owned(),
                    count => format!("{count} files"),
                };
                format!("apply changes of {agent} (+{} -{} in {files})", patch.added, patch.removed)
            }
            None => format!("apply changes of {agent}"),
        }
    }
}

/// Whether an agent is a descendant of the agent of this context.
fn is_descendant(agent: &str, cx: &Cx) -> bool {
    agent.strip_prefix(&*cx.origin().agent).is_some_and(|rest| rest.starts_with('.'))
}

/// Diff of all files of a patch.
fn combined_diff(patch: &Patch, edits: &[Edit]) -> Display {
    let path = match patch.changes.as_slice() {
        [one] => one.path.display().to_string(),
        all => format!("{} files", all.len()),
    };
    Display::Diff { path, diff: unified_diff(edits) }
}

fn unified_diff(edits: &[Edit]) -> String {
    let diffs = edits.iter().map(|edit| diff::unified(&edit.path, edit.now.as_ref(), edit.then.as_ref()));
    diffs.collect::<Vec<String>>().concat()
}
