use std::borrow::Cow;
use std::io::{Cursor, Read};
use std::sync::Arc;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use zk_core::model::{
    Approved, Block, CallLocation, Concurrency, Display, Effects, ToolContent, ToolError, ToolErrorKind,
    ToolOutput, ToolSpec,
};
use zk_core::service::{CallPlace, FileStat, Redactor, Tool, ToolCx};

use crate::fingerprint::{ContentHasher, Fingerprint, HASHED_UP_TO};
use crate::media::{self, Media};
use crate::notebook;
use crate::policy::visible_tags;
use crate::read_state::{Shown, Slice, reader};
use crate::text::{count, head, is_binary, size};
use crate::work::{blocking, files, go_on, io_error, path_error};
use crate::{ReadState, ToolsOptions, args, caps};

/// Files above this size are read in parts only, which the call has to name.
const WHOLE_UP_TO: u64 = 2 << 20;

/// Pages through a text file; shows images and PDFs as they are, and notebooks by their cells.
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

#[derive(Debug, Deserialize, JsonSchema)]
struct Args {
    path: String,
    /// First line, from 1
    offset: Option<u64>,
    /// Lines; 0 = all
    limit: Option<u64>,
    /// 0 = all
    max_bytes: Option<u64>,
}

impl ReadFile {
    /// The tool, noting in `state` what the model saw.
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
        let args: Args = call.parse()?;
        let slice = Slice {
            offset: args.offset.unwrap_or(1).max(1),
            limit: args.limit.unwrap_or(self.options.read_lines),
            max_bytes: args.max_bytes.unwrap_or(self.options.read_bytes),
        };
        let in_parts = args.offset.is_some() || args.limit.is_some() || args.max_bytes.is_some();
        let files = files(&cx.cx)?;
        let cwd = cx.cwd.clone();
        let (reader, redactor) = (reader(&cx.cx), cx.cx.service::<Redactor>());
        let (state, numbers, dedup) =
            (self.state.clone(), self.options.line_numbers, self.options.dedup_reads);
        blocking(&cx.cx, move |stop| {
            let at = files.resolve(&cwd, &args.path).map_err(|error| path_error(&error))?;
            let file = files.open(&at, None).map_err(|error| path_error(&error))?;
            let stat = files.stat(&at).map_err(|error| path_error(&error))?;
            let mut file = file;
            let mut start = Vec::with_capacity(media::START);
            file.by_ref().take(media::START as u64).read_to_end(&mut start).map_err(|error| io_error("read", &at.shown, &error))?;
            let kind = Media::of(&start);
            let mut file: Box<dyn Read + Send> = Box::new(Cursor::new(start).chain(file));
            let unchanged = || {
                let text = format!(
                    "`{}` is unchanged since you read these lines; the earlier result still holds",
                    at.shown
                );
                ToolOutput::text(text.clone()).with_display(Display::Line { text })
            };
            if let Some(kind) = kind {
                let (output, bytes) = kind.show(&at.shown, stat.len, &mut *file)?;
                let repeats = state.note_read(&reader, &at.path, Fingerprint::of(&bytes), slice, UNSEEN);
                return Ok(if repeats && dedup && !bytes.is_empty() { unchanged() } else { output });
            }
            if at.shown.ends_with(".ipynb") && stat.len <= notebook::MOST {
                let mut bytes = Vec::new();
                file.read_to_end(&mut bytes).map_err(|error| io_error("read", &at.shown, &error))?;
                if let Some((text, images)) = notebook::render(&bytes) {
                    let repeats = state.note_read(&reader, &at.path, Fingerprint::of(&bytes), slice, UNSEEN);
                    if repeats && dedup {
                        return Ok(unchanged());
                    }
                    return cells(text, images, &stat, &at.shown, slice, stop);
                }
                file = Box::new(Cursor::new(bytes));
            }
            let page = match page(file, &stat, &at.shown, slice, in_parts, stop)? {
                Content::Text(page) => page,
                Content::Binary => {
                    let text = format!(
                        "[`{}` is a binary file of {}, not shown; use shell (file, xxd, strings) to look into it]",
                        at.shown,
                        size(stat.len)
                    );
                    return Ok(ToolOutput::text(text.clone()).with_display(Display::Line { text }));
                }
            };
            page.check(&at.shown, slice)?;
            let text = page.render(numbers);
            let mut shown = page.shown();
            // What is taken out of the result, or made visible in it, the model does not know as it is.
            shown.faithful &= !redactor.is_some_and(|redactor| matches!(redactor.redact(&text), Cow::Owned(_)))
                && matches!(visible_tags(&text), Cow::Borrowed(_));
            let repeats = state.note_read(&reader, &at.path, page.fingerprint, slice, shown);
            if repeats && dedup {
                return Ok(unchanged());
            }
            let lines = count(usize::try_from(page.lines).unwrap_or(usize::MAX), "line");
            let line = Display::Line { text: format!("read {lines} of {}", at.shown) };
            Ok(ToolOutput::text(text).with_display(line))
        })
        .await
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

/// What a read shows that shows no lines of the file as they are.
const UNSEEN: Shown = Shown { lines: None, to_the_end: false, faithful: false };

/// A page of a notebook's cells, and the images that stand in it.
fn cells(
    text: String,
    images: Vec<Block>,
    stat: &FileStat,
    shown: &str,
    slice: Slice,
    stop: &CancellationToken,
) -> Result<ToolOutput, ToolError> {
    let content = page(Box::new(Cursor::new(text.into_bytes())), stat, shown, slice, true, stop)?;
    let text = match content {
        Content::Text(page) => {
            page.check(shown, slice)?;
            page.render(false)
        }
        Content::Binary => format!("[the cells of `{shown}` are no text]"),
    };
    let line = Display::Line { text: format!("read the cells of {shown}") };
    let kept = images.into_iter().zip(1..).filter(|(_, number)| text.contains(&format!("[image {number}]")));
    let images: Vec<Block> = kept.map(|(image, _)| image).collect();
    if images.is_empty() {
        return Ok(ToolOutput::text(text).with_display(line));
    }
    let content = ToolContent::Blocks([vec![Block::text(text)], images].concat());
    Ok(ToolOutput { content, display: Some(line), details: None })
}

enum Content {
    Text(Page),
    Binary,
}

/// The lines one read shows.
struct Page {
    first: u64,
    /// The lines, each with its end.
    text: String,
    lines: u64,
    /// How many lines there are, unless the end was not looked for.
    total: Option<u64>,
    /// Whether the last line is cut.
    cut: bool,
    /// Whether it ends where it does because no result may have more.
    capped: bool,
    crlf: bool,
    faithful: bool,
    fingerprint: Fingerprint,
}

/// Reads the file once, piece by piece, keeping only what is asked for.
fn page(
    mut file: Box<dyn Read + Send>,
    stat: &FileStat,
    shown: &str,
    slice: Slice,
    in_parts: bool,
    stop: &CancellationToken,
) -> Result<Content, ToolError> {
    let hashed = stat.len <= HASHED_UP_TO;
    let mut hasher = ContentHasher::default();
    let mut keep = Keep::new(slice);
    // As large as a small file and its end; what says it is empty may still grow or be made up as it is read.
    let mut buffer = vec![0_u8; (stat.len as usize).saturating_add(1).clamp(4 * 1024, 64 * 1024)];
    let mut begun = false;
    let mut at_end = false;
    while hashed || !keep.full {
        go_on(stop)?;
        let read = file.read(&mut buffer).map_err(|error| io_error("read", shown, &error))?;
        let Some(piece) = buffer.get(..read).filter(|piece| !piece.is_empty()) else {
            at_end = true;
            break;
        };
        if !begun && is_binary(piece) {
            return Ok(Content::Binary);
        }
        if !begun && !in_parts && stat.len > WHOLE_UP_TO {
            let text = format!(
                "`{shown}` has {}; say which part to read with offset and limit, or find the place with grep",
                size(stat.len)
            );
            return Err(ToolError::invalid(text));
        }
        begun = true;
        if hashed {
            hasher.add(piece);
        }
        keep.take(piece);
    }
    let fingerprint = if hashed { hasher.finish() } else { Fingerprint::of_stat(stat) };
    Ok(Content::Text(keep.finish(at_end, fingerprint)))
}

/// Collects the lines of a slice from a stream of bytes.
struct Keep {
    slice: Slice,
    /// Bytes of the file that may still be kept.
    budget: u64,
    /// Bytes that the result may still have, with the numbers of its lines.
    room: u64,
    line: u64,
    current: Vec<u8>,
    current_len: u64,
    /// The lines kept, each with its end.
    kept: Vec<u8>,
    lines: u64,
    cut: bool,
    full: bool,
    capped: bool,
    crlf: bool,
}

impl Keep {
    fn new(slice: Slice) -> Self {
        let room = caps::RESULT_BYTES as u64 - 1024;
        let budget = if slice.max_bytes == 0 { room } else { slice.max_bytes.min(room) };
        Self {
            slice,
            budget,
            room,
            line: 1,
            current: Vec::new(),
            current_len: 0,
            kept: Vec::new(),
            lines: 0,
            cut: false,
            full: false,
            capped: false,
            crlf: false,
        }
    }

