//! `/export`: writes the conversation to a document. The name of the file gives the format.

use std::io::{BufWriter, Write as _};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use zk_core::kernel::{BoxError, Cx};
use zk_core::service::{EntryVisitor, OpenSession, Redactor};
use zk_transcripts::{
    DocumentFacts, ExportFormat, Exporter, Totals, create_document, export_markdown, export_page,
};
use zk_view::{Block, Content};

use super::info_context::InfoContext;

/// Maximum length of a title that is the beginning of a prompt, in characters.
const MAX_TITLE_CHARS: usize = 80;

/// Writes the conversation to a new file; returns a message with the path.
pub(super) async fn export(context: &InfoContext, args: &str, cx: &Cx) -> Result<String, BoxError> {
    let blocks = context.view.view().blocks;
    if blocks.is_empty() {
        return Err("there is nothing to export yet".into());
    }
    let session = context.sessions.open_session();
    let id = session.as_ref().map(|open| open.id().to_string());
    let name = match args {
        "" => format!("zk-{}.md", id.clone().unwrap_or_else(file_time)),
        name => name.to_owned(),
    };
    let cwd = context.factory.setup().cwd_now(cx);
    let path = cwd.join(&name);
    let format = format_of(&path)?;
    let redactor = cx.service::<Redactor>().unwrap_or_default();
    let model = context.agent.model().reference().to_string();
    let facts = DocumentFacts {
        session: id.clone(),
        title: title(&blocks),
        cwd,
        model: Some(model.clone()),
        ..DocumentFacts::default()
    };
    match (format, session) {
        (ExportFormat::Html | ExportFormat::Jsonl, Some(session)) => {
            if let Some(notice) = write_session(&path, format, facts, &*session, redactor).await? {
                return Ok(format!("the conversation is in {}\n{notice}", path.display()));
            }
        }
        (ExportFormat::Jsonl, None) => {
            return Err(
                "this conversation is not stored and has no entries: take a name that ends with .md or .html"
                    .into(),
            );
        }
        (ExportFormat::Html, None) => {
            write_text(&path, &redactor.redact(&export_page(&blocks, &facts)))?;
        }
        (ExportFormat::Markdown, _) => {
            write_text(&path, &redactor.redact(&export_markdown(&blocks, id.as_deref(), &model)))?;
        }
    }
    Ok(format!("the conversation is in {}", path.display()))
}

/// Format for the extension of a file name; the default format without an extension.
fn format_of(path: &Path) -> Result<ExportFormat, BoxError> {
    match (ExportFormat::of_name(path), path.extension()) {
        (Some(format), _) => Ok(format),
        (None, None) => Ok(ExportFormat::default()),
        (None, Some(ending)) => {
            let ending = ending.to_string_lossy();
            Err(format!("no format has the ending `.{ending}`: take .md, .html or .jsonl").into())
        }
    }
}

fn write_text(path: &Path, text: &str) -> Result<(), BoxError> {
    let written = create_document(path)?.write_all(text.as_bytes());
    Ok(written.map_err(|error| format!("cannot write {}: {error}", path.display()))?)
}

/// Writes the stored session, which is read twice: for the totals, and for the document. Returns a notice about
/// omitted entries if the document itself cannot contain it.
async fn write_session(
    path: &Path,
    format: ExportFormat,
    facts: DocumentFacts,
    session: &dyn OpenSession,
    redactor: Arc<Redactor>,
) -> Result<Option<String>, BoxError> {
    let totals = Arc::new(Mutex::new((Totals::default(), 0)));
    let sums = totals.clone();
    let visit: EntryVisitor = Box::new(move |entry, _| {
        let (totals, begun) = &mut *sums.lock().unwrap_or_else(PoisonError::into_inner);
        *begun = if *begun == 0 { entry.time_ms } else { *begun };
        totals.add(&entry);
        ControlFlow::Continue(())
    });
    session.scan(visit).await?;
    let (totals, created_ms) = totals.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let facts = DocumentFacts { totals, created_ms, ..facts };
    let file = BufWriter::new(create_document(path)?);
    let exporter = Exporter::begin(file, format, facts, redactor)?;
    let state = Arc::new(Mutex::new((Some(exporter), None)));
    let shared = state.clone();
    let visit: EntryVisitor = Box::new(move |entry, bytes| {
        let (exporter, failed) = &mut *shared.lock().unwrap_or_else(PoisonError::into_inner);
        let added = exporter.as_mut().map_or(Ok(()), |exporter| exporter.add(entry, bytes));
        *failed = added.err();
        if failed.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    let scanned = session.scan(visit).await;
    let (exporter, failed) = std::mem::take(&mut *state.lock().unwrap_or_else(PoisonError::into_inner));
    let notice = exporter.as_ref().and_then(Exporter::notice).filter(|_| format == ExportFormat::Jsonl);
    let finished = exporter.map_or(Ok(()), |exporter| exporter.finish().map(|_| ()));
    let written: Result<(), BoxError> = match (scanned, failed, finished) {
        (Err(error), ..) => Err(error.into()),
        (_, Some(error), _) | (_, None, Err(error)) => Err(error.into()),
        (Ok(_), None, Ok(())) => Ok(()),
    };
    if written.is_err() {
        // An incomplete document must not be taken for a complete one.
        let _ = std::fs::remove_file(path);
    }
    written.map(|()| notice)
}

/// Beginning of the first prompt.
fn title(blocks: &[Arc<Block>]) -> String {
    let prompt = blocks.iter().find_map(|block| match &block.content {
        Content::User { text, .. } => Some(text.as_str()),
        _ => None,
    });
    let words: Vec<&str> = prompt.unwrap_or_default().split_whitespace().collect();
    words.join(" ").chars().take(MAX_TITLE_CHARS).collect()
}

fn file_time() -> String {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()).to_string()
}
