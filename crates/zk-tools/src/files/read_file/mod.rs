mod page;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::io::{Cursor, Read};
use std::sync::Arc;

use async_trait::async_trait;
use encoding_rs::{Encoding, UTF_16BE, UTF_16LE};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use zk_core::model::{
    Approved, Block, CallId, CallLocation, Concurrency, Display, Effects, ToolContent, ToolError, ToolOutput,
    ToolSpec,
};
use zk_core::service::{CachedFile, CallPlace, FileStat, Redactor, Resolved, Tool, ToolCx, UNCHANGED_READ};

use crate::files::fingerprint::Fingerprint;
use crate::files::media::{self, Media};
use crate::files::notebook;
use crate::files::read_state::{Flaw, Shown, Slice, reader};
use crate::policy::visible_tags;
use crate::text::{count, size};
use crate::tool_names::ToolNames;
use crate::tool_support::{blocking, files, find_readable, io_error, path_error};
use crate::{ReadState, ToolsOptions, args};
use page::{Content, page};

/// Largest UTF-16 file that is decoded, in bytes.
const UTF_16_BYTES: u64 = 16 << 20;

/// Largest cached file that is read and formatted on the run's own thread, in bytes: a switch to another
/// thread would take longer.
const QUICK_BYTES: usize = 32 << 10;

/// Tool `read_file`: shows pages of text files, images and PDFs unchanged, and notebooks by their cells.
///
/// ```
/// use std::sync::Arc;
/// use zk_core::kernel::Bus;
/// use zk_core::service::{CallPlace, Tool};
/// use zk_tools::{ReadFile, ReadState, ToolsOptions};
///
/// let tool = ReadFile::new(&ToolsOptions::default(), Arc::new(ReadState::new()));
/// let args = serde_json::json!({ "path": "src/main.rs", "offset": 10 });
/// let place = CallPlace { cx: Bus::new().cx(), cwd: "/".into() };
/// assert!(tool.effects(&args, &place).is_read_only());
/// assert_eq!(tool.summary(&args), "read src/main.rs from line 10");
/// ```
#[derive(Debug)]
pub struct ReadFile {
    spec: Arc<ToolSpec>,
    state: Arc<ReadState>,
    options: ToolsOptions,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
struct Args {
    path: String,
    /// First line, from 1
    offset: Option<u64>,
    /// Lines; 0 = all
    limit: Option<u64>,
    /// 0 = all
    max_bytes: Option<u64>,
    /// A notebook as its source
    raw: Option<bool>,
}

impl ReadFile {
    /// Tool that records in `state` which contents the model saw.
    #[must_use]
    pub fn new(options: &ToolsOptions, state: Arc<ReadState>) -> Self {
        let about = if options.line_numbers {
            "Read a file: text, image, PDF or notebook. Each line is shown as number, tab, text."
        } else {
            "Read a file: text, image, PDF or notebook."
        };
        Self { spec: args::spec::<Args>("read_file", about), state, options: options.clone() }
    }
}

#[async_trait]
impl Tool for ReadFile {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    async fn call(&self, call: &Approved, cx: &ToolCx) -> Result<ToolOutput, ToolError> {
        self.read(call.parse()?, cx).await
    }

    fn concurrency(&self, _: &Value) -> Concurrency {
        Concurrency::Shared
    }

    fn effects(&self, args: &Value, _: &CallPlace) -> Effects {
        args::reads(args)
    }

    fn locations(&self, args: &Value) -> Vec<CallLocation> {
        let path = args::text(args, "path").into();
        vec![CallLocation { path, line: args.get("offset").and_then(Value::as_u64) }]
    }

    fn summary(&self, args: &Value) -> String {
        let path = args::text(args, "path");
        match args.get("offset").and_then(Value::as_u64) {
            Some(from) if from > 1 => format!("read {path} from line {from}"),
            Some(_) | None => format!("read {path}"),
        }
    }
}

impl ReadFile {
    /// Reads a file, or `part` of it: the first line, and how many.
    pub(crate) async fn read_lines(
        &self,
        path: String,
        part: Option<(u64, u64)>,
        cx: &ToolCx,
    ) -> Result<ToolOutput, ToolError> {
        let (offset, limit) = part.unzip();
        self.read(Args { path, offset, limit, ..Args::default() }, cx).await
    }

