use std::sync::Arc;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use zk_core::model::{Approved, CallKind, Concurrency, Effects, ToolError, ToolOutput, ToolSpec};
use zk_core::service::{CallPlace, SearchFound, SearchMode, SearchQuery, Tool, ToolCx, WalkOptions};

use crate::files::walk;
use crate::text::{count, listing, size};
use crate::tool_names::ToolNames;
use crate::tool_support::{blocking, check_not_stopped, files, find_readable, path_error};
use crate::{ToolsOptions, args, limits};

/// Tool `grep`: finds text in files on the files' machine, locally with ripgrep's libraries.
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
    head_limit: Option<usize>,
    /// Results to skip
    offset: Option<usize>,
    /// Also files ignored by git
    ignored: Option<bool>,
}

/// Kind of a result.
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
    /// Tool with these options.
    #[must_use]
    pub fn new(options: &ToolsOptions) -> Self {
        let most = options.grep_results;
        let usual = if most == 0 { "all".to_owned() } else { most.to_string() };
        let spec = args::spec_with::<Args>("grep", "Search file contents.", |arguments| {
            args::describe(arguments, "head_limit", format!("Results, default {usual}; 0 = all"));
        });
        Self { spec, most }
    }
}

#[async_trait]
impl Tool for Grep {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    async fn call(&self, call: &Approved, cx: &ToolCx) -> Result<ToolOutput, ToolError> {
        let args: Args = call.parse()?;
        let files = files(&cx.cx)?;
        let (cwd, tools, own) = (cx.cwd.clone(), ToolNames::of(&cx.cx), cx.cx.clone());
        let limit = args.head_limit.unwrap_or(self.most);
        let offset = args.offset.unwrap_or(0);
        let mode = args.mode.unwrap_or_default();
        blocking(&cx.cx, move |stop| {
            let start = args.path.as_deref().unwrap_or(".");
            let found = find_readable(&own, files, &cwd, start);
            let (files, base) = found.map_err(|error| path_error(&error, &tools))?;
            files.stat(&base).map_err(|error| path_error(&error, &tools))?;
            let query = SearchQuery {
                pattern: args.pattern,
                ignore_case: args.ignore_case.unwrap_or(false),
                mode: mode.into(),
                context: args.context.unwrap_or(0).min(50),
                walk: WalkOptions {
                    ignored: args.ignored.unwrap_or(false),
                    only: args.glob.as_deref().map(|glob| walk::glob_at_any_depth(glob, false)),
                    dates: false,
                },
                skip: offset,
                // One more than the limit, to know whether there are further results.
                wanted: if limit == 0 { usize::MAX } else { limit.saturating_add(1) },
                max_bytes: limits::RESULT_BYTES,
                line_bytes: limits::SHOWN_LINE_BYTES,
            };
            let found = files.search(&base, &query, stop).map_err(|error| path_error(&error, &tools))?;
            check_not_stopped(stop)?;
            Ok(render(&found, mode, (offset, limit), &query))
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
        args::search_summary("grep", args)
    }
}

impl From<Mode> for SearchMode {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Files => Self::Files,
            Mode::Content => Self::Content,
            Mode::Count => Self::Count,
        }
    }
}

fn render(
    found: &SearchFound,
    mode: Mode,
    (offset, limit): (usize, usize),
    query: &SearchQuery,
) -> ToolOutput {
    let limit = if limit == 0 { usize::MAX } else { limit };
    let shown: Vec<&str> = found.results.iter().take(limit).map(String::as_str).collect();
    let mut text = String::new();
    for result in &shown {
        text.push_str(result);
        text.push('\n');
    }
    let mut notes = Vec::new();
    let last = offset + shown.len();
    if shown.is_empty() && !found.capped {
        notes.push(if found.skipped > 0 {
            format!("there are only {} results", found.skipped)
        } else if query.walk.ignored {
            "no match".to_owned()
        } else {
            "no match; ignored files were left out".to_owned()
        });
    } else if found.capped {
        let most = size(limits::RESULT_BYTES as u64);
        notes.push(format!(
            "results {}-{last}, more follow but one result may have {most}; continue with offset={last}",
            offset + 1
        ));
    } else if found.results.len() > limit {
        notes.push(format!("results {}-{last}, more follow; continue with offset={last}", offset + 1));
    }
    if found.unsearchable > 0 {
        notes.push(format!("{} could not be searched", count(found.unsearchable, "file")));
    }
    if found.protected > 0 {
        notes.push(format!("{} with credentials left out", count(found.protected, "file")));
    }
    notes.extend(found.notices.iter().take(5).cloned());
    if !notes.is_empty() {
        text.push_str(&format!("({})", notes.join("; ")));
    }
    let what = match mode {
        Mode::Files | Mode::Count => "file",
        Mode::Content => "line",
    };
    let line = format!("{} for {}", count(shown.len(), what), query.pattern);
    ToolOutput::text(text).with_display(listing(shown, line))
}
