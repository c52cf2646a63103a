//! Output with the variable `NO_COLOR`.

use serde_json::json;
use zk_testkit::{FakeServer, Script, Turn};

use crate::terminal::Terminal;
use crate::zk::{Person, server};

/// Whether text sets a colour; bold, italic and underline are no colours.
pub(crate) fn has_colour(text: &str) -> bool {
    text.split("\u{1b}[").skip(1).any(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_digit() && !matches!(c, ';' | ':'));
        let Some((codes, 'm')) =
            end.and_then(|end| Some((rest.get(..end)?, rest.get(end..)?.chars().next()?)))
        else {
            return false;
        };
        codes.split([';', ':']).any(|code| matches!(code.parse::<u8>(), Ok(30..=49 | 90..=107)))
    })
}

/// Script with highlighted code, a failed call and an approval question with a diff.
fn colourful() -> FakeServer {
    server(Script::answering(|asked| match asked.results().len() {
        _ if asked.result_of("edit").is_some() => Turn::new().text("No."),
        0 => Turn::new()
            .text("# Look\n\n```rust\nfn main() { let s = \"text\"; } // words\n```\n")
            .call("read_file", json!({"path": "missing"})),
        _ => Turn::new().call("edit", json!({"path": "a", "old_string": "one", "new_string": "two"})),
    }))
}

/// All terminal output of a conversation on this screen.
fn conversation(screen: &str, no_color: &str) -> Option<String> {
    let server = colourful();
    let person = Person::asking(&server).with("ZK_SCREEN", screen).with("NO_COLOR", no_color);
    person.write("a", "one\n");
    let mut terminal = Terminal::open(&person, "--permission-mode ask 'go'")?;
    terminal.see("Esc stops the run");
    terminal.keys("\u{3}");
    terminal.see("2 turns");
    terminal.keys("/quit\r");
    Some(terminal.rest())
}

/// Returns the output of a command on a terminal.
fn command(args: &str, no_color: &str) -> Option<String> {
    let server = colourful();
    let person = Person::asking(&server).with("NO_COLOR", no_color);
    Terminal::open(&person, args).map(Terminal::rest)
}

#[test]
fn who_wants_no_colours_gets_none_on_any_screen_and_an_empty_variable_wants_nothing() {
    for screen in ["plain", "inline", "full"] {
        for (no_color, is_coloured) in [("1", false), ("", true)] {
            let Some(seen) = conversation(screen, no_color) else { return };
            assert!(
                seen.contains("missing") && seen.contains("- one") && seen.contains("stopped"),
                "{screen}: {seen:?}"
            );
            assert_eq!(has_colour(&seen), is_coloured, "{screen}, `{no_color}`: {seen:?}");
        }
    }
}

#[test]
fn who_wants_no_colours_gets_none_from_a_command() {
    for (args, is_coloured) in [
        ("--help", false),
        ("--hlep", false),
        ("-p go", false),
        ("--resume nothing -p go", false),
        ("doctor", true),
        ("sessions list", false),
        ("cost", false),
    ] {
        let Some(seen) = command(args, "1") else { return };
        assert!(!seen.is_empty() && !has_colour(&seen), "{args}: {seen:?}");
        let Some(seen) = command(args, "") else { return };
        assert_eq!(has_colour(&seen), is_coloured, "{args}: {seen:?}");
    }
    let person = Person::asking(&colourful());
    let run = person.run(&["-p", "go"]);
    assert!(
        !has_colour(&run.stdout) && !has_colour(&run.stderr),
        "no terminal: {}{}",
        run.stdout,
        run.stderr
    );
}
