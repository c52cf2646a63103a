//! Clients in other languages, by their examples.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use zk_tui::Transcript;
use zk_view::{Patch, View};

use super::client::Serving;
use super::{SOCKET, is_same, obedient, view_now};
use crate::terminal::Terminal;
use crate::zk::{LONG, Person, program};

/// Columns of the terminal that shows the session.
const COLUMNS: usize = 120;

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
    is_on_a_terminal(&person, ended["session"].as_str().unwrap(), &view);
}

/// Fails unless a terminal shows the session with the rows that the view is drawn with, in order.
fn is_on_a_terminal(person: &Person, session: &str, view: &View) {
    let mut transcript = Transcript::new(View::default(), COLUMNS);
    view.blocks.iter().for_each(|block| transcript.patch(&Patch::Open { block: block.clone() }));
    let rows = transcript.take_closed(usize::MAX);
    let rows: Vec<String> = rows.iter().map(|row| row.text().trim().to_owned()).collect();
    assert!(rows.iter().filter(|row| !row.is_empty()).count() > 10, "{rows:#?}");
    let command = format!("exec {} --screen full --resume {session}", program().display());
    let Some(mut terminal) = Terminal::run(person, &format!("stty rows 200 cols {COLUMNS}; {command}"))
    else {
        return;
    };
    let (mut seen, begun) = (String::new(), Instant::now());
    loop {
        seen += &terminal.take();
        let plain = without_codes(&seen);
        let mut rest = plain.as_str();
        let is_absent =
            |row: &&String| rest.split_once(row.as_str()).map(|(_, after)| rest = after).is_none();
        let Some(absent) = rows.iter().find(is_absent) else { break };
        assert!(begun.elapsed() < LONG, "`{absent}` is not on the terminal: {plain}");
        std::thread::sleep(Duration::from_millis(20));
    }
    terminal.keys("\u{4}");
    assert_eq!(terminal.code(), Some(0));
}

/// The text that was written to a terminal, without sequences that move and colour.
fn without_codes(text: &str) -> String {
    let mut pieces = text.split('\u{1b}');
    let mut plain = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let end = match piece.strip_prefix('[') {
            Some(rest) => rest.find(|c: char| c.is_ascii_alphabetic()).map(|at| at + 2),
            None => piece.find('\u{7}').map(|at| at + 1),
        };
        plain += piece.get(end.unwrap_or(piece.len())..).unwrap_or_default();
    }
    plain
}

#[test]
fn a_client_in_python_rebuilds_what_a_terminal_shows() {
    if takes("python3", "-c", "import sys; sys.exit(sys.version_info < (3, 9))") {
        converse("python3", "python/examples/conversation.py");
    }
}

#[test]
fn a_client_in_javascript_rebuilds_what_a_terminal_shows() {
    if takes("node", "-e", "process.exit(Number(process.versions.node.split('.')[0]) < 20 ? 1 : 0)") {
        converse("node", "typescript/examples/conversation.mjs");
    }
}
