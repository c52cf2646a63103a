mod change;
mod matching;
mod nearest;
mod normal;
#[cfg(test)]
mod tests;

use std::io::Read;
use std::path::Path;
use std::sync::{Arc, PoisonError};

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use zk_core::kernel::Cx;
use zk_core::model::{
    Approved, Concurrency, Display, Effects, ToolError, ToolErrorKind, ToolOutput, ToolSpec,
};
use zk_core::service::{CallPlace, Files, PathError, Resolved, Tool, ToolCx};

use crate::files::diff;
use crate::files::fingerprint::{Fingerprint, HASHED_UP_TO};
use crate::files::read_state::{Known, reader};
use crate::text::{count, size};
use crate::tool_names::ToolNames;
use crate::tool_support::{blocking, check_not_stopped, files, io_error, path_error};
use crate::{ReadState, ToolsOptions, args};
use change::{Lines, Planned, Replacement};
use matching::How;

/// Size in bytes above which a content is hashed on another thread while it is written.
const HASHED_BESIDE: usize = 1 << 20;

/// Tool `edit`: replaces a text in a file, and changes no other byte.
///
/// The text is searched exactly first, then without copied line numbers, and ignoring line ends, trailing
/// white space, typographic quotes and dashes. It must be unique. The replacement gets the line ends of its
/// surroundings.
#[derive(Debug)]
pub struct Edit {
    spec: Arc<ToolSpec>,
    common: Common,
}

/// Tool `multi_edit`: several [`Edit`]s of one file in order, all or none.
#[derive(Debug)]
pub struct MultiEdit {
    spec: Arc<ToolSpec>,
    common: Common,
}

#[derive(Clone, Debug)]
struct Common {
    state: Arc<ReadState>,
    read_first: bool,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct EditArgs {
    path: String,
    /// Text to replace, unique in the file
    old_string: String,
    new_string: String,
    /// Replace every occurrence
    #[serde(default)]
    replace_all: Option<bool>,
}

/// Lines that an edit replaced, and the kind of match.
type Done = (Lines, How);

#[derive(Debug, Deserialize, JsonSchema)]
struct MultiEditArgs {
    path: String,
    edits: Vec<OneEdit>,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct OneEdit {
    old_string: String,
    new_string: String,
    #[serde(default)]
    replace_all: Option<bool>,
}

impl EditArgs {
    fn into_edits(self) -> (String, Vec<Replacement>) {
        let Self { path, old_string, new_string, replace_all } = self;
        (path, vec![Replacement { old: old_string, new: new_string, all: replace_all.unwrap_or(false) }])
    }
}

impl MultiEditArgs {
    fn into_edits(self) -> (String, Vec<Replacement>) {
        let edits = self.edits.into_iter().map(|edit| Replacement {
            old: edit.old_string,
            new: edit.new_string,
            all: edit.replace_all.unwrap_or(false),
        });
        (self.path, edits.collect())
    }
}

impl Edit {
    /// Tool that records changed contents in `state`.
    #[must_use]
    pub fn new(options: &ToolsOptions, state: Arc<ReadState>) -> Self {
        let about = "Replace text in a file. Give enough of the surrounding lines to make old_string unique.";
        Self { spec: args::spec::<EditArgs>("edit", about), common: Common::new(options, state) }
    }
}

impl MultiEdit {
    /// Tool that records changed contents in `state`.
    #[must_use]
    pub fn new(options: &ToolsOptions, state: Arc<ReadState>) -> Self {
        let about = "Make several edits of one file in order. If one fails, none is made.";
        Self { spec: args::spec::<MultiEditArgs>("multi_edit", about), common: Common::new(options, state) }
    }
}

#[async_trait]
impl Tool for Edit {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    async fn call(&self, call: &Approved, cx: &ToolCx) -> Result<ToolOutput, ToolError> {
        let (path, edits) = call.parse::<EditArgs>()?.into_edits();
        self.common.run(path, edits, cx).await
    }

    fn effects(&self, args: &Value, _: &CallPlace) -> Effects {
        args::writes(args)
    }

    async fn preview(&self, args: &Value, place: &CallPlace) -> Option<Display> {
        let (path, edits) = EditArgs::deserialize(args).ok()?.into_edits();
        preview(path, edits, place).await
    }

    fn concurrency(&self, args: &Value) -> Concurrency {
        args::concurrency_of_change(args)
    }

