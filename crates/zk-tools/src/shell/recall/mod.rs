mod line;

use std::io::{BufReader, Read};
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use zk_core::kernel::Cx;
use zk_core::model::{
    Approved, CallKind, Concurrency, Effects, ToolError, ToolErrorKind, ToolOutput, ToolSpec,
};
use zk_core::service::{BlobId, Blobs, CallPlace, Tool, ToolCx};

use crate::text::{count, listing, one_line};
use crate::tool_support::{blocking, check_not_stopped, io_error};
use crate::{OutputDir, args};
use line::Line;

/// Default number of lines in an answer.
const DEFAULT_LINES: u64 = 200;

/// Maximum size of an answer in bytes, below the spill limit.
const MAX_ANSWER_BYTES: usize = 32 * 1024;

/// Shows parts of results that were too large to be given whole: by lines, or those lines that contain a text.
///
/// ```
/// use zk_core::service::Tool;
/// use zk_tools::Recall;
///
/// let args = serde_json::json!({ "handle": "output-1.log", "query": "error" });
/// assert_eq!(Recall::new().summary(&args), "look for error in output-1.log");
/// ```
#[derive(Debug)]
pub struct Recall {
    spec: Arc<ToolSpec>,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Args {
    /// Path or id that a result named
    handle: String,
    /// Only lines with this text
    query: Option<String>,
    /// First line, from 1
    offset: Option<u64>,
    /// Lines, default 200
    limit: Option<u64>,
    /// Byte of the first line to begin at
    at: Option<u64>,
}

impl Default for Recall {
    fn default() -> Self {
        Self::new()
    }
}

impl Recall {
    /// Creates the tool.
    #[must_use]
    pub fn new() -> Self {
        Self {
            spec: args::spec::<Args>(
                "recall",
                "Page through or search an output that was too long to be shown.",
            ),
        }
    }
}

#[async_trait]
impl Tool for Recall {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    async fn call(&self, call: &Approved, cx: &ToolCx) -> Result<ToolOutput, ToolError> {
        let args: Args = call.parse()?;
        let place = Kept::of(&cx.cx);
        blocking(&cx.cx, move |stop| {
            let kept = place.open(&args.handle)?;
            let text = read_page(kept, &args, stop)?;
            let shown = text.lines().count().saturating_sub(1);
            let line = format!("{} of {}", count(shown, "line"), one_line(&args.handle, 100));
            let display = listing(text.lines().take(shown), line);
            Ok(ToolOutput::text(text).with_display(display))
        })
        .await
    }

    fn concurrency(&self, _: &Value) -> Concurrency {
        Concurrency::Shared
    }

    /// Returns no effects: all that it shows was given to this conversation before.
    fn effects(&self, _: &Value, _: &CallPlace) -> Effects {
        Effects::none()
    }

    fn kind(&self) -> Option<CallKind> {
        Some(CallKind::Read)
    }

    fn summary(&self, args: &Value) -> String {
        let handle = one_line(args::text(args, "handle"), 100);
        match args.get("query").and_then(Value::as_str) {
            Some(query) => format!("look for {} in {handle}", one_line(query, 60)),
            None => format!("recall {handle}"),
        }
    }
}

/// Places of large results.
struct Kept {
    dir: Option<Arc<OutputDir>>,
    blobs: Option<Arc<dyn Blobs>>,
}

impl Kept {
    fn of(cx: &Cx) -> Self {
        Self { dir: cx.service::<OutputDir>(), blobs: cx.service::<dyn Blobs>() }
    }

    /// A file in the session's directory, or else a blob of the session.
    fn open(&self, handle: &str) -> Result<Box<dyn Read>, ToolError> {
        let name = Path::new(handle.trim()).file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if let Some(dir) = &self.dir {
            let path = dir.0.join(name);
            // A link was not put there by zk.
            let is_output = !name.is_empty() && path.symlink_metadata().is_ok_and(|found| found.is_file());
            if is_output {
                let file = std::fs::File::open(&path).map_err(|error| io_error("open", handle, &error))?;
                return Ok(Box::new(file));
            }
        }
        if let Some(blobs) = &self.blobs
            && let Ok(blob) = blobs.open(&BlobId(handle.trim().to_owned()), None)
        {
            return Ok(blob);
        }
        Err(ToolError::new(
            ToolErrorKind::NotFound,
            format!(
                "nothing is kept as `{}`; give the path that the result named, or run the call again",
                one_line(handle, 200)
            ),
        ))
    }
}

fn read_page(kept: Box<dyn Read>, args: &Args, stop: &CancellationToken) -> Result<String, ToolError> {
    let from = args.offset.unwrap_or(1).max(1);
    let most = args.limit.filter(|limit| *limit > 0).unwrap_or(DEFAULT_LINES);
    let query = args.query.as_deref().filter(|query| !query.is_empty()).map(str::to_lowercase);
    let mut reader = BufReader::new(kept);
    let (mut text, mut number, mut shown) = (String::new(), 0_u64, 0_u64);
    let (mut next, mut cut) = (None, None);
    loop {
        check_not_stopped(stop)?;
        let mut line = Line::new(if number + 1 == from { args.at.unwrap_or(0) } else { 0 });
        // Lines that are not shown are not searched.
        let wanted = if number + 1 < from { None } else { query.as_deref() };
        if !line.read(&mut reader, wanted, stop).map_err(|error| io_error("read", &args.handle, &error))? {
            check_not_stopped(stop)?;
            break;
        }
        number += 1;
        if number < from {
            continue;
        }
        let Some(part) = line.part(wanted) else { continue };
        if shown == most || text.len() + part.text.len() > MAX_ANSWER_BYTES {
            next = Some(number);
            break;
        }
        shown += 1;
        let (place, before) = match part.from {
            0 => (String::new(), ""),
            from => (format!("@{from}"), "…"),
        };
        let after = if part.to < line.length() { "…" } else { "" };
        if part.to < line.length() {
            cut.get_or_insert((number, part.to));
        }
        text.push_str(&format!("{number}{place}\t{before}{}{after}\n", part.text));
    }
    let what = query.as_ref().map_or("", |_| " with it");
    let rest = cut.map_or_else(String::new, |(line, byte)| {
        format!("; a long line is shown in part, offset={line} with at={byte} goes on in it")
    });
    text.push_str(&match next {
        Some(next) => format!("(more lines{what} follow; continue with offset={next}{rest})"),
        None if shown == 0 => format!("(no line{what} from line {from} on; there are {number})"),
        None => format!("(the end; {number} lines in all{rest})"),
    });
    Ok(text)
}
