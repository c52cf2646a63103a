//! `/cd` moves a conversation to another directory of the workspace.

use serde_json::json;
use zk_testkit::{Script, Turn};

use crate::terminal::Terminal;
use crate::zk::{Person, server};

#[test]
fn a_conversation_moves_to_another_directory_and_no_further_than_it_may_work() {
    let script = Script::answering(|asked| match asked.results().len() {
        0 => Turn::new().call("list_files", json!({})),
        _ => Turn::new().text("Looked around."),
    });
    let server = server(script);
    let person = Person::asking(&server);
    person.write("inner/deeper/here.txt", "x");
    person.write("inner/deeper/AGENTS.md", "Speak softly here.");
    person.settings("[[hooks.PreToolUse]]\ncommand = 'cat > judged'\n");
    let Some(mut terminal) = Terminal::open(&person, "") else { return };
    terminal.expect("› ");
    for (wanted, said) in [
        ("nowhere", "`nowhere` does not exist"),
        ("inner/deeper/here.txt", "not a directory"),
        ("../..", "outside the allowed directories"),
    ] {
        terminal.keys(&format!("/cd {wanted}\r"));
        terminal.expect(said);
        terminal.expect("› ");
    }
    terminal.keys("/cd inner\r");
    terminal.expect("work in ");
    terminal.expect("› ");
    terminal.keys("/cd deeper\r");
    terminal.expect("inner/deeper from the next turn on");
    terminal.expect("› ");
    terminal.keys("!ls\r");
    terminal.expect("here.txt");
    terminal.expect("› ");
    terminal.keys("look\r");
    terminal.expect("Looked around.");
    terminal.expect("› ");
    terminal.keys("/quit\r");
    terminal.rest();
    let bodies = server.bodies();
    let (first, last) = (bodies[0].to_string(), bodies.last().unwrap()["messages"].to_string());
    assert!(
        first.contains("Speak softly here.") && first.contains("inner/deeper. Operating system"),
        "{first}"
    );
    assert!(last.contains("here.txt") && !last.contains("deeper/here.txt"), "{last}");
    assert_eq!(server.violations(), []);
    let moved = person.project().join("inner/deeper");
    let judged = std::fs::read_to_string(moved.join("judged")).unwrap();
    let judged: serde_json::Value = serde_json::from_str(&judged).unwrap();
    assert_eq!(judged["cwd"], moved.to_str().unwrap(), "hooks follow too");
}

#[test]
fn skills_commands_and_sessions_follow_a_conversation_to_another_directory() {
    let server = server(Script::answering(|_| Turn::new().text("Seen. END")));
    let person = Person::asking(&server);
    person.write(".git/HEAD", "ref: refs/heads/main\n");
    person.write(
        "inner/.agents/skills/quiet/SKILL.md",
        "---\nname: quiet\ndescription: Speaks softly.\n---\nHush.\n",
    );
    person.write("inner/.zk/commands/there.md", "Look around there.");
    let trusted = person.run(&["trust", "add", "--cwd", "inner"]);
    assert_eq!(trusted.code, 0, "{}", trusted.stderr);
    let Some(mut terminal) = Terminal::open(&person, "") else { return };
    terminal.expect("› ");
    terminal.keys("/there\r");
    terminal.expect("there is no command /there");
    terminal.expect("› ");
    terminal.keys("/cd inner\r");
    terminal.expect("skills there: quiet");
    terminal.expect("› ");
    terminal.keys("/new\r");
    terminal.expect("› ");
    terminal.keys("/there\r");
    terminal.expect("END");
    terminal.expect("› ");
    terminal.keys("/quit\r");
    terminal.rest();
    let body = server.bodies()[0].to_string();
    assert!(body.contains("Look around there.") && body.contains("Speaks softly."), "{body}");
    let (there, here) =
        (person.run(&["sessions", "list", "--cwd", "inner"]), person.run(&["sessions", "list"]));
    assert!(
        there.stdout.contains("Look around there") || there.stdout.contains("/there"),
        "{}",
        there.stdout
    );
    assert!(!here.stdout.contains("there."), "{}", here.stdout);
}