    fn take(&mut self, mut piece: &[u8]) {
        while let Some(end) = piece.iter().position(|byte| *byte == b'\n') {
            let (line, rest) = piece.split_at(end);
            self.extend(line);
            self.end_line();
            piece = rest.get(1..).unwrap_or_default();
        }
        self.extend(piece);
    }

    fn wanted(&self) -> bool {
        !self.full && self.line >= self.slice.offset
    }

    /// Bytes of a line's number, the tab after it and the end of the line.
    fn frame(&self) -> u64 {
        u64::from(self.line.ilog10()) + 3
    }

    fn extend(&mut self, bytes: &[u8]) {
        self.current_len += bytes.len() as u64;
        if !self.wanted() {
            return;
        }
        let most = self.budget.min(self.room.saturating_sub(self.frame()));
        let room = most.saturating_sub(self.current.len() as u64);
        let room = usize::try_from(room).unwrap_or(usize::MAX).min(bytes.len());
        self.current.extend_from_slice(bytes.get(..room).unwrap_or_default());
        if self.current_len >= most {
            self.full = true;
            self.capped = most < self.budget || self.slice.max_bytes == 0;
            // A line that does not fit is left for the next read, unless it fits into none.
            if self.lines == 0 {
                self.cut = true;
                self.keep_current();
            }
        }
    }