    fn summary(&self, args: &Value) -> String {
        format!("edit {}", args::text(args, "path"))
    }
}

#[async_trait]
impl Tool for MultiEdit {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    async fn call(&self, call: &Approved, cx: &ToolCx) -> Result<ToolOutput, ToolError> {
        let (path, edits) = call.parse::<MultiEditArgs>()?.into_edits();
        if edits.is_empty() {
            return Err(ToolError::invalid(
                "`edits` is empty; give at least one, with old_string and new_string",
            ));
        }
        self.common.run(path, edits, cx).await
    }

    fn effects(&self, args: &Value, _: &CallPlace) -> Effects {
        args::writes(args)
    }

    async fn preview(&self, args: &Value, place: &CallPlace) -> Option<Display> {
        let (path, edits) = MultiEditArgs::deserialize(args).ok()?.into_edits();
        preview(path, edits, place).await
    }

    fn concurrency(&self, args: &Value) -> Concurrency {
        args::concurrency_of_change(args)
    }

    fn summary(&self, args: &Value) -> String {
        let edits = args.get("edits").and_then(Value::as_array).map_or(0, Vec::len);
        format!("edit {} ({})", args::text(args, "path"), count(edits, "change"))
    }
}

/// Diff of the edits to the current content.
async fn preview(path: String, edits: Vec<Replacement>, place: &CallPlace) -> Option<Display> {
    let (files, cwd, tools) = (files(&place.cx).ok()?, place.cwd.clone(), ToolNames::of(&place.cx));
    let drawn = blocking(&place.cx, move |stop| {
        let at = files.resolve(&cwd, &path).map_err(|error| path_error(&error, &tools))?;
        let old = read(&*files, &at, &tools)?;
        let edited = apply_edits(&at, old.clone(), &edits, &tools, stop)?;
        Ok(diff::preview(&at.shown, &old, &edited.new))
    });
    drawn.await.ok()
}

/// Reads a file that can be edited.
fn read(files: &dyn Files, at: &Resolved, tools: &ToolNames) -> Result<Vec<u8>, ToolError> {
    let mut file = files.open(at, None).map_err(|error| path_error(&error, tools))?;
    let stat = files.stat(at).map_err(|error| path_error(&error, tools))?;
    if stat.len > HASHED_UP_TO {
        let next = tools.advise("shell", |shell| format!("; use {shell} (sed)"));
        let text = format!("`{}` has {}, too much for this tool{next}", at.shown, size(stat.len));
        return Err(ToolError::failed(text));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(stat.len).unwrap_or(0) + 1);
    file.read_to_end(&mut bytes).map_err(|error| io_error("read", &at.shown, &error))?;
    Ok(bytes)
}

/// Result of the edits.
struct Edited {
    /// Content before the edits, unless it is large.
    old: Option<Vec<u8>>,
    new: Vec<u8>,
    /// Result of each edit.
    done: Vec<Done>,
}

/// Applies the edits to the content of a file.
fn apply_edits(
    at: &Resolved,
    content: Vec<u8>,
    edits: &[Replacement],
    tools: &ToolNames,
    stop: &CancellationToken,
) -> Result<Edited, ToolError> {
    // Kept to detect edits that cancel each other, and for display.
    let old = (edits.len() > 1 || diff::is_shown(content.len())).then(|| content.clone());
    let (mut new, mut is_changed) = (content, false);
    let mut done = Vec::new();
    for (index, edit) in edits.iter().enumerate() {
        check_not_stopped(stop)?;
        let which = if edits.len() > 1 {
            format!("edit {} of {}, nothing was written: ", index + 1, edits.len())
        } else {
            String::new()
        };
        let planned =
            change::plan(&new, edit).map_err(|failure| failure.explain(&at.shown, &which, tools))?;
        check_length(&planned, &new).map_err(|why| {
            let text = format!("{which}`{}` {why}; replace fewer places, or with less text", at.shown);
            ToolError::failed(text)
        })?;
        is_changed |= planned.changes(&new);
        new = planned.apply(new);
        let how = planned.how();
        done.push((planned.lines, how));
    }
    if !is_changed || old.as_ref() == Some(&new) {
        let text = format!(
            "the edits cancel each other out; `{}` was not written; leave them out, or say what should differ",
            at.shown
        );
        return Err(ToolError::invalid(text));
    }
    Ok(Edited { old, new, done })
}

/// Checks that the edited file will not be too large for this tool.
///
/// # Errors
/// A message with the sizes before and after the edit.
fn check_length(planned: &Planned<'_>, content: &[u8]) -> Result<(), String> {
    let after = planned.length_after(content).and_then(|after| u64::try_from(after).ok());
    let after = match after {
        Some(after) if after <= HASHED_UP_TO => return Ok(()),
        Some(after) => size(after),
        None => "more than can be counted".to_owned(),
    };
    let before = size(u64::try_from(content.len()).unwrap_or(u64::MAX));
    let most = size(HASHED_UP_TO);
    Err(format!("would grow from {before} to {after} by this edit, and at most {most} can be edited"))
}

/// Writes the new content and returns its fingerprint. A large content is hashed on another thread during the
/// write.
fn write(files: &dyn Files, at: &Resolved, new: &[u8]) -> Result<Fingerprint, PathError> {
    std::thread::scope(|scope| {
        let fingerprint = || Fingerprint::of(new);
        let beside = match new.len() > HASHED_BESIDE {
            true => std::thread::Builder::new().spawn_scoped(scope, fingerprint).ok(),
            false => None,
        };
        files.write(at, new)?;
        Ok(beside.and_then(|hash| hash.join().ok()).unwrap_or_else(fingerprint))
    })
}

impl Common {
    fn new(options: &ToolsOptions, state: Arc<ReadState>) -> Self {
        Self { state, read_first: options.read_before_edit }
    }

