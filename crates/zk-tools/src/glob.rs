use std::sync::Arc;
use std::time::SystemTime;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use zk_core::model::{Approved, Concurrency, Display, Effects, ToolError, ToolOutput, ToolSpec};
use zk_core::service::{CallPlace, Tool, ToolCx};

use crate::text::count;
use crate::work::{blocking, go_on, path_error, paths};
use crate::{ToolsOptions, args, walk};

/// Finds files by name, newest first.
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
    /// The tool.
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
        let paths = paths(&cx.cx)?;
        let (cwd, most) = (cx.cwd.clone(), self.most);
        blocking(&cx.cx, move |stop| {
            let start = args.path.as_deref().unwrap_or(".");
            let start = paths.resolve(&cwd, start).map_err(|error| path_error(&error))?;
            let (dirs, pattern) = walk::split_pattern(&args.pattern);
            let base = if dirs.is_empty() { "." } else { dirs };
            let base = walk::base(&*paths, &start.path, base).map_err(|error| path_error(&error))?;
            let matcher = walk::matcher(pattern, !dirs.is_empty())
                .map_err(|error| ToolError::invalid(format!("this is no usable pattern: {error}")))?;
            let mut found = Vec::new();
            for entry in walk::files(&base.path, args.ignored.unwrap_or(false)) {
                go_on(stop)?;
                let Ok(below) = entry.path().strip_prefix(&base.path) else { continue };
                if matcher.is_match(below) {
                    let date = entry.metadata().ok().and_then(|meta| meta.modified().ok());
                    found.push((date.unwrap_or(SystemTime::UNIX_EPOCH), entry.into_path()));
                }
            }
            found.sort_by(|(a, x), (b, y)| b.cmp(a).then_with(|| x.cmp(y)));
            let roots = paths.roots();
            let mut text = String::new();
            for (_, path) in found.iter().take(most) {
                text.push_str(&walk::below(&roots, path).shown);
                text.push('\n');
            }
            if found.is_empty() {
                text = format!("No file matches `{}`", args.pattern);
                if args.ignored != Some(true) {
                    text.push_str(" (ignored files were left out)");
                }
            } else if found.len() > most {
                text.push_str(&format!(
                    "({most} newest of {}; narrow the pattern for the others)",
                    found.len()
                ));
            }
            let line = format!("{} for {}", count(found.len(), "file"), args.pattern);
            Ok(ToolOutput::text(text).with_display(Display::Line { text: line }))
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
            Some(path) => format!("find {pattern} in {path}"),
            None => format!("find {pattern}"),
        }
    }
}
