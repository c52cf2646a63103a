//! `zk sessions export`: a session as a document, read twice: for its sums, and to write it.

use std::io::{self, BufWriter, Write};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use zk_core::service::{EntryVisitor, SessionInfo, SessionScan, SessionStore};
use zk_session::scan_matching;
use zk_transcripts::{
    DocumentFacts, ExportError, ExportFormat, Exporter, ImportError, Totals, create_document,
};
use zk_tui::term::print_stderr;

use super::list::time_ms;
use crate::app::{AppContext, runtime};
use crate::args::actions::DocumentFormat;
use crate::exit::{Exit, Explain, Failure, Outcome};
use crate::sessions::{require_id, store, store_failure};

/// Session to export, and form of its document.
pub(super) struct Document<'a> {
    pub(super) id: &'a str,
    pub(super) format: Option<DocumentFormat>,
    pub(super) output: Option<&'a Path>,
    pub(super) tree: bool,
}

type Output = Box<dyn Write + Send>;

/// Writes a session as a document.
pub(super) fn export(app: &AppContext, document: &Document<'_>) -> Outcome<Exit> {
    let id = require_id(document.id, "`zk sessions export`")?;
    let file = document.output.filter(|path| path.as_os_str() != "-");
    let format = match document.format {
        Some(DocumentFormat::Jsonl) => ExportFormat::Jsonl,
        Some(DocumentFormat::Md) => ExportFormat::Markdown,
        Some(DocumentFormat::Html) => ExportFormat::Html,
        None => match file {
            Some(path) => format_of(path)?,
            None => ExportFormat::default(),
        },
    };
    if document.tree && format != ExportFormat::Jsonl {
        return Err(Failure::usage("--tree needs --format jsonl: a document for people shows one branch"));
    }
    let store = store(&app.work.machine)?;
    runtime()?.block_on(async {
        let totals = Arc::new(Mutex::new(Totals::default()));
        let visitor = || -> EntryVisitor {
            let totals = totals.clone();
            Box::new(move |entry, _| {
                totals.lock().unwrap_or_else(PoisonError::into_inner).add(&entry);
                ControlFlow::Continue(())
            })
        };
        let info = scan_matching(&store, id, visitor).await.map_err(store_failure)?.info;
        let totals = totals.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let facts = document_facts(&info, totals, document.tree);
        let output: Output = match file {
            Some(path) => Box::new(BufWriter::new(create_document(&app.work.cwd.join(path))?)),
            None => Box::new(BufWriter::new(io::stdout())),
        };
        let written = write(&store, &info, output, format, facts, app).await;
        match (written, file) {
            (Ok(scan), Some(path)) => {
                scan.notices.iter().for_each(|notice| print_stderr(&format!("zk: {notice}")));
                print_stderr(&format!("the session is in {}", path.display()));
                Ok(Exit::Done)
            }
            (Ok(_), None) => Ok(Exit::Done),
            (Err(Failure { exit: Exit::BrokenPipe, .. }), None) => Ok(Exit::BrokenPipe),
            (Err(failure), file) => {
                // A partly written document must not pass for a whole one.
                if let Some(path) = file {
                    let _ = std::fs::remove_file(app.work.cwd.join(path));
                }
                Err(failure)
            }
        }
    })
}

/// Returns the format for the ending of a file name; the default one for a name without an ending.
fn format_of(path: &Path) -> Outcome<ExportFormat> {
    match (ExportFormat::of_name(path), path.extension()) {
        (Some(format), _) => Ok(format),
        (None, None) => Ok(ExportFormat::default()),
        (None, Some(ending)) => Err(Failure::usage(format!(
            "no format has the ending `.{}`: take .md, .html or .jsonl, or give --format md, html or jsonl",
            ending.to_string_lossy()
        ))),
    }
}

fn document_facts(info: &SessionInfo, totals: Totals, tree: bool) -> DocumentFacts {
    DocumentFacts {
        session: Some(info.id.to_string()),
        title: info.title.clone(),
        cwd: info.cwd.clone(),
        parent: info.parent.as_ref().map(ToString::to_string),
        created_ms: time_ms(info.created),
        model: None,
        totals,
        tree,
    }
}

async fn write(
    store: &dyn SessionStore,
    info: &SessionInfo,
    output: Output,
    format: ExportFormat,
    facts: DocumentFacts,
    app: &AppContext,
) -> Outcome<SessionScan> {
    let tree = facts.tree;
    let exporter = Exporter::begin(output, format, facts, app.work.machine.redactor.clone())?;
    let state = Arc::new(Mutex::new((Some(exporter), None)));
    let shared = state.clone();
    let visit: EntryVisitor = Box::new(move |entry, bytes| {
        let (exporter, failed) = &mut *shared.lock().unwrap_or_else(PoisonError::into_inner);
        let added = exporter.as_mut().map_or(Ok(()), |exporter| exporter.add(entry, bytes));
        *failed = added.err();
        if failed.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    let scanned =
        if tree { store.scan_tree(&info.id, visit).await } else { store.scan(&info.id, visit).await };
    let (exporter, failed) = std::mem::take(&mut *state.lock().unwrap_or_else(PoisonError::into_inner));
    if let Some(error) = failed {
        return Err(error.into());
    }
    let scan = scanned.map_err(store_failure)?;
    if let Some(exporter) = exporter {
        // Markdown and HTML documents contain the notice.
        if let (ExportFormat::Jsonl, Some(notice)) = (format, exporter.notice()) {
            print_stderr(&format!("zk: {notice}"));
        }
        exporter.finish()?;
    }
    Ok(scan)
}

impl Explain for ExportError {
    fn exit(&self) -> Exit {
        match self {
            Self::Write(error) if error.kind() == io::ErrorKind::BrokenPipe => Exit::BrokenPipe,
            Self::Exists(_) => Exit::Usage,
            Self::File { .. } | Self::Write(_) | Self::Entry { .. } => Exit::Failed,
        }
    }
}

impl Explain for ImportError {
    fn exit(&self) -> Exit {
        match self {
            Self::Unknown(_) | Self::NoneIn(_) | Self::Empty { .. } | Self::TooNew { .. } => Exit::Usage,
            Self::Read { .. }
            | Self::Line { .. }
            | Self::Database { .. }
            | Self::Known(_)
            | Self::Store(_) => Exit::Failed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_ending_has_no_format() {
        assert_eq!(format_of("t.html".as_ref()).unwrap(), ExportFormat::Html);
        assert_eq!(format_of("t".as_ref()).unwrap(), ExportFormat::Markdown);
        assert_eq!(format_of("t.docx".as_ref()).unwrap_err().exit, Exit::Usage);
    }
}