    async fn read(&self, args: Args, cx: &ToolCx) -> Result<ToolOutput, ToolError> {
        let slice = Slice {
            offset: args.offset.unwrap_or(1).max(1),
            limit: args.limit.unwrap_or(self.options.read_lines),
            max_bytes: args.max_bytes.unwrap_or(self.options.read_bytes),
            raw: args.raw == Some(true),
        };
        let files = files(&cx.cx)?;
        let reading = Reading {
            slice,
            in_parts: args.offset.is_some() || args.limit.is_some() || args.max_bytes.is_some(),
            tools: ToolNames::of(&cx.cx),
            call_id: cx.call_id.clone(),
            reader: reader(&cx.cx),
            redactor: cx.cx.service::<Redactor>(),
            state: self.state.clone(),
            numbers: self.options.line_numbers,
            dedup: self.options.dedup_reads,
        };
        // Yields, so that many such reads in a row do not starve other tasks.
        tokio::task::consume_budget().await;
        let stop = cx.cx.stop_token();
        if !stop.is_cancelled()
            && let Some(CachedFile { at, stat, bytes }) = files.read_cached(&cx.cwd, &args.path, QUICK_BYTES)
            && !is_slow(&at, &bytes)
        {
            return reading.show(&at, &stat, Box::new(Cursor::new(bytes)), stop);
        }
        let (cwd, own) = (cx.cwd.clone(), cx.cx.clone());
        blocking(&cx.cx, move |stop| {
            let found = find_readable(&own, files, &cwd, &args.path);
            let (files, at) = found.map_err(|error| path_error(&error, &reading.tools))?;
            let file = files.open(&at, None).map_err(|error| path_error(&error, &reading.tools))?;
            let stat = files.stat(&at).map_err(|error| path_error(&error, &reading.tools))?;
            reading.show(&at, &stat, file, stop)
        })
        .await
    }
}

/// Call with the parameters that affect its result besides the file.
struct Reading {
    slice: Slice,
    in_parts: bool,
    tools: ToolNames,
    call_id: CallId,
    reader: String,
    redactor: Option<Arc<Redactor>>,
    state: Arc<ReadState>,
    numbers: bool,
    dedup: bool,
}

impl Reading {
    /// Formats the requested part of an opened file, and records that the model saw it.
    fn show(
        self,
        at: &Resolved,
        stat: &FileStat,
        mut file: Box<dyn Read + Send>,
        stop: &CancellationToken,
    ) -> Result<ToolOutput, ToolError> {
        let Self { slice, in_parts, tools, call_id, reader, redactor, state, numbers, dedup } = self;
        let mut start = Vec::with_capacity(media::START);
        file.by_ref()
            .take(media::START as u64)
            .read_to_end(&mut start)
            .map_err(|error| io_error("read", &at.shown, &error))?;
        let (kind, encoding) = (Media::of(&start), utf_16(&start));
        let mut file: Box<dyn Read + Send> = Box::new(Cursor::new(start).chain(file));
        let unchanged = || {
            let text = format!("`{}` {UNCHANGED_READ}; the earlier result still holds", at.shown);
            ToolOutput::text(text.clone()).with_display(Display::Line { text })
        };
        if let Some(kind) = kind {
            let (output, bytes) = kind.show(&at.shown, stat.len, &mut *file, &tools)?;
            let note = state.note_read(&reader, &at.path, Fingerprint::of(&bytes), slice, UNSEEN);
            return Ok(if note.repeats && dedup && !bytes.is_empty() { unchanged() } else { output });
        }
        if !slice.raw && at.shown.ends_with(".ipynb") && stat.len <= notebook::MAX_NOTEBOOK_BYTES {
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes).map_err(|error| io_error("read", &at.shown, &error))?;
            if let Some((text, images)) = notebook::render(&bytes) {
                // Before it is recorded, since a failed page was not shown.
                let (text, output) = cells(text, images, stat, &at.shown, slice, &tools, stop)?;
                let note = state.note_read(&reader, &at.path, Fingerprint::of(&bytes), slice, UNSEEN);
                if note.repeats && dedup {
                    return Ok(unchanged());
                }
                state.await_result(&call_id, note, &text);
                return Ok(output);
            }
            file = Box::new(Cursor::new(bytes));
        }
        let mut decoded = None;
        if let Some(encoding) = encoding.filter(|_| stat.len <= UTF_16_BYTES) {
            let mut bytes = Vec::new();
            file.take(UTF_16_BYTES)
                .read_to_end(&mut bytes)
                .map_err(|error| io_error("read", &at.shown, &error))?;
            let (text, _, has_errors) = encoding.decode(&bytes);
            let is_text = !has_errors && text.chars().all(|c| !c.is_control() || c.is_ascii_whitespace());
            file = if is_text && !text.contains('\u{feff}') {
                decoded = Some(Fingerprint::of(&bytes));
                Box::new(Cursor::new(text.into_owned().into_bytes()))
            } else {
                drop(text);
                Box::new(Cursor::new(bytes))
            };
        }
        let page = match page(file, stat, &at.shown, (slice, in_parts), &tools, stop)? {
            Content::Text(page) => match decoded {
                Some(fingerprint) => page.decoded(fingerprint),
                None => page,
            },
            Content::Binary => {
                let next = tools
                    .advise("shell", |shell| format!("; use {shell} (file, xxd, strings) to look into it"));
                let text =
                    format!("[`{}` is a binary file of {}, not shown{next}]", at.shown, size(stat.len));
                return Ok(ToolOutput::text(text.clone()).with_display(Display::Line { text }));
            }
        };
        page.check_offset(&at.shown, slice)?;
        let text = page.render(numbers, &tools);
        let mut shown = page.shown();
        // Text that is redacted, or made visible, is not known to the model exactly.
        let clean = redactor.as_ref().map_or(Cow::Borrowed(&*text), |redactor| redactor.redact(&text));
        let seen = visible_tags(&clean);
        let is_hidden = matches!(clean, Cow::Owned(_)) || matches!(seen, Cow::Owned(_));
        shown.flaw = shown.flaw.or(is_hidden.then_some(Flaw::Hidden));
        let note = state.note_read(&reader, &at.path, page.fingerprint, slice, shown);
        if note.repeats && dedup {
            return Ok(unchanged());
        }
        state.await_result(&call_id, note, &seen);
        drop(seen);
        drop(clean);
        let lines = count(usize::try_from(page.lines).unwrap_or(usize::MAX), "line");
        let line = Display::Line { text: format!("read {lines} of {}", at.shown) };
        Ok(ToolOutput::text(text).with_display(line))
    }
}

