//! A transcript of another agent as a page: `cargo run -p zk-harness-transcripts --example convert FILE > page.html`.

use std::path::Path;
use std::sync::Arc;

use zk_core::service::Redactor;
use zk_transcripts::{DocumentFacts, ExportFormat, Exporter, Totals, list_transcripts, read_transcript};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Without a transcript there is nothing to convert.
    let Some(path) = std::env::args().nth(1) else { return Ok(()) };
    let found = list_transcripts(Path::new(&path), None)?;
    let transcript = read_transcript(found.first().ok_or("there is no transcript")?)?;
    let mut totals = Totals::default();
    transcript.entries.iter().for_each(|entry| totals.add(entry));
    let facts = DocumentFacts {
        session: Some(transcript.session.to_string()),
        title: transcript.heading(),
        cwd: transcript.cwd.clone(),
        created_ms: transcript.created_ms,
        totals,
        ..DocumentFacts::default()
    };
    let redactor = Arc::new(Redactor::new());
    let mut exporter = Exporter::begin(std::io::stdout().lock(), ExportFormat::Html, facts, redactor)?;
    transcript.entries.into_iter().try_for_each(|entry| exporter.add(entry, 0))?;
    exporter.finish().map(drop)?;
    Ok(())
}
