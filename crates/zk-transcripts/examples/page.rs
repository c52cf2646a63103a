//! A session as a page: `cargo run -p zk-harness-transcripts --example page > page.html`.

use std::sync::Arc;

use zk_core::model::Message;
use zk_core::service::{Entry, EntryKind, Redactor};
use zk_transcripts::{DocumentFacts, ExportFormat, Exporter};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let facts = DocumentFacts { title: "A question".to_owned(), ..DocumentFacts::default() };
    let redactor = Arc::new(Redactor::new());
    let mut exporter = Exporter::begin(std::io::stdout().lock(), ExportFormat::Html, facts, redactor)?;
    let message = Message::user_text("How long is a day on Mars?").identified().shared();
    let kind = EntryKind::Message { message, usage: None };
    exporter.add(Entry { id: "e_1".into(), parent: None, time_ms: 1_795_794_643_864, kind }, 0)?;
    exporter.finish().map(drop)?;
    Ok(())
}
