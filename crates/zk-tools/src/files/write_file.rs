use std::io::Read;
use std::sync::{Arc, PoisonError};

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use zk_core::model::{
    Approved, Concurrency, Display, Effects, ToolError, ToolErrorKind, ToolOutput, ToolSpec,
};
use zk_core::service::{CallPlace, Files, PathError, Resolved, Tool, ToolCx};

use crate::files::diff;
use crate::files::fingerprint::{Fingerprint, HASHED_UP_TO};
use crate::files::read_state::{Flaw, Known, reader};
use crate::text::{count, head, size};
use crate::tool_names::ToolNames;
use crate::tool_support::{blocking, check_not_stopped, files, io_error, path_error};
use crate::{ReadState, ToolsOptions, args};

/// Maximum number of lines and bytes of a diff in a refusal.
const MAX_SHOWN_LINES: usize = 40;
const MAX_SHOWN_BYTES: usize = 4_000;

/// Tool `write_file`: creates or replaces a file.
///
/// A file that the model has read is only overwritten if it was read completely and is unchanged. A file that
/// it has never read is overwritten unless the option `read_before_edit` forbids that, since a write without
/// a read is meant to replace any content.
#[derive(Debug)]
pub struct WriteFile {
    spec: Arc<ToolSpec>,
    state: Arc<ReadState>,
    read_first: bool,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Args {
    path: String,
    /// The whole new content
    content: String,
}

impl WriteFile {
    /// Tool that records written contents in `state`.
    #[must_use]
    pub fn new(options: &ToolsOptions, state: Arc<ReadState>) -> Self {
        let about = "Create a file, or replace all of it. To change a part, use edit.";
        Self { spec: args::spec::<Args>("write_file", about), state, read_first: options.read_before_edit }
    }
}

#[async_trait]
impl Tool for WriteFile {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    async fn call(&self, call: &Approved, cx: &ToolCx) -> Result<ToolOutput, ToolError> {
        let Args { path, content } = call.parse()?;
        let files = files(&cx.cx)?;
        let (cwd, state, read_first) = (cx.cwd.clone(), self.state.clone(), self.read_first);
        let (reader, tools) = (reader(&cx.cx), ToolNames::of(&cx.cx));
        blocking(&cx.cx, move |stop| {
            let at = files.resolve(&cwd, &path).map_err(|error| path_error(&error, &tools))?;
            let lock = state.lock(&at.path);
            let _turn = lock.lock().unwrap_or_else(PoisonError::into_inner);
            let old = read_existing(&*files, &at, &tools)?;
            let new = Fingerprint::of(content.as_bytes());
            if let Some(old) = &old {
                if old.fingerprint == new {
                    state.record_content(&reader, &at.path, new, true);
                    let text = format!("No change needed: `{}` has exactly this content already", at.shown);
                    return Ok(ToolOutput::text(text.clone()).with_display(Display::Line { text }));
                }
                let known = state.known_from_own_read(&reader, &at.path, old.fingerprint);
                check_overwrite(known, read_first, old.len, &tools).map_err(|why| {
                    let now =
                        if known == Known::Changed { current_lines(old, &content) } else { String::new() };
                    refuse(&at.shown, &format!("{why}{now}"))
                })?;
            }
            check_not_stopped(stop)?;
            files.write(&at, content.as_bytes()).map_err(|error| path_error(&error, &tools))?;
            state.record_content(&reader, &at.path, new, true);
            let verb = if old.is_some() { "Updated" } else { "Created" };
            let lines = count(content.lines().count(), "line");
            let text = format!("{verb} `{}` ({lines}, {})", at.shown, size(content.len() as u64));
            let old = old.map(|old| old.bytes).unwrap_or_default();
            let display = diff::display(&at.shown, &old, content.as_bytes());
            Ok(ToolOutput::text(text).with_display(display))
        })
        .await
    }

    fn concurrency(&self, args: &Value) -> Concurrency {
        args::concurrency_of_change(args)
    }

    fn effects(&self, args: &Value, _: &CallPlace) -> Effects {
        args::writes(args)
    }

