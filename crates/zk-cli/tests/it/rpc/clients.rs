//! Clients in other languages, by their examples.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use serde_json::{Value, json};
use zk_core::model::SessionId;
use zk_core::service::SessionStore;
use zk_session::SqliteStore;
use zk_tui::{Size, Transcript};
use zk_view::{Block, Patch, View, rebuild};

use super::client::Serving;
use super::{SOCKET, is_same, obedient, view_now};
use crate::desk::Desk;
use crate::zk::{Person, program};

/// Terminal that shows a whole session.
const SIZE: Size = Size { width: 120, height: 200 };

fn python() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients/python")
}

/// Runs the example of a client against the program, and compares its view with what zk itself shows.
fn converse(language: &str, example: &Path) {
    let model = obedient();
    let person = Person::asking(&model)
        .with("PYTHONPATH", python().join("src").to_str().unwrap())
        .with("PYTHONDONTWRITEBYTECODE", "1");
    let serving = Serving::start(&person, &[&SOCKET[..], &["--permission-mode", "ask"]].concat());
    let access = serving.access_file.to_str().unwrap();
    let args = ["timeout", "60", language, example.to_str().unwrap(), access];
    let child = person.spawn(Path::new("/usr/bin/env"), &args, Stdio::null());
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("touch made") && said.contains("Done."), "{said}");
    assert!(person.project().join("made").exists());

    let ended: Value = serde_json::from_slice(&output.stdout).unwrap();
    let view: View = serde_json::from_value(ended["view"].clone()).unwrap();
    let conversation = ended["conversation"].as_str().unwrap();
    let now = view_now(&serving, conversation);
    assert!(is_same(&view, &now), "{view:#?}\n{now:#?}");
    let shown = view.blocks.iter().map(|block| serde_json::to_string(block).unwrap()).collect::<String>();
    for part in ["run touch made", "And then look around.", "sleep 1000", "aborted"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    serving.approver().call("close", &json!({ "conversation": conversation })).unwrap();
    drop(serving);
    is_drawn_alike(&person, ended["session"].as_str().unwrap(), &view);
}

/// Fails unless the program shows the stored session on a terminal with the rows that the view is drawn with.
fn is_drawn_alike(person: &Person, session: &str, view: &View) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let store = SqliteStore::new(person.home().join("sessions"));
    let stored = runtime.block_on(store.read(&SessionId::from(session))).unwrap();
    let blocks: Vec<_> = view.blocks.iter().filter(|block| block.is_stored()).cloned().collect();
    assert_eq!(blocks, rebuild(&stored.entries));
    let rows = rows(&blocks);
    assert!(rows.contains("stopped · 1 turn"), "{rows}");
    let command = format!("{} --resume {session} --screen full", program().display());
    let Some(mut desk) = Desk::open(person, &command) else { return };
    desk.resize(SIZE);
    desk.wait(&rows, |screen| screen.starts_with(&rows));
}

/// Rows with which a terminal draws blocks.
fn rows(blocks: &[Arc<Block>]) -> String {
    let mut transcript = Transcript::new(View::default(), SIZE.width);
    blocks.iter().for_each(|block| transcript.patch(&Patch::Open { block: block.clone() }));
    let rows = transcript.take_closed(usize::MAX);
    rows.iter().map(|row| row.text().trim_end().to_owned() + "\n").collect()
}

#[test]
fn a_client_in_python_rebuilds_what_zk_itself_shows() {
    let person = Person::new();
    let script = ["python3", "-c", "import sys; sys.exit(sys.version_info < (3, 9))"];
    let asked = person.spawn(Path::new("/usr/bin/env"), &script, Stdio::null()).wait_with_output();
    if asked.is_ok_and(|output| output.status.success()) {
        converse("python3", &python().join("examples/conversation.py"));
    } else {
        println!("skipped: no python3 of a version that this client runs on");
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "whoever built the client says where it is")]
fn a_client_in_typescript_rebuilds_what_zk_itself_shows() {
    match std::env::var("ZK_TYPESCRIPT_CLIENT") {
        Ok(built) => converse("node", &Path::new(&built).join("built/examples/conversation.js")),
        Err(_) => println!("skipped: ZK_TYPESCRIPT_CLIENT does not say where the client is that was built"),
    }
}
