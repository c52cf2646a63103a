use std::sync::Arc;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use zk_core::model::{Approved, CallKind, Concurrency, Effects, ToolError, ToolOutput, ToolSpec};
use zk_core::service::{CallPlace, FileKind, Tool, ToolCx};

use crate::args;
use crate::limits::LISTED_NAMES;
use crate::text::{count, listing, minute, size};
use crate::tool_names::ToolNames;
use crate::tool_support::{blocking, files, find_readable, path_error};

/// Tool `list_files`: lists a directory. Directories end with `/`, links with `@`; files have their size and
/// modification time (UTC).
///
/// ```
/// use zk_core::service::Tool;
/// use zk_tools::ListFiles;
///
/// assert_eq!(ListFiles::new().summary(&serde_json::json!({ "path": "src" })), "list src");
/// ```
#[derive(Debug)]
pub struct ListFiles {
    spec: Arc<ToolSpec>,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Args {
    /// Default: .
    path: Option<String>,
}

impl Default for ListFiles {
    fn default() -> Self {
        Self::new()
    }
}

impl ListFiles {
    /// New tool.
    #[must_use]
    pub fn new() -> Self {
        Self { spec: args::spec::<Args>("list_files", "List a directory with kinds, sizes and times (UTC).") }
    }
}

#[async_trait]
impl Tool for ListFiles {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    async fn call(&self, call: &Approved, cx: &ToolCx) -> Result<ToolOutput, ToolError> {
        let args: Args = call.parse()?;
        self.list(args.path.as_deref().unwrap_or("."), cx).await
    }

    fn concurrency(&self, _: &Value) -> Concurrency {
        Concurrency::Shared
    }

    fn effects(&self, args: &Value, _: &CallPlace) -> Effects {
        args::reads(args)
    }

    fn kind(&self) -> Option<CallKind> {
        Some(CallKind::Read)
    }

    fn summary(&self, args: &Value) -> String {
        format!("list {}", args::folder(args))
    }
}

impl ListFiles {
    /// Lists the directory at a path.
    pub(crate) async fn list(&self, path: &str, cx: &ToolCx) -> Result<ToolOutput, ToolError> {
        let files = files(&cx.cx)?;
        let (cwd, tools, path) = (cx.cwd.clone(), ToolNames::of(&cx.cx), path.to_owned());
        let own = cx.cx.clone();
        blocking(&cx.cx, move |_| {
            let found = find_readable(&own, files, &cwd, &path);
            let (files, at) = found.map_err(|error| path_error(&error, &tools))?;
            let found = files.list(&at).map_err(|error| path_error(&error, &tools))?;
            let mut text = String::new();
            for (name, stat) in found.iter().take(LISTED_NAMES) {
                text.push_str(name);
                match stat.kind {
                    FileKind::Directory => text.push('/'),
                    FileKind::Link => text.push('@'),
                    FileKind::File => {
                        text.push_str(&format!("  {}", size(stat.len)));
                        if let Some(time) = stat.modified.and_then(minute) {
                            text.push_str(&format!("  {time}"));
                        }
                    }
                    FileKind::Other => text.push_str("  (device, pipe or socket)"),
                }
                text.push('\n');
            }
            let line = format!("{} in {}", count(found.len(), "name"), at.shown);
            let display = listing(text.lines(), line);
            if found.is_empty() {
                text.push_str("(the directory is empty)");
            } else if found.len() > LISTED_NAMES {
                let next = tools.advise("glob", |glob| format!("; use {glob} to narrow it down"));
                text.push_str(&format!("({LISTED_NAMES} of {} names{next})", found.len()));
            }
            Ok(ToolOutput::text(text).with_display(display))
        })
        .await
    }
}
