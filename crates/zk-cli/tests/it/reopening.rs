//! Events while `/reload` opens a conversation anew: signals, keys, and settings that fail late.

use std::time::Duration;

use rustix::process::{Signal, kill_process};
use zk_testkit::FakeServer;

use crate::inline::drawn;
use crate::terminal::{Terminal, counting};
use crate::zk::{Person, until};

const READ: &str = "skills, agents and MCP servers are read anew";
const STAYS: &str = "cannot go on with the new settings, so those before stay";

/// Question while the conversation is opened anew, if a project sets something: nobody answers it here.
const ASKED: &str = "exactly as it is? It sets:";

/// Has the next reload wait for a person.
fn slow_down(person: &Person) {
    person.write(".zk/settings.toml", "append_system = \"Be rude.\"\n");
}

fn last(server: &FakeServer) -> String {
    server.bodies().pop().unwrap().to_string()
}

#[test]
fn ctrl_c_during_a_reload_comes_back_to_the_settings_before_and_what_is_typed_runs() {
    for screen in ["plain", "inline"] {
        let server = counting();
        let person = Person::asking(&server).with("ZK_SCREEN", screen);
        person.settings("append_system = \"Be short.\"\n");
        let Some(mut terminal) = Terminal::open(&person, "'first one'") else { return };
        terminal.expect("Answer 1 to: first one");
        terminal.expect(if screen == "plain" { "› " } else { "1 turn ·" });
        person.settings("append_system = \"Be long.\"\n");
        slow_down(&person);
        terminal.keys("/reload\r");
        terminal.expect("is not trusted, so what it sets is ignored");
        terminal.expect(ASKED);
        terminal.keys("\u{3}");
        std::thread::sleep(Duration::from_millis(100));
        terminal.keys("second one\r");
        terminal.expect(STAYS);
        terminal.expect("Answer 3 to: second one");
        terminal.expect("1 turn ·");
        let body = last(&server);
        assert!(body.contains("Be short.") && !body.contains("Be long."), "{screen}: {body}");
        terminal.keys("/quit\r");
        assert_eq!(terminal.code(), Some(0), "{screen}");
        assert_eq!(server.violations(), []);
    }
}

#[test]
fn a_signal_during_a_reload_ends_the_program_and_leaves_the_terminal_as_it_was() {
    let server = counting();
    let person = Person::asking(&server);
    let Some((mut terminal, pid)) = drawn(&person, "stty -a") else { return };
    terminal.expect("1 turn ·");
    slow_down(&person);
    terminal.keys("/reload\r");
    terminal.expect(ASKED);
    kill_process(pid, Signal::TERM).unwrap();
    let rest = terminal.rest();
    let (_, after) = rest.split_once("speed").unwrap_or_else(|| panic!("{rest:?}"));
    let is_on = |name: &str| after.split_whitespace().any(|mode| mode == name);
    assert!(["icanon", "echo", "isig", "icrnl"].into_iter().all(is_on), "{after}");
    assert!(!rest.contains(READ) && !rest.contains(STAYS), "{rest:?}");
}

#[test]
fn lines_typed_behind_a_reload_or_another_screen_run_in_order() {
    for (command, screen) in [("/reload", "inline"), ("/screen plain", "inline"), ("/reload", "plain")] {
        for pause in [0, 25, 60] {
            let server = counting();
            let person = Person::asking(&server).with("ZK_SCREEN", screen);
            let Some(mut terminal) = Terminal::open(&person, "'first one'") else { return };
            terminal.expect("Answer 1 to: first one");
            terminal.expect(if screen == "plain" { "› " } else { "1 turn ·" });
            terminal.keys(&format!("{command}\r"));
            if screen == "plain" {
                // The line editor keeps what arrives with a line, so text behind it is typed once the line is read.
                terminal.expect(&format!("{command}\u{1b}[?2004l"));
            }
            for line in ["second one", "third one"] {
                std::thread::sleep(Duration::from_millis(pause));
                terminal.keys(&format!("{line}\r"));
            }
            // Lines that come at once are one text behind the command on a drawn screen.
            until("everything is sent", || {
                server.bodies().pop().is_some_and(|body| {
                    let body = body.to_string();
                    body.find("second one")
                        .zip(body.find("third one"))
                        .is_some_and(|(one, other)| one < other)
                })
            });
            assert!(!last(&server).contains("/reload"), "{command}, {pause} ms");
        }
    }
}

