use std::fmt;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use zk_core::service::{ENTRY_VERSION, Entry, EntryKind, Redactor};
use zk_view::{escape_controls, rebuild, rebuild_whole};

use super::document::{DocumentFacts, Limits};
use super::jsonl::{TRANSCRIPT_VERSION, TranscriptHeader, TranscriptLine};
use super::markdown::{markdown_block, markdown_head};
use super::redact::EntryRedactor;
use crate::ExportError;
use crate::html::Page;

/// Format of a document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExportFormat {
    /// JSON lines, which zk imports again.
    Jsonl,
    /// Markdown.
    #[default]
    Markdown,
    /// One page for a browser.
    Html,
}

impl ExportFormat {
    /// Format for the extension of a file's name, if known.
    ///
    /// ```
    /// use zk_transcripts::ExportFormat;
    ///
    /// assert_eq!(ExportFormat::of_name("talk.HTML".as_ref()), Some(ExportFormat::Html));
    /// assert_eq!(ExportFormat::of_name("talk".as_ref()), None);
    /// ```
    #[must_use]
    pub fn of_name(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "jsonl" | "ndjson" => Some(Self::Jsonl),
            "md" | "markdown" => Some(Self::Markdown),
            "html" | "htm" => Some(Self::Html),
            _ => None,
        }
    }

    /// File name extension of the format.
    #[must_use]
    pub fn ending(self) -> &'static str {
        match self {
            Self::Jsonl => "jsonl",
            Self::Markdown => "md",
            Self::Html => "html",
        }
    }
}

impl fmt::Display for ExportFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.ending())
    }
}

/// Writer of a session as a document, entry by entry. Documents for people are written run by run, so that memory is
/// bounded by the largest run.
pub struct Exporter<W> {
    out: W,
    format: ExportFormat,
    limits: Limits,
    clean: EntryRedactor,
    /// Entries of the current run.
    run: Vec<Entry>,
    run_bytes: usize,
    entries: u64,
    page: Page,
}

impl<W> fmt::Debug for Exporter<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exporter")
            .field("format", &self.format)
            .field("entries", &self.entries)
            .finish_non_exhaustive()
    }
}

impl<W: Write> Exporter<W> {
    /// Begins a document.
    ///
    /// # Errors
    /// [`ExportError::Write`].
    pub fn begin(
        mut out: W,
        format: ExportFormat,
        facts: DocumentFacts,
        redactor: Arc<Redactor>,
    ) -> Result<Self, ExportError> {
        let limits = Limits::default();
        let mut page = Page::new(limits);
        let redact = |text: &str| redactor.redact(text).into_owned();
        let facts = DocumentFacts { title: redact(&facts.title), ..facts };
        match format {
            ExportFormat::Jsonl => {
                let header = TranscriptHeader {
                    version: TRANSCRIPT_VERSION.to_owned(),
                    entry_version: ENTRY_VERSION.to_owned(),
                    id: facts.session.clone().unwrap_or_default(),
                    cwd: facts.cwd.to_string_lossy().into_owned(),
                    created_ms: facts.created_ms,
                    title: Some(facts.title.clone()).filter(|title| !title.is_empty()),
                    parent: facts.parent.clone(),
                    tree: facts.tree,
                };
                write_header(&mut out, header, &redactor)?;
            }
            ExportFormat::Markdown => {
                let models: Vec<&str> = facts.totals.models.keys().map(String::as_str).collect();
                let model = match models.as_slice() {
                    [] => facts.model.clone().unwrap_or_else(|| "unknown".to_owned()),
                    all => all.join(", "),
                };
                out.write_all(markdown_head(facts.session.as_deref(), &model).as_bytes())?;
            }
            ExportFormat::Html => {
                let mut text = String::new();
                page.push_head(&mut text, &facts);
                out.write_all(text.as_bytes())?;
            }
        }
        let (clean, run) = (EntryRedactor::new(redactor), Vec::new());
        Ok(Self { out, format, limits, clean, run, run_bytes: 0, entries: 0, page })
    }