    fn keep_current(&mut self) {
        self.kept.append(&mut self.current);
        self.kept.push(b'\n');
        self.lines += 1;
    }

    fn end_line(&mut self) {
        if self.wanted() {
            self.budget -= self.current_len + 1;
            self.room -= self.current_len + self.frame();
            if self.current.last() == Some(&b'\r') {
                self.current.pop();
                self.crlf = true;
            }
            self.keep_current();
            let enough = self.slice.limit > 0 && self.lines >= self.slice.limit;
            self.capped = !enough && self.room <= self.frame() + 1;
            self.full = enough || self.budget == 0 || self.capped;
        }
        self.current.clear();
        self.current_len = 0;
        self.line += 1;
    }

    fn finish(mut self, at_end: bool, fingerprint: Fingerprint) -> Page {
        if self.current_len > 0 {
            self.end_line();
        }
        // A line cut inside a character loses that character.
        if self.cut {
            self.kept.pop();
            self.kept = whole_characters(std::mem::take(&mut self.kept));
            self.kept.push(b'\n');
        }
        let (text, faithful) = match String::from_utf8(self.kept) {
            Ok(text) => (text, true),
            Err(error) => (String::from_utf8_lossy(error.as_bytes()).into_owned(), false),
        };
        Page {
            first: self.slice.offset,
            text,
            lines: self.lines,
            total: at_end.then_some(self.line - 1),
            cut: self.cut,
            capped: self.capped,
            crlf: self.crlf,
            faithful,
            fingerprint,
        }
    }
}

fn whole_characters(mut line: Vec<u8>) -> Vec<u8> {
    if let Err(error) = std::str::from_utf8(&line)
        && error.error_len().is_none()
    {
        line.truncate(error.valid_up_to());
    }
    line
}

impl Page {
    fn last(&self) -> u64 {
        (self.first + self.lines).saturating_sub(1)
    }

    fn shown(&self) -> Shown {
        Shown {
            lines: (self.lines > 0).then(|| (self.first, self.last())),
            // A page behind the end shows nothing of the file.
            to_the_end: self
                .total
                .is_some_and(|total| self.last() >= total && (self.lines > 0 || total == 0))
                && !self.cut,
            faithful: self.faithful,
        }
    }

    fn check(&self, shown: &str, slice: Slice) -> Result<(), ToolError> {
        match self.total {
            Some(total) if slice.offset > total.max(1) => Err(ToolError::new(
                ToolErrorKind::InvalidArgs,
                format!("`{shown}` has {total} lines; there is no line {}", slice.offset),
            )),
            Some(_) | None => Ok(()),
        }
    }

    fn render(&self, numbers: bool) -> String {
        if self.lines == 0 {
            return "(the file is empty)".to_owned();
        }
        let numbers_bytes =
            if numbers { self.lines * (u64::from(self.last().max(1).ilog10()) + 2) } else { 0 };
        let mut text =
            String::with_capacity(self.text.len() + usize::try_from(numbers_bytes).unwrap_or(0) + 512);
        for (number, line) in (self.first..).zip(self.text.split_inclusive('\n')) {
            if numbers {
                text.push_str(&number.to_string());
                text.push('\t');
            }
            text.push_str(line);
        }
        let last = self.last();
        let mut notes = Vec::new();
        if self.cut {
            notes.push(format!("line {last} is cut, it does not fit into max_bytes"));
        }
        if self.capped {
            notes.push(format!("one result may have {}", size(caps::RESULT_BYTES as u64)));
        }
        match self.total {
            Some(total) if last < total => {
                notes.push(format!(
                    "lines {}-{last} of {total}; continue with offset={}",
                    self.first,
                    last + 1
                ));
            }
            Some(_) => {}
            None => notes.push(format!(
                "lines {}-{last}, more follow; continue with offset={}",
                self.first,
                last + 1
            )),
        }
        if self.crlf {
            notes.push("lines end with CR LF".to_owned());
        }
        if !self.faithful {
            notes.push("bytes that are no UTF-8 are shown as \u{fffd}".to_owned());
        }
        if !notes.is_empty() {
            text.push_str(&format!("({})", head(&notes.join("; "), 400)));
        }
        text
    }
}
