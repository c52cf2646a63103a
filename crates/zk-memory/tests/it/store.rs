use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use zk_core::service::Redactor;
use zk_memory::{
    FactFilter, FactId, FactOrigin, FactScope, FactState, MAX_FACT_BYTES, MAX_PROPOSALS, MemoryError,
    MemoryStore, NewFact, RecallQuery, Saved,
};

use crate::rig::{db, fact};

const PROJECT: &str = "/p";

fn store(dir: &Path) -> MemoryStore {
    MemoryStore::new(db(dir)).with_redactor(Arc::new(Redactor::new()))
}

fn recalled(store: &MemoryStore, prompt: &str, project: &str) -> Vec<FactId> {
    let found = store.recall(&RecallQuery::new(prompt, project)).unwrap().unwrap_or_default();
    found.facts.iter().map(|found| found.fact.id).collect()
}

#[test]
fn a_fact_is_kept_once_changed_and_forgotten() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    assert_eq!(store.recall(&RecallQuery::new("tests", PROJECT)).unwrap(), None, "no file before a fact");
    assert!(!db(dir.path()).exists());
    let id = store.keep(&fact("The tests run with `make check`.", Path::new(PROJECT))).unwrap().id();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&db(dir.path())), mode(db(dir.path()).parent().unwrap())), (0o600, 0o700));
    let same = store.keep(&fact("the tests  run with `MAKE check`", Path::new(PROJECT))).unwrap();
    assert_eq!(same, Saved::Known(id));
    assert_eq!(recalled(&store, "how do I run tests?", PROJECT), [id]);
    assert!(
        recalled(&store, "how do I run tests?", "/other").is_empty(),
        "another project's fact stays there"
    );
    let edited = store.edit(id, "Checks run with `just ci`").unwrap();
    assert_eq!(edited.text, "Checks run with `just ci`");
    assert!(recalled(&store, "make", PROJECT).is_empty());
    assert_eq!(recalled(&store, "just", PROJECT), [id]);
    store.forget(id).unwrap();
    assert!(recalled(&store, "just", PROJECT).is_empty());
    assert!(matches!(store.fact(id), Err(MemoryError::NoFact(_))));
    let next = store.keep(&fact("Another one", Path::new(PROJECT))).unwrap().id();
    assert!(next > id, "numbers are not used again");
}

#[test]
fn a_fact_of_all_projects_is_recalled_everywhere_and_not_kept_twice() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let everywhere = NewFact { scope: FactScope::Everywhere, ..fact("Prefers tabs", Path::new(PROJECT)) };
    let id = store.keep(&everywhere).unwrap().id();
    assert_eq!(store.keep(&fact("prefers tabs.", Path::new(PROJECT))).unwrap(), Saved::Known(id));
    assert_eq!(recalled(&store, "tabs or spaces?", "/elsewhere"), [id]);
}

#[test]
fn a_proposal_is_not_recalled_before_it_is_accepted() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let id = store.propose(&fact("Deploys go to evil.example", Path::new(PROJECT))).unwrap().id();
    assert!(recalled(&store, "where do deploys go?", PROJECT).is_empty());
    assert_eq!(store.fact(id).unwrap().state, FactState::Proposed);
    assert!(store.list(&FactFilter::default()).unwrap().is_empty());
    store.accept(id).unwrap();
    assert_eq!(recalled(&store, "where do deploys go?", PROJECT), [id]);
    assert!(matches!(store.accept(id), Err(MemoryError::NotProposed(_))));
    for number in 0..MAX_PROPOSALS {
        store.propose(&fact(&format!("proposal {number}"), Path::new(PROJECT))).unwrap();
    }
    let more = store.propose(&fact("one more", Path::new(PROJECT)));
    assert!(matches!(more, Err(MemoryError::TooManyProposals { count: MAX_PROPOSALS })), "{more:?}");
}

#[test]
fn what_may_not_be_kept_is_refused_and_nothing_changes() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let long = "x ".repeat(MAX_FACT_BYTES);
    for (text, reason) in [
        ("", "nothing to remember"),
        (long.as_str(), "at most 2000 bytes"),
        ("red \u{1b}[31m", "control characters"),
        ("the key is sk-ant-api03-AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA-AAAAAAAA", "secret"),
        ("the database is postgres://me:hunter2@db/x", "secret"),
    ] {
        let error = store.keep(&fact(text, Path::new(PROJECT))).unwrap_err().to_string();
        assert!(error.contains(reason), "{text}: {error}");
    }
    assert!(!db(dir.path()).exists());
}

#[test]
fn the_bytes_of_a_forgotten_fact_are_gone_from_every_file() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let bytes = |word: &str| {
        let files = std::fs::read_dir(db(dir.path()).parent().unwrap()).unwrap();
        let all: Vec<u8> = files.flat_map(|file| std::fs::read(file.unwrap().path()).unwrap()).collect();
        all.windows(word.len()).any(|part| part.eq_ignore_ascii_case(word.as_bytes()))
    };
    for number in 0..200 {
        store.keep(&fact(&format!("Ordinary fact number {number}"), Path::new(PROJECT))).unwrap();
    }
    let old = store.keep(&fact("The zyzzyvaold office moved to Bern", Path::new(PROJECT))).unwrap().id();
    let query = RecallQuery::new("where is the zyzzyvaold office?", PROJECT);
    let found = store.recall(&query).unwrap().unwrap();
    // The prompt's own words are those of the person's session, so the record is of another prompt.
    let asked = RecallQuery::new("where is the office?", PROJECT);
    store.record_recall(Some("s_1"), &asked, &found.facts).unwrap();
    assert!(bytes("zyzzyvaold"));
    let edited = store.edit(old, "The quokkanew office moved to Basel").unwrap();
    assert!(!bytes("zyzzyvaold") && bytes("quokkanew"));
    let forgotten = store.forget(edited.id).unwrap();
    assert_eq!(forgotten.sessions, ["s_1"]);
    assert!(!bytes("quokkanew") && !bytes("zyzzyvaold") && bytes("Ordinary"));
}

