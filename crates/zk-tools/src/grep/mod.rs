mod lines;
mod search;

use std::ops::ControlFlow;
use std::sync::Arc;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use zk_core::model::{Approved, Concurrency, Display, Effects, ToolError, ToolOutput, ToolSpec};
use zk_core::service::{CallPlace, Tool, ToolCx, WalkReport};

use crate::text::{count, size};
use crate::work::{blocking, go_on, path_error, paths};
use crate::{ToolsOptions, args, caps, walk};
use search::{Found, Query, Search};

/// Finds text in files with ripgrep's own libraries, in this process.
///
/// ```
/// use zk_core::service::Tool;
/// use zk_tools::{Grep, ToolsOptions};
///
/// let tool = Grep::new(&ToolsOptions::default());
/// assert_eq!(tool.summary(&serde_json::json!({ "pattern": "fn main", "path": "src" })), "grep fn main in src");
/// ```
#[derive(Debug)]
pub struct Grep {
    spec: Arc<ToolSpec>,
    most: usize,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Args {
    /// Regular expression
    pattern: String,
    path: Option<String>,
    /// Only files like *.rs
    glob: Option<String>,
    /// Default files
    mode: Option<Mode>,
    ignore_case: Option<bool>,
    /// Lines around each match
    context: Option<usize>,
    /// Results, default 250; 0 = all
    head_limit: Option<usize>,
    /// Results to skip
    offset: Option<usize>,
    /// Also files ignored by git
    ignored: Option<bool>,
}

/// What a result is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(crate) enum Mode {
    #[default]
    Files,
    Content,
    Count,
}

impl Grep {
    /// The tool.
    #[must_use]
    pub fn new(options: &ToolsOptions) -> Self {
        Self { spec: args::spec::<Args>("grep", "Search file contents."), most: options.grep_results }
    }
}

#[async_trait]
impl Tool for Grep {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    async fn call(&self, call: &Approved, cx: &ToolCx) -> Result<ToolOutput, ToolError> {
        let args: Args = call.parse()?;
        let paths = paths(&cx.cx)?;
        let cwd = cx.cwd.clone();
        let limit = args.head_limit.unwrap_or(self.most);
        let offset = args.offset.unwrap_or(0);
        let mode = args.mode.unwrap_or_default();
        blocking(&cx.cx, move |stop| {
            let start = args.path.as_deref().unwrap_or(".");
            let base = walk::base(&*paths, &cwd, start).map_err(|error| path_error(&error))?;
            let query = Query {
                matcher: search::matcher(&args.pattern, args.ignore_case.unwrap_or(false))?,
                mode,
                context: args.context.unwrap_or(0).min(50),
                skip: offset,
                // One more, to know whether there is more.
                wanted: if limit == 0 { usize::MAX } else { limit.saturating_add(1) },
            };
            let only = args.glob.as_deref().map(|glob| walk::matcher(glob, false)).transpose();
            let only =
                only.map_err(|error| ToolError::invalid(format!("this is no usable glob: {error}")))?;
            let mut search = Search::new(&*paths, &query, stop);
            let report = walk::files(&*paths, &base, args.ignored.unwrap_or(false), stop, &mut |file| {
                let below = file.path.strip_prefix(&base.path).unwrap_or(&file.path);
                if only.as_ref().is_none_or(|only| only.is_match(below)) {
                    search.add(file)
                } else {
                    ControlFlow::Continue(())
                }
            })?;
            let found = search.finish()?;
            go_on(stop)?;
            Ok(render(&found, &report, mode, offset, limit, &args.pattern))
        })
        .await
    }

    fn concurrency(&self, _: &Value) -> Concurrency {
        Concurrency::Shared
    }

    fn effects(&self, args: &Value, _: &CallPlace) -> Effects {
        Effects::reads([args.get("path").and_then(Value::as_str).unwrap_or(".")])
    }

    fn summary(&self, args: &Value) -> String {
        let pattern = args::text(args, "pattern");
        match args.get("path").and_then(Value::as_str) {
            Some(path) => format!("grep {pattern} in {path}"),
            None => format!("grep {pattern}"),
        }
    }
}

fn render(
    found: &Found,
    report: &WalkReport,
    mode: Mode,
    offset: usize,
    limit: usize,
    pattern: &str,
) -> ToolOutput {
    let limit = if limit == 0 { usize::MAX } else { limit };
    let results = &found.results;
    let shown: Vec<&str> = results.list.iter().take(limit).map(String::as_str).collect();
    let mut text = String::new();
    for result in &shown {
        text.push_str(result);
        text.push('\n');
    }
    let mut notes = Vec::new();
    let last = offset + shown.len();
    if shown.is_empty() && !results.capped {
        notes.push(if results.skipped > 0 {
            format!("there are only {} results", results.skipped)
        } else {
            "no match".to_owned()
        });
    } else if results.capped {
        let most = size(caps::RESULT_BYTES as u64);
        notes.push(format!(
            "results {}-{last}, more follow but one result may have {most}; continue with offset={last}",
            offset + 1
        ));
    } else if results.list.len() > limit {
        notes.push(format!("results {}-{last}, more follow; continue with offset={last}", offset + 1));
    }
    if found.unsearchable > 0 {
        notes.push(format!("{} could not be searched", count(found.unsearchable, "file")));
    }
    if found.protected > 0 {
        notes.push(format!("{} with credentials left out", count(found.protected, "file")));
    }
    notes.extend(report.notices.iter().take(5).cloned());
    if !notes.is_empty() {
        text.push_str(&format!("({})", notes.join("; ")));
    }
    let what = match mode {
        Mode::Files | Mode::Count => "file",
        Mode::Content => "line",
    };
    let line = format!("{} for {pattern}", count(shown.len(), what));
    ToolOutput::text(text).with_display(Display::Line { text: line })
}
