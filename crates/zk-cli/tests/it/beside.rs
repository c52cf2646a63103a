//! Commands that are carried out during a run, in plain lines.

use serde_json::json;
use zk_testkit::Script;

use crate::terminal::Terminal;
use crate::zk::{Person, server};

#[test]
fn commands_that_leave_a_run_as_it_is_are_done_beside_it_in_plain_lines() {
    let script = Script::new()
        .turn(|t| t.call("shell", json!({"command": "seq 1001 1040"})))
        .turn(|t| t.text("On and on").hang());
    let server = server(script);
    let person = Person::asking(&server);
    let Some(mut terminal) = Terminal::open(&person, "--screen plain --allow-all 'go'") else { return };
    terminal.expect("On and");
    terminal.keys("/help\r");
    terminal.expect("› /help");
    terminal.expect("/effort");
    terminal.keys("/show\r");
    terminal.expect("1012");
    terminal.keys("/jobs kill nothing\r");
    terminal.expect("no command runs in the background");
    terminal.keys("/compact\r");
    terminal.expect("/compact ⏎");
    terminal.keys("/screen inline\r");
    terminal.expect("the other screen follows at the end of this run");
    terminal.keys("\u{1b}");
    terminal.expect("stopped");
    // A command that does not leave the run as it is was kept, and is on the screen that follows.
    terminal.expect("\u{1b}[>1u");
    terminal.expect("/compact");
    terminal.keys("\u{3}");
    terminal.leave();
    assert_eq!(terminal.code(), Some(0));
    assert_eq!(server.bodies().len(), 2);
}