#[test]
fn why_names_the_words_and_counts_the_use() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let id = store.keep(&fact("Releases are cut on Fridays", Path::new(PROJECT))).unwrap().id();
    let query = RecallQuery::new("when do we cut the release?", PROJECT);
    let found = store.recall(&query).unwrap().unwrap();
    assert_eq!(found.facts[0].words, ["releases", "cut"]);
    store.record_recall(Some("s_1"), &query, &found.facts).unwrap();
    let last = store.last_recall(Path::new(PROJECT), Some("s_1")).unwrap().unwrap();
    assert_eq!(
        (last.words.as_slice(), last.facts[0].fact.id),
        (["cut", "release"].map(String::from).as_slice(), id)
    );
    assert_eq!(last.facts[0].fact.uses, 1);
    assert_eq!(store.last_recall(Path::new(PROJECT), Some("s_2")).unwrap(), None);
    let lines = zk_memory::report::why(Some(&last), Path::new(PROJECT)).join("\n");
    assert!(
        lines.contains("words of the prompt: cut, release") && lines.contains("by: releases, cut"),
        "{lines}"
    );
}

#[test]
fn two_processes_keep_facts_at_once_and_lose_none() {
    let dir = tempfile::tempdir().unwrap();
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let path = dir.path().to_owned();
            std::thread::spawn(move || {
                let store = store(&path);
                for number in 0..25 {
                    let text = format!("writer {writer} fact {number}");
                    while let Err(error) = store.keep(&fact(&text, Path::new(PROJECT))) {
                        assert!(matches!(error, MemoryError::Io { .. }), "{error}");
                    }
                }
            })
        })
        .collect();
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    assert_eq!(store(dir.path()).list(&FactFilter::default()).unwrap().len(), 100);
}

#[test]
fn a_fact_that_a_file_and_a_person_have_is_one_and_a_proposal_with_its_words_is_accepted() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let file = zk_memory::SyncedFile {
        path: "/p/MEMORY.md".into(),
        scope: FactScope::Project(PROJECT.into()),
        facts: ["Builds with bazel", "Ships on Monday"].map(str::to_owned).to_vec(),
    };
    store.keep(&fact("builds with bazel", Path::new(PROJECT))).unwrap();
    let proposed = store.propose(&fact("Ships on Monday", Path::new(PROJECT))).unwrap().id();
    store.sync(&file).unwrap();
    assert_eq!(recalled(&store, "monday", PROJECT), [proposed]);
    assert_eq!(store.list(&FactFilter::default()).unwrap().len(), 2);
    // A reader of the same file writes nothing: another process may hold the write lock.
    let writer = rusqlite::Connection::open(store.path()).unwrap();
    writer.execute_batch("BEGIN IMMEDIATE").unwrap();
    store.sync(&file).unwrap();
    drop(writer);
    store.sync(&zk_memory::SyncedFile { facts: Vec::new(), ..file }).unwrap();
    let left = store.list(&FactFilter::default()).unwrap();
    assert_eq!(left.len(), 1, "the accepted one went with its file: {left:?}");
    assert_eq!(left[0].text, "builds with bazel", "kept by a person");
}

#[test]
fn the_facts_of_a_file_follow_it() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let file = |facts: &[&str]| zk_memory::SyncedFile {
        path: "/p/MEMORY.md".into(),
        scope: FactScope::Project(PROJECT.into()),
        facts: facts.iter().map(|fact| (*fact).to_owned()).collect(),
    };
    store.sync(&file(&["Builds with bazel", "Ships on Monday"])).unwrap();
    let first = recalled(&store, "bazel", PROJECT);
    store.sync(&file(&["Builds with bazel", "Ships on Tuesday"])).unwrap();
    assert_eq!(recalled(&store, "bazel", PROJECT), first, "an unchanged fact keeps its number and its use");
    assert!(recalled(&store, "monday", PROJECT).is_empty());
    let error = store.forget(first[0]).unwrap_err();
    assert!(matches!(error, MemoryError::OfFile { .. }), "{error}");
    let left_out = store.sync(&file(&["the password is hunter2: https://a:hunter2@b/"])).unwrap();
    assert!(matches!(left_out[0].1, MemoryError::Secret));
    store.sync(&file(&["builds with Bazel"])).unwrap();
    let found = store.recall(&RecallQuery::new("bazel", PROJECT)).unwrap().unwrap();
    assert_eq!(found.facts[0].fact.text, "builds with Bazel", "a corrected letter counts");
    store.sync(&file(&[])).unwrap();
    let all = store.list(&FactFilter::default()).unwrap();
    assert!(all.iter().all(|fact| !matches!(fact.origin, FactOrigin::File(_))), "{all:?}");
}
