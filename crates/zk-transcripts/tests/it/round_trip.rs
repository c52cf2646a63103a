use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use serde_json::json;
use zk_core::model::{Block, Image, ModelRef, Thinking, ToolCall};
use zk_core::service::{
    Audience, CustomEntry, Entry, EntryKind, Redactor, RunStatus, SessionStore, present_branch,
};
use zk_session::{MemoryStore, SqliteStore};
use zk_transcripts::{DocumentFacts, ExportFormat, ImportError, store_transcript};

use crate::support::{answer, chain, document, facts, file, read, run_start, user};

fn kind() -> impl Strategy<Value = EntryKind> {
    let text = "[a-z<>&\"'\u{202e}\u{1b}é漢\n\\\\]{0,12}";
    prop_oneof![
        text.prop_map(|said| user(vec![Block::text(said), Block::Image(Image::new("image/png", "AAAA"))])),
        (text, text).prop_map(|(said, thought)| {
            let origin = Some(ModelRef::new("acme", "large"));
            let signature = Some("c2ln".to_owned());
            let thinking = Thinking { text: thought, signature, origin, ..Thinking::default() };
            let call = ToolCall::new("c1", "t", json!({ "a": said, "n": 1.5, "l": [null, true] }));
            answer(vec![Block::Thinking(thinking), Block::ToolCall(call)])
        }),
        text.prop_map(|said| user(vec![Block::result("c1", said, true)])),
        "[a-z]{1,5}".prop_map(|id| run_start(&id)),
        "[a-z]{1,5}".prop_map(|id| EntryKind::RunEnd { run_id: id.into(), status: RunStatus::Aborted }),
        text.prop_map(|said| {
            let data = json!({ "z": said, "a": [1, 2, { "b": null }] }).into();
            let (source, kind) = ("p".to_owned(), "k".to_owned());
            EntryKind::Custom(CustomEntry { source, kind, version: 3, data, audience: Audience::Person })
        }),
        Just(EntryKind::Model { model: ModelRef::new("a", "b") }),
    ]
}

/// Log with moves of the leaf.
fn log() -> impl Strategy<Value = Vec<Entry>> {
    let steps =
        prop::collection::vec((kind(), prop::option::weighted(0.2, any::<prop::sample::Index>())), 1..25);
    steps.prop_map(|steps| {
        let mut entries: Vec<Entry> = Vec::new();
        for (kind, moved) in steps {
            let left = entries.last().map(|last| last.id.clone());
            if let (Some(moved), Some(_)) = (moved, &left) {
                let to = Some(entries[moved.index(entries.len())].id.clone());
                push(&mut entries, to.clone(), EntryKind::Leaf { to, left });
            }
            let parent = entries.last().map(|last| last.id.clone());
            push(&mut entries, parent, kind);
        }
        entries
    })
}

fn push(entries: &mut Vec<Entry>, parent: Option<zk_core::model::EntryId>, kind: EntryKind) {
    let at = entries.len();
    entries.push(Entry { id: format!("e_{at}").into(), parent, time_ms: 1_000 + at as u64, kind });
}

async fn all_entries(store: &dyn SessionStore, tree: bool) -> Vec<Entry> {
    let found = Arc::new(Mutex::new(Vec::new()));
    let into = found.clone();
    let visit = Box::new(move |entry, _| {
        into.lock().unwrap().push(entry);
        ControlFlow::Continue(())
    });
    let id = "s_test".into();
    if tree {
        store.scan_tree(&id, visit).await.unwrap()
    } else {
        store.scan(&id, visit).await.unwrap()
    };
    Arc::try_unwrap(found).unwrap().into_inner().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn an_exported_session_is_imported_as_it_was(entries in log(), tree in any::<bool>()) {
        let dir = tempfile::tempdir().unwrap();
        let entries = if tree { entries } else { present_branch(entries) };
        let facts = DocumentFacts { tree, title: "A title".into(), ..facts() };
        let path = file(dir.path(), "talk.jsonl", &document(ExportFormat::Jsonl, facts, &entries));
        let transcript = read(&path).unwrap();
        prop_assert_eq!(&transcript.entries, &entries);
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let sqlite = SqliteStore::new(dir.path().join("sessions"));
        let stores: [&dyn SessionStore; 2] = [&MemoryStore::new(), &sqlite];
        for store in stores {
            let redactor = Arc::new(Redactor::new());
            let stored = runtime.block_on(store_transcript(store, transcript.clone(), &redactor)).unwrap();
            prop_assert_eq!(stored.session.as_str(), "s_test");
            prop_assert_eq!(&runtime.block_on(all_entries(store, tree)), &entries);
            let info = runtime.block_on(store.read(&stored.session)).unwrap().info;
            prop_assert_eq!((info.title.as_str(), info.cwd.to_str()), ("A title", Some("/project")));
            let again = runtime.block_on(store_transcript(store, transcript.clone(), &redactor));
            prop_assert!(matches!(again, Err(ImportError::Known(id)) if id == stored.session));
            prop_assert_eq!(&runtime.block_on(all_entries(store, tree)), &entries);
        }
    }
}

#[test]
fn a_file_that_is_cut_or_changed_is_refused_as_a_whole() {
    let dir = tempfile::tempdir().unwrap();
    let whole =
        document(ExportFormat::Jsonl, facts(), &chain(vec![run_start("r"), user(vec![Block::text("hi")])]));
    let lines: Vec<&str> = whole.lines().collect();
    let newer = whole.replace("\"version\":\"1.1\"", "\"version\":\"2.0\"");
    let evil = whole.replace("\"id\":\"s_test\"", "\"id\":\"../../evil\"");
    for (name, text, reason) in [
        ("cut", lines[..2].join("\n"), "incomplete"),
        ("half", whole.split_at(whole.len() - 20).0.to_owned(), "line 4"),
        ("missing", [lines[0], lines[1], lines[3]].join("\n"), "1 are there"),
        ("twice", [lines[0], lines[0]].join("\n"), "second session"),
        ("more", format!("{whole}{}", lines[1]), "follows the last line"),
        ("newer", newer, "newer version (2.0"),
        ("evil", evil, "the id is not one"),
    ] {
        let path = file(dir.path(), &format!("{name}.jsonl"), &text);
        let error = read(&path).unwrap_err().to_string();
        assert!(error.contains(reason) && error.contains(name), "{name}: {error}");
    }
}

#[test]
fn secrets_are_in_no_document() {
    let secret = "sk-ant-api03-abcdefghij0123456789abcdefghij";
    let entries = chain(vec![run_start("r"), user(vec![Block::text(format!("key {secret}"))])]);
    for format in [ExportFormat::Html, ExportFormat::Markdown, ExportFormat::Jsonl] {
        let facts = DocumentFacts { title: format!("key {secret}"), ..facts() };
        let text = document(format, facts, &entries);
        assert!(!text.contains("abcdefghij0123") && text.contains("[redacted]"), "{format}");
    }
}
