use std::path::{Path, PathBuf};
use std::sync::Arc;

use zk_core::model::{Block, Message, ModelRef, RunId, TurnId, TurnUsage, Usage};
use zk_core::service::{Entry, EntryKind, Redactor};
use zk_transcripts::{
    DocumentFacts, ExportFormat, Exporter, ImportError, Transcript, list_transcripts, read_transcript,
};

/// Entries in a line, each behind the one before.
pub(crate) fn chain(kinds: Vec<EntryKind>) -> Vec<Entry> {
    let mut parent = None;
    let entry = |(at, kind): (usize, EntryKind)| {
        let id: zk_core::model::EntryId = format!("e_{at}").into();
        Entry { id: id.clone(), parent: parent.replace(id), time_ms: 1_795_794_643_864 + at as u64, kind }
    };
    kinds.into_iter().enumerate().map(entry).collect()
}

pub(crate) fn run_start(id: &str) -> EntryKind {
    EntryKind::RunStart { run_id: RunId::from(id) }
}

pub(crate) fn user(content: Vec<Block>) -> EntryKind {
    EntryKind::Message { message: Message::user(content).identified().shared(), usage: None }
}

pub(crate) fn answer(content: Vec<Block>) -> EntryKind {
    let model = ModelRef::new("acme", "large");
    let message = Message { origin: Some(model.clone()), ..Message::assistant(content) };
    let usage = Usage { input: 10, output: 5, ..Usage::default() };
    let usage = TurnUsage { turn_id: TurnId::fresh(), model, usage, cost: Some(0.001) };
    EntryKind::Message { message: message.identified().shared(), usage: Some(Box::new(usage)) }
}

pub(crate) fn facts() -> DocumentFacts {
    DocumentFacts { session: Some("s_test".into()), cwd: "/project".into(), ..DocumentFacts::default() }
}

pub(crate) fn document(format: ExportFormat, facts: DocumentFacts, entries: &[Entry]) -> String {
    let redactor = Arc::new(Redactor::new());
    let mut exporter = Exporter::begin(Vec::new(), format, facts, redactor).unwrap();
    entries.iter().for_each(|entry| exporter.add(entry.clone(), 100).unwrap());
    String::from_utf8(exporter.finish().unwrap().0).unwrap()
}

/// Reads the one transcript of a file.
pub(crate) fn read(path: &Path) -> Result<Transcript, ImportError> {
    let found = list_transcripts(path, None)?;
    assert_eq!(found.len(), 1);
    read_transcript(&found[0])
}

pub(crate) fn file(dir: &Path, name: &str, text: &str) -> PathBuf {
    let path = dir.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, text).unwrap();
    path
}