    /// Sets other limits.
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Self {
        Self { limits, page: self.page.with_limits(limits), ..self }
    }

    /// Adds the next entry; `bytes` is its size as JSON, if known. An entry that is invalid without its secrets
    /// is left out, and [`Exporter::notice`] tells it.
    ///
    /// # Errors
    /// [`ExportError::Write`], or [`ExportError::Entry`] when it does not serialise.
    pub fn add(&mut self, entry: Entry, bytes: usize) -> Result<(), ExportError> {
        let Some(entry) = self.clean.redact_entry(entry) else { return Ok(()) };
        self.entries += 1;
        if self.format == ExportFormat::Jsonl {
            let id = entry.id.to_string();
            return write_line(&mut self.out, &TranscriptLine::Entry(entry), &id);
        }
        let is_pair_open = self
            .run
            .last()
            .is_some_and(|last| last.kind.message().is_some_and(|message| message.calls().next().is_some()));
        let is_run = matches!(entry.kind, EntryKind::RunStart { .. });
        if is_run || (self.run_bytes > self.limits.run_bytes && !is_pair_open) {
            self.write_run()?;
        }
        self.run_bytes += bytes.max(256);
        self.run.push(entry);
        Ok(())
    }

    /// Message about the entries that were left out, for the person. Documents for people end with it.
    #[must_use]
    pub fn notice(&self) -> Option<String> {
        self.clean.notice()
    }

    fn write_run(&mut self) -> Result<(), ExportError> {
        let run = std::mem::take(&mut self.run);
        self.run_bytes = 0;
        let mut text = String::new();
        match self.format {
            ExportFormat::Jsonl => {}
            ExportFormat::Markdown => {
                rebuild(&run).iter().for_each(|block| markdown_block(&mut text, block));
            }
            ExportFormat::Html => {
                // Each block is written at once, so that the page is never in memory as a whole.
                for block in rebuild_whole(&run) {
                    self.page.push_block(&mut text, &block);
                    if text.len() > 1 << 20 {
                        self.out.write_all(text.as_bytes())?;
                        text.clear();
                    }
                }
            }
        }
        self.out.write_all(text.as_bytes())?;
        Ok(())
    }

    /// Ends the document and returns the output and the number of entries in it.
    ///
    /// # Errors
    /// [`ExportError::Write`].
    pub fn finish(mut self) -> Result<(W, u64), ExportError> {
        self.write_run()?;
        match self.format {
            ExportFormat::Jsonl => {
                let end = TranscriptLine::End { entries: self.entries };
                write_line(&mut self.out, &end, "the last line")?;
            }
            ExportFormat::Markdown => {
                if let Some(notice) = self.notice() {
                    writeln!(self.out, "\n*{notice}*")?;
                }
            }
            ExportFormat::Html => {
                let mut text = String::new();
                let notice = self.notice();
                self.page.push_foot(&mut text, notice.as_deref());
                self.out.write_all(text.as_bytes())?;
            }
        }
        self.out.flush()?;
        Ok((self.out, self.entries))
    }
}

fn write_header(
    out: &mut impl Write,
    header: TranscriptHeader,
    redactor: &Redactor,
) -> Result<(), ExportError> {
    let redact = |text: String| redactor.redact(&text).into_owned();
    let header = TranscriptHeader {
        id: redact(header.id),
        cwd: redact(header.cwd),
        parent: header.parent.map(redact),
        ..header
    };
    write_line(out, &TranscriptLine::ZkSession(header), "the first line")
}

/// Writes a line whose secrets are removed already.
fn write_line(out: &mut impl Write, line: &TranscriptLine, entry: &str) -> Result<(), ExportError> {
    let mut json =
        serde_json::to_vec(line).map_err(|source| ExportError::Entry { entry: entry.to_owned(), source })?;
    // Control characters are escaped, since the file may be printed on a terminal.
    escape_controls(&mut json, 0);
    json.push(b'\n');
    Ok(out.write_all(&json)?)
}