#[test]
fn a_draft_stays_in_its_file_until_the_conversation_goes_on() {
    let server = counting();
    let person = Person::asking(&server);
    let Some((mut terminal, pid)) = drawn(&person, "true") else { return };
    terminal.expect("1 turn ·");
    std::fs::write(person.home().join("keys.toml"), "[keys]\n\"/reload\" = \"alt-r\"\n").unwrap();
    terminal.keys("/reload\r");
    terminal.expect(READ);
    slow_down(&person);
    terminal.keys("half a thought");
    terminal.see("thought");
    terminal.keys("\u{1b}r");
    terminal.expect(ASKED);
    let file = person.home().join("drafts").join(pid.as_raw_nonzero().to_string());
    let stored = || std::fs::read_to_string(&file).unwrap_or_default();
    assert!(stored().ends_with("\nhalf a thought"), "{:?}", stored());
    terminal.keys("\u{3}");
    terminal.expect(STAYS);
    terminal.press_until("\r", "Answer 3 to: half a thought");
    until("the file is gone", || stored().is_empty());
    terminal.leave();
    terminal.rest();
}

#[test]
fn settings_that_fail_late_leave_everything_as_it_was() {
    let server = counting();
    let person = Person::asking(&server);
    let temp = person.home().join("tmp");
    std::fs::create_dir(&temp).unwrap();
    let person = person.with("TMPDIR", temp.to_str().unwrap());
    person.settings("append_system = \"Be short.\"\n");
    let Some(mut terminal) = Terminal::open(&person, "--no-session 'first one'") else { return };
    terminal.expect("Answer 1 to: first one");
    terminal.expect("› ");
    let count = || std::fs::read_dir(&temp).unwrap().count();
    let before = count();
    // A provider that cannot be made.
    person.settings("append_system = \"Be long.\"\n[providers.anthropic]\nbase_url = \"no address\"\n");
    terminal.keys("/reload\r");
    terminal.expect(STAYS);
    terminal.expect("› ");
    // A server that does not start stops nothing: the settings are the new ones.
    let server_settings = "[mcp]\nwait = 2000\n[mcp.servers.gone]\ncommand = \"/does/not/exist\"\n";
    person.settings(&format!("append_system = \"Be long.\"\n{server_settings}"));
    terminal.keys("second one\r");
    terminal.expect("Answer 3 to: second one");
    terminal.expect("› ");
    assert!(last(&server).contains("Be short."));
    assert_eq!(count(), before, "the place of large results stays");
    terminal.keys("/reload\r");
    terminal.expect(READ);
    terminal.expect("› ");
    terminal.keys("third one\r");
    terminal.expect("Answer 5 to: third one");
    terminal.expect("› ");
    assert!(last(&server).contains("Be long."));
    terminal.keys("/quit\r");
    assert_eq!(terminal.code(), Some(0));
    assert_eq!(server.violations(), []);
}

#[test]
fn what_was_typed_behind_a_reload_that_fails_is_back_where_it_was_typed() {
    // One is found at once, the other once the conversation before has ended.
    let at_once = ("thinking = \"a lot\"\n", "everything stays as it is");
    let late = ("[providers.anthropic.options]\nnonsense = 1\n", STAYS);
    // With the session open already.
    let later = ("compaction.tail_turns = 2\n", STAYS);
    for (settings, said) in [at_once, late, later] {
        let server = counting();
        let person = Person::asking(&server).with("ZK_SCREEN", "inline");
        let Some(mut terminal) = Terminal::open(&person, "'first one'") else { return };
        terminal.expect("Answer 1 to: first one");
        terminal.expect("1 turn ·");
        person.settings(settings);
        terminal.keys("/reload\rsecond one\r");
        terminal.expect(said);
        std::thread::sleep(Duration::from_millis(300));
        assert_eq!(server.bodies().len(), 1, "{said}");
        person.settings("");
        terminal.press_until("\r", "Answer 3 to: second one");
        terminal.expect("1 turn ·");
        terminal.keys("/quit\r");
        assert_eq!(terminal.code(), Some(0));
        let listed = person.run(&["sessions"]).stdout;
        assert_eq!(listed.lines().count(), 1, "{listed}");
    }
}
