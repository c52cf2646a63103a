//! What fills the context window, and how a person has a conversation made smaller.

use zk_testkit::{Script, Turn};

use crate::terminal::Terminal;
use crate::zk::{Person, server};

#[test]
fn a_person_compacts_a_conversation_takes_it_back_and_sees_what_fills_the_context() {
    let server = server(Script::answering(|asked| {
        Turn::new().text(format!("Answer {} {}END", asked.messages.len(), "word ".repeat(600)))
    }));
    let person = Person::asking(&server);
    let Some(mut terminal) = Terminal::open(&person, "'first question'") else { return };
    terminal.expect("END");
    terminal.expect("› ");
    for prompt in ["second", "third", "fourth"] {
        terminal.keys(&format!("{prompt}\r"));
        terminal.expect("END");
        terminal.expect("› ");
    }
    terminal.keys("/compact\r");
    terminal.expect("compacted: about ");
    terminal.expect("/uncompact takes it back");
    terminal.expect("› ");
    terminal.keys("/context\r");
    terminal.expect("usable tokens");
    terminal.expect("answers");
    terminal.expect("compacted once");
    terminal.expect("› ");
    terminal.keys("fifth\r");
    terminal.expect("END");
    terminal.expect("› ");
    let begun = server.requests().len();
    terminal.keys("/uncompact\r");
    terminal.expect("taken back");
    terminal.expect("› ");
    terminal.keys("sixth\r");
    terminal.expect("Answer 11 ");
    terminal.expect("END");
    terminal.expect("› ");
    terminal.keys("/quit\r");
    terminal.rest();
    assert_eq!(server.requests().len(), begun + 1);
    assert_eq!(server.violations(), []);

    let listed = person.run(&["sessions"]).stdout;
    let id = listed.split_whitespace().next().unwrap();
    let shown = person.run(&["context", id]);
    assert_eq!(shown.code, 0, "{}", shown.stderr);
    for part in ["tokens", "section   system", "tools", "answers", "turn 6"] {
        assert!(shown.stdout.contains(part), "{part}: {}", shown.stdout);
    }
}