    /// Diff to the current content; a new file is shown by the arguments.
    async fn preview(&self, args: &Value, place: &CallPlace) -> Option<Display> {
        let Args { path, content } = Args::deserialize(args).ok()?;
        let (files, cwd, tools) = (files(&place.cx).ok()?, place.cwd.clone(), ToolNames::of(&place.cx));
        let drawn = blocking(&place.cx, move |_| {
            let at = files.resolve(&cwd, &path).map_err(|error| path_error(&error, &tools))?;
            let old = read_existing(&*files, &at, &tools)?;
            let old = old.unwrap_or(Old { fingerprint: Fingerprint::of(&[]), len: 0, bytes: Vec::new() });
            Ok(match old.bytes.is_empty() && old.len > 0 {
                true => Display::Line { text: format!("replaces the {} of `{}`", size(old.len), at.shown) },
                false => diff::preview(&at.shown, &old.bytes, content.as_bytes()),
            })
        });
        drawn.await.ok()
    }

    fn summary(&self, args: &Value) -> String {
        let content = args.get("content").and_then(Value::as_str).unwrap_or_default();
        format!("write {} ({})", args::text(args, "path"), count(content.lines().count(), "line"))
    }
}

struct Old {
    fingerprint: Fingerprint,
    len: u64,
    /// Content; empty if the file is too large for a diff.
    bytes: Vec<u8>,
}

fn read_existing(files: &dyn Files, at: &Resolved, tools: &ToolNames) -> Result<Option<Old>, ToolError> {
    let mut file = match files.open(at, None) {
        Ok(file) => file,
        Err(PathError::Missing { .. }) => return Ok(None),
        Err(error) => return Err(path_error(&error, tools)),
    };
    let stat = files.stat(at).map_err(|error| path_error(&error, tools))?;
    if stat.len > HASHED_UP_TO {
        return Ok(Some(Old { fingerprint: Fingerprint::of_stat(&stat), len: stat.len, bytes: Vec::new() }));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(stat.len).unwrap_or(0));
    file.read_to_end(&mut bytes).map_err(|error| io_error("read", &at.shown, &error))?;
    Ok(Some(Old { fingerprint: Fingerprint::of(&bytes), len: stat.len, bytes }))
}

fn check_overwrite(known: Known, read_first: bool, len: u64, tools: &ToolNames) -> Result<(), String> {
    let edit = || tools.advise("edit", |edit| format!("; change parts of it with {edit}"));
    let why = match known {
        Known::Whole => return Ok(()),
        Known::Never if !read_first || len == 0 => return Ok(()),
        Known::Never => "it exists and you have not read it; read it first".to_owned(),
        Known::Changed => "it changed since you last saw it; read it again first".to_owned(),
        Known::Part(None) => {
            let or_edit = tools.advise("edit", |edit| format!(", or change parts of it with {edit}"));
            format!(
                "you have seen only a part of it, and writing would replace all of it; read the rest first{or_edit}"
            )
        }
        Known::Part(Some(Flaw::Bytes)) => {
            format!("not all of its bytes are text, and writing would replace those that you did not see{}", edit())
        }
        Known::Part(Some(Flaw::Hidden)) => {
            format!("a secret in it was not shown, or characters that nobody sees, and writing would replace them{}", edit())
        }
        Known::Part(Some(Flaw::Encoding)) => {
            "its text is not in UTF-8, and writing would change that; convert it first, for example with iconv".to_owned()
        }
        Known::Part(Some(Flaw::Form)) => {
            "you have not seen its source; read it with `raw: true` first".to_owned()
        }
    };
    Err(why)
}

/// Current lines in place of the new content, for a model whose knowledge is outdated.
fn current_lines(old: &Old, content: &str) -> String {
    match diff::display("", &old.bytes, content.as_bytes()) {
        Display::Diff { diff, .. } => {
            let lines: Vec<&str> = diff.lines().take(MAX_SHOWN_LINES).collect();
            let lines = lines.join("\n");
            format!(". What it has now, and what you would make of it:\n{}", head(&lines, MAX_SHOWN_BYTES))
        }
        Display::Line { .. }
        | Display::Lines { .. }
        | Display::Command { .. }
        | Display::Table { .. }
        | Display::Markdown { .. }
        | Display::Checklist { .. } => String::new(),
    }
}

fn refuse(shown: &str, why: &str) -> ToolError {
    ToolError::new(ToolErrorKind::Failed, format!("`{shown}` was not written: {why}"))
}
