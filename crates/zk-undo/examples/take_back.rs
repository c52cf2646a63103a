//! A command that deletes a file, taken back: `cargo run -p zk-harness-undo --example take_back`.

use std::sync::Arc;

use zk_exec::LocalStateFiles;
use zk_undo::{CallScope, Journal, TurnLabel, UndoSettings};

#[expect(clippy::print_stdout, reason = "an example shows what happens")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (project, private) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let notes = project.path().join("notes.txt");
    std::fs::write(&notes, "buy milk\n")?;
    let (files, settings) = (Arc::new(LocalStateFiles::default()), UndoSettings::default());
    let journal = Journal::new(private.path().join("undo"), &[project.path().to_owned()], settings, files);

    let turn = TurnLabel { run: "r1".into(), turn: "t1".into(), prompt: "tidy up".into() };
    journal.begin(&turn, "call", &CallScope::Workspace)?;
    std::fs::remove_file(&notes)?;
    journal.end("call")?;

    let plan = journal.plan_undo(1)?;
    print!("{}", journal.plan_diff(&plan, project.path()));
    journal.apply(&plan)?;
    println!("{}", std::fs::read_to_string(&notes)?);
    Ok(())
}
