use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use zk_core::model::{Approved, CallKind, Concurrency, Effects, ToolError, ToolOutput, ToolSpec};
use zk_core::service::{CallPlace, Files, Resolved, Tool, ToolCx, WalkOptions};

use crate::files::walk;
use crate::text::{count, listing};
use crate::tool_names::ToolNames;
use crate::tool_support::{blocking, check_not_stopped, files, find_readable, path_error};
use crate::{ToolsOptions, args};

/// Tool `glob`: finds files by name, newest first.
///
/// ```
/// use zk_core::service::Tool;
/// use zk_tools::{Glob, ToolsOptions};
///
/// let tool = Glob::new(&ToolsOptions::default());
/// assert_eq!(tool.summary(&serde_json::json!({ "pattern": "**/*.rs" })), "find **/*.rs");
/// ```
#[derive(Debug)]
pub struct Glob {
    spec: Arc<ToolSpec>,
    most: usize,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Args {
    /// Like src/**/*.rs; without / it matches at any depth
    pattern: String,
    path: Option<String>,
    /// Also files ignored by git
    #[serde(default)]
    ignored: Option<bool>,
}

impl Glob {
    /// Tool with these options.
    #[must_use]
    pub fn new(options: &ToolsOptions) -> Self {
        let about = "Find files by name pattern, newest first.";
        Self { spec: args::spec::<Args>("glob", about), most: options.glob_results }
    }
}

#[async_trait]
impl Tool for Glob {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    async fn call(&self, call: &Approved, cx: &ToolCx) -> Result<ToolOutput, ToolError> {
        let args: Args = call.parse()?;
        let files = files(&cx.cx)?;
        let (cwd, most, tools) = (cx.cwd.clone(), self.most, ToolNames::of(&cx.cx));
        let own = cx.cx.clone();
        blocking(&cx.cx, move |stop| {
            let start = args.path.as_deref().unwrap_or(".");
            let found = find_readable(&own, files.clone(), &cwd, start);
            let (place, start) = found.map_err(|error| path_error(&error, &tools))?;
            let (dirs, pattern) = walk::split_pattern(&args.pattern);
            let base = if dirs.is_empty() { "." } else { dirs };
            let files = place_of_walk(files, place, &start.path, base);
            let base = walk::base(&*files, &start.path, base).map_err(|error| path_error(&error, &tools))?;
            let options = WalkOptions {
                ignored: args.ignored.unwrap_or(false),
                only: Some(walk::glob_at_any_depth(pattern, !dirs.is_empty())),
                dates: true,
            };
            let mut newest = Newest::new(most);
            let report = files.walk(&base, &options, &mut |entry| {
                if stop.is_cancelled() {
                    return ControlFlow::Break(());
                }
                newest.add(entry.modified.unwrap_or(SystemTime::UNIX_EPOCH), entry.at);
                ControlFlow::Continue(())
            });
            check_not_stopped(stop)?;
            let report = report.map_err(|error| path_error(&error, &tools))?;
            let total = newest.total;
            let mut text = String::new();
            for file in newest.finish() {
                text.push_str(&file.shown);
                text.push('\n');
            }
            let mut notes = Vec::new();
            let line = format!("{} for {}", count(total, "file"), args.pattern);
            let display = listing(text.lines(), line);
            if total == 0 {
                text = format!("No file matches `{}`", args.pattern);
                if args.ignored != Some(true) {
                    text.push_str(" (ignored files were left out)");
                }
            } else if total > most {
                notes.push(format!("{most} newest of {total}; narrow the pattern for the others"));
            }
            notes.extend(report.notices.into_iter().take(5));
            if !notes.is_empty() {
                text.push_str(&format!("({})", notes.join("; ")));
            }
            Ok(ToolOutput::text(text).with_display(display))
        })
        .await
    }

    fn concurrency(&self, _: &Value) -> Concurrency {
        Concurrency::Shared
    }

    fn effects(&self, args: &Value, _: &CallPlace) -> Effects {
        args::reads(args)
    }

    fn kind(&self) -> Option<CallKind> {
        Some(CallKind::Search)
    }

    fn summary(&self, args: &Value) -> String {
        args::search_summary("find", args)
    }
}

/// File service for the start of a pattern: outside of the workspace it is confined to the requested
/// directory.
fn place_of_walk(own: Arc<dyn Files>, place: Arc<dyn Files>, start: &Path, base: &str) -> Arc<dyn Files> {
    let is_below = place.resolve(start, base).is_ok_and(|at| at.path.starts_with(start));
    if is_below { place } else { own }
}

/// Collector of the newest files, with bounded memory.
struct Newest {
    most: usize,
    total: usize,
    files: Vec<(SystemTime, Resolved)>,
}

impl Newest {
    fn new(most: usize) -> Self {
        Self { most, total: 0, files: Vec::new() }
    }

    fn add(&mut self, date: SystemTime, file: Resolved) {
        self.total += 1;
        self.files.push((date, file));
        if self.files.len() > self.most.saturating_mul(2).max(1_024) {
            self.keep_newest();
        }
    }

    fn keep_newest(&mut self) {
        self.files.sort_by(|(a, x), (b, y)| b.cmp(a).then_with(|| x.path.cmp(&y.path)));
        self.files.truncate(self.most);
    }

    fn finish(mut self) -> impl Iterator<Item = Resolved> {
        self.keep_newest();
        self.files.into_iter().map(|(_, file)| file)
    }
}
