//! Clients in other languages, by their examples.

use std::path::Path;
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

/// Whether a program is there, and takes this script.
fn takes(language: &str, flag: &str, script: &str) -> bool {
    let person = Person::new();
    let child = person.spawn(Path::new("/usr/bin/env"), &[language, flag, script], Stdio::null());
    let taken = child.wait_with_output().is_ok_and(|output| output.status.success());
    if !taken {
        println!("skipped: no {language} of a version that this client runs on");
    }
    taken
}

/// Runs the example of a client against the program, and compares its view with what zk itself shows.
fn converse(language: &str, example: &str) {
    let clients = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients");
    let model = obedient();
    let person = Person::asking(&model)
        .with("PYTHONPATH", clients.join("python/src").to_str().unwrap())
        .with("PYTHONDONTWRITEBYTECODE", "1");
    let serving = Serving::start(&person, &[&SOCKET[..], &["--permission-mode", "ask"]].concat());
    let (example, access) = (clients.join(example), serving.access_file.to_str().unwrap());
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
    if takes("python3", "-c", "import sys; sys.exit(sys.version_info < (3, 9))") {
        converse("python3", "python/examples/conversation.py");
    }
}

#[test]
fn a_client_in_javascript_rebuilds_what_zk_itself_shows() {
    if takes("node", "-e", "process.exit(Number(process.versions.node.split('.')[0]) < 20 ? 1 : 0)") {
        converse("node", "typescript/examples/conversation.mjs");
    }
}