/// Whether a small file is slow to show, as images, documents and notebooks are.
fn is_slow(at: &Resolved, bytes: &[u8]) -> bool {
    Media::of(bytes).is_some() || at.shown.ends_with(".ipynb")
}

/// Extent of a read that shows no exact lines of the file.
const UNSEEN: Shown = Shown { lines: None, to_the_end: false, flaw: Some(Flaw::Form) };

/// UTF-16 encoding of a text, from its byte order mark.
fn utf_16(start: &[u8]) -> Option<&'static Encoding> {
    match start {
        // With zeros after the mark, the encoding is UTF-32.
        [0xff, 0xfe, 0, 0, ..] => None,
        [0xff, 0xfe, ..] => Some(UTF_16LE),
        [0xfe, 0xff, ..] => Some(UTF_16BE),
        _ => None,
    }
}

/// Page of a notebook's cells as text, with the images in it.
fn cells(
    text: String,
    images: Vec<Block>,
    stat: &FileStat,
    shown: &str,
    slice: Slice,
    tools: &ToolNames,
    stop: &CancellationToken,
) -> Result<(String, ToolOutput), ToolError> {
    let content = page(Box::new(Cursor::new(text.into_bytes())), stat, shown, (slice, true), tools, stop)?;
    let text = match content {
        Content::Text(page) => {
            page.check_offset(shown, slice)?;
            page.render(false, tools)
        }
        Content::Binary => format!("[the cells of `{shown}` are no text]"),
    };
    let line = Display::Line { text: format!("read the cells of {shown}") };
    let kept = images.into_iter().zip(1..).filter(|(_, number)| text.contains(&format!("[image {number}]")));
    let images: Vec<Block> = kept.map(|(image, _)| image).collect();
    if images.is_empty() {
        return Ok((text.clone(), ToolOutput::text(text).with_display(line)));
    }
    let content = ToolContent::Blocks([vec![Block::text(text.clone())], images].concat());
    Ok((text, ToolOutput { content, display: Some(line), details: None }))
}
