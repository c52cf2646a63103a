//! Files that are named, images of the clipboard, directories beside the first.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use serde_json::json;
use zk_testkit::{Script, Turn};

use crate::terminal::{Terminal, counting};
use crate::zk::{Person, server};

fn drawn(server: &zk_testkit::FakeServer) -> Person {
    Person::asking(server).with("ZK_SCREEN", "inline")
}

#[test]
fn a_named_file_goes_to_the_model_with_its_lines_from_a_screen_and_without_one() {
    let server = counting();
    let person = drawn(&server);
    person.write("cart.py", "def total(items):\n    return sum(items)\n");
    let run = person.run(&["-p", "explain @cart.py:2 and @nothing.py"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let sent = server.bodies().last().unwrap().to_string();
    assert!(
        sent.contains("`cart.py:2`, which the person attached") && sent.contains("2\\t    return"),
        "{sent}"
    );
    assert!(!sent.contains("def total"), "{sent}");
    let Some(mut terminal) = Terminal::open(&person, "'explain @cart.py'") else { return };
    terminal.expect("@cart.py · 2 lines");
    terminal.expect("1 turn ·");
    assert!(server.bodies().last().unwrap().to_string().contains("def total(items)"));
    terminal.leave();
    assert_eq!(terminal.code(), Some(0));
    assert_eq!(server.violations(), []);
}

#[test]
fn an_image_of_the_clipboard_is_attached_once_and_a_clipboard_without_one_says_so() {
    let server = counting();
    let person = drawn(&server);
    let tool = person.home().join("bin/wl-paste");
    std::fs::create_dir_all(tool.parent().unwrap()).unwrap();
    let paste = |script: &str| {
        std::fs::write(&tool, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&tool, std::fs::Permissions::from_mode(0o755)).unwrap();
    };
    paste(r"printf '\211PNG\r\n\032\n\000\000\000\rIHDR\000\000\002\200\000\000\001\340'");
    let path = format!("{}:/usr/bin:/bin", tool.parent().unwrap().display());
    let person = person.with("PATH", &path);
    let Some(mut terminal) = Terminal::open(&person, "'first'") else { return };
    terminal.expect("1 turn ·");
    terminal.keys("see \u{16}");
    terminal.expect("[image 1: 640×480]");
    terminal.keys("\r");
    let shown = terminal.until("Answer 3 to: see [image 1: 640×480]");
    assert!(!shown.contains("attachment"), "{shown:?}");
    terminal.expect("1 turn ·");
    assert!(server.bodies().last().unwrap().to_string().contains("\"media_type\":\"image/png\""));
    paste("exit 1");
    terminal.keys("\u{16}");
    terminal.expect("there is no image in the clipboard");
    paste("sleep 600");
    terminal.keys("\u{16}");
    terminal.expect("wl-paste gave no image within 2 s");
    terminal.leave();
    assert_eq!(terminal.code(), Some(0));
}

#[test]
fn reading_outside_is_asked_about_and_without_a_person_refused() {
    let beside = tempfile::tempdir().unwrap();
    let file = beside.path().canonicalize().unwrap().join("notes.txt");
    std::fs::write(&file, "beside the project\n").unwrap();
    let script = || {
        Script::new()
            .turn(|t| t.call("read_file", json!({"path": file.display().to_string()})))
            .turn(|t| t.text("I read it."))
    };
    let server1 = server(script());
    let person = drawn(&server1);
    let Some(mut terminal) = Terminal::open(&person, "'read it'") else { return };
    terminal.expect("It is outside this project.");
    terminal.answer_until("y", "I read it.");
    assert!(server1.bodies().last().unwrap().to_string().contains("beside the project"));
    terminal.expect("2 turns ·");
    terminal.leave();
    assert_eq!(terminal.code(), Some(0));
    let alone = server(script());
    let run = Person::asking(&alone).run(&["-p", "read it"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let sent = alone.bodies().last().unwrap().to_string();
    assert!(
        sent.contains("is outside the allowed directories") && !sent.contains("beside the project"),
        "{sent}"
    );
}

#[test]
fn results_of_another_conversation_are_read_in_none() {
    let server = server(Script::answering(|asked| match asked.results().len() {
        0 => {
            let path = asked.last_user_text();
            Turn::new().call("read_file", json!({ "path": path }))
        }
        _ => Turn::new().text("Ended."),
    }));
    let person = drawn(&server);
    let other = person.home().join("outputs/s_other/1.txt");
    std::fs::create_dir_all(other.parent().unwrap()).unwrap();
    std::fs::write(&other, "of another conversation\n").unwrap();
    let Some(mut terminal) = Terminal::open(&person, &format!("'{}'", other.display())) else { return };
    terminal.expect("Ended.");
    terminal.expect("2 turns ·");
    terminal.leave();
    assert_eq!(terminal.code(), Some(0));
    let sent = server.bodies().last().unwrap().to_string();
    assert!(!sent.contains("of another conversation"), "{sent}");
}

#[test]
fn a_directory_that_is_added_can_be_read_and_written_from_then_on() {
    let beside = tempfile::tempdir().unwrap();
    let place = beside.path().canonicalize().unwrap();
    std::fs::write(place.join("notes.txt"), "beside the project\n").unwrap();
    let file = place.join("notes.txt").display().to_string();
    let script = Script::answering(move |asked| {
        let seen = format!("{:?}", asked.messages);
        if seen.contains("beside the project") {
            Turn::new().text("I read it.")
        } else if seen.contains("read it now") {
            Turn::new().call("read_file", json!({"path": file.clone()}))
        } else {
            Turn::new().text("Hello.")
        }
    });
    let server = server(script);
    let person = drawn(&server);
    let Some(mut terminal) = Terminal::open(&person, "'first'") else { return };
    terminal.expect("1 turn ·");
    terminal.keys("/add-dir /no/such/place\r");
    terminal.expect("cannot work in /no/such/place");
    terminal.keys(&format!("/add-dir {}\r", place.display()));
    terminal.expect("work in ");
    terminal.expect("are read anew");
    terminal.keys("read it now\r");
    terminal.expect("I read it.");
    terminal.expect("2 turns ·");
    terminal.keys("/add-dir\r");
    terminal.expect(&place.display().to_string());
    terminal.leave();
    assert_eq!(terminal.code(), Some(0));
}

#[test]
fn a_theme_is_a_file_and_one_that_is_garbage_is_said_with_its_line() {
    // The status is drawn while the answer is waited for.
    let waits = || Turn::new().delay(Duration::from_millis(500)).text("Answer.");
    let server = server(Script::answering(move |_| waits()));
    let person = drawn(&server);
    person.settings("theme = \"mine\"\n");
    let theme = person.home().join("themes/mine.toml");
    std::fs::create_dir_all(theme.parent().unwrap()).unwrap();
    std::fs::write(&theme, "work = \"#102030\"\n").unwrap();
    let Some(mut terminal) = Terminal::open(&person, "'first'") else { return };
    terminal.expect("38;2;16;32;48");
    terminal.expect("1 turn ·");
    // The list has it, marked, and it can be left and chosen again.
    terminal.keys("/theme\r");
    terminal.expect("the colours of the file that your settings name");
    terminal.keys("\u{1b}");
    terminal.expect("? keys");
    terminal.keys("/theme dark\r");
    terminal.expect("theme dark for this conversation");
    terminal.keys("/theme own\r");
    terminal.expect("theme own for this conversation");
    terminal.keys("again\r");
    terminal.expect("38;2;16;32;48");
    terminal.expect("1 turn ·");
    terminal.leave();
    assert_eq!(terminal.code(), Some(0));
    std::fs::write(&theme, "# mine\nwarning = \"mauve\"\n").unwrap();
    let Some(mut terminal) = Terminal::open(&person, "'first'") else { return };
    terminal.expect("mine.toml: line 2: `warning` cannot be `mauve`");
    terminal.expect("1 turn ·");
    terminal.leave();
    assert_eq!(terminal.code(), Some(0));
}