    async fn run(&self, path: String, edits: Vec<Replacement>, cx: &ToolCx) -> Result<ToolOutput, ToolError> {
        let files = files(&cx.cx)?;
        let (cwd, this, cx_of_call) = (cx.cwd.clone(), self.clone(), cx.cx.clone());
        blocking(&cx.cx, move |stop| this.change_file(&*files, (&cwd, &path), &edits, &cx_of_call, stop))
            .await
    }

    fn change_file(
        &self,
        files: &dyn Files,
        (cwd, path): (&Path, &str),
        edits: &[Replacement],
        cx: &Cx,
        stop: &CancellationToken,
    ) -> Result<ToolOutput, ToolError> {
        let (reader, tools) = (reader(cx), ToolNames::of(cx));
        let at = files.resolve(cwd, path).map_err(|error| path_error(&error, &tools))?;
        let lock = self.state.lock(&at.path);
        let _turn = lock.lock().unwrap_or_else(PoisonError::into_inner);
        let content = read(files, &at, &tools)?;
        self.may_change(&reader, &at, &content, edits)?;

        let Edited { old, new, done } = apply_edits(&at, content, edits, &tools, stop)?;
        check_not_stopped(stop)?;
        let fingerprint = write(files, &at, &new).map_err(|error| path_error(&error, &tools))?;
        self.state.record_content(&reader, &at.path, fingerprint, false);
        let display = match old {
            Some(old) => diff::display(&at.shown, &old, &new),
            None => diff::too_large(&at.shown),
        };
        Ok(ToolOutput::text(change::report(&at.shown, &done)).with_display(display))
    }

    /// Refuses to change a file that the model does not know, and shows its current content.
    fn may_change(
        &self,
        reader: &str,
        at: &Resolved,
        bytes: &[u8],
        edits: &[Replacement],
    ) -> Result<(), ToolError> {
        let refuse = |why: String| Err(ToolError::new(ToolErrorKind::Failed, why));
        if !self.state.has_seen(reader, &at.path) && !self.read_first {
            return Ok(());
        }
        let content = Fingerprint::of(bytes);
        match self.state.known(reader, &at.path, content) {
            Known::Whole | Known::Part(_) => Ok(()),
            Known::Never if !self.read_first => Ok(()),
            Known::Never => {
                refuse(format!("`{}` was not changed: you have not read it; read it first", at.shown))
            }
            Known::Changed => {
                let olds: Vec<&str> = edits.iter().map(|edit| edit.old.as_str()).collect();
                let now = nearest::current_regions(bytes, &olds);
                // The model now knows this region, so a repeated call is accepted.
                self.state.record_shown_part(reader, &at.path, content);
                refuse(format!(
                    "`{}` was not changed: it is no longer as you last saw it. {now}\nIf the edit still fits, make \
                     it again.",
                    at.shown
                ))
            }
        }
    }
}
