//! Text of a model, of tools, files, hooks, settings and servers, in every place that shows it on a terminal.

use serde_json::json;
use zk_testkit::{FakeServer, RawReply, Script, Turn};

use crate::terminal::Terminal;
use crate::zk::{Person, server};

/// Texts that a terminal would act on, hide or reorder, each with a mark that says where it came through.
const HOSTILE: [(&str, &str); 24] = [
    ("clipboard", "\u{1b}]52;c;aGVsbG8=\u{7}"),
    ("clipboard, ended by ST", "\u{1b}]52;c;aGVsbG8=\u{1b}\\"),
    ("hyperlink", "\u{1b}]8;;http://evil\u{1b}\\link\u{1b}]8;;\u{1b}\\"),
    ("title", "\u{1b}]0;title\u{7}"),
    ("erase", "\u{1b}[2J\u{1b}[H"),
    ("colour", "\u{1b}[31;1m"),
    ("alternate screen", "\u{1b}[?1049h"),
    ("mouse", "\u{1b}[?1003h"),
    ("report", "\u{1b}[6n\u{1b}[c"),
    ("up", "\u{1b}[5A"),
    ("C1 CSI", "\u{9b}2J"),
    ("C1 OSC", "\u{9d}0;title\u{9c}"),
    ("C1 index", "\u{84}\u{85}\u{8d}"),
    ("DCS", "\u{1b}P1$r0m\u{1b}\\"),
    ("APC", "\u{1b}_Gx\u{1b}\\"),
    ("reset", "\u{1b}c"),
    ("character set", "\u{1b}(0"),
    ("bidi", "\u{202e}evil\u{202c}\u{2066}x\u{2069}"),
    ("tags", "\u{e0041}\u{e0042}\u{e007f}"),
    ("bell", "\u{7}"),
    ("overwrite", "safe\rEVIL\u{8}\u{8}"),
    ("nothing", "\0\u{200b}\u{feff}\u{2028}"),
    (
        "marks",
        concat!("a", "\u{301}\u{302}\u{303}\u{304}\u{305}\u{306}\u{307}\u{308}\u{309}\u{30a}\u{30b}\u{30c}"),
    ),
    ("unterminated", "\u{1b}]0;x"),
];

/// Joins all hostile texts to one line. The unterminated one comes last, since it would swallow the rest.
fn hostile() -> String {
    HOSTILE.iter().map(|(name, text)| format!("{name}:{text};")).collect()
}

/// Control sequences that zk itself draws, and those of its line editor.
const OWN: [&str; 18] = [
    "[K", "[A", "7", "8", "D", "[0m", "[1m", "[2m", "[31m", "[32m", "[33m", "[36m", "[?2004h", "[?2004l",
    "[J", "[2C", "[?2026h", "[?2026l",
];

/// Fails on every byte that zk does not draw itself.
fn assert_harmless(place: &str, seen: &str) {
    let mut rest = seen;
    let mut marks = 0;
    while let Some(c) = rest.chars().next() {
        let (before, _) = seen.split_at(seen.len() - rest.len());
        let context = || {
            let before: Vec<char> = before.chars().rev().take(60).collect();
            before.into_iter().rev().chain(rest.chars().take(60)).collect::<String>()
        };
        let (_, after) = rest.split_at(c.len_utf8());
        rest = match c {
            '\u{1b}' => OWN
                .iter()
                .find_map(|own| after.strip_prefix(own))
                .unwrap_or_else(|| panic!("{place}: an escape sequence: {:?}", context())),
            '\r' => {
                let is_own = after.is_empty() || after.starts_with(['\n', '\r', '\u{1b}']);
                assert!(is_own, "{place}: a line is overwritten: {:?}", context());
                after
            }
            '\n' | '\t' => after,
            c => {
                marks = if matches!(c, '\u{300}'..='\u{36f}') { marks + 1 } else { 0 };
                // JSON is for programs: it keeps what is only hard to read.
                let is_fine = (marks <= 8 || place.contains("json")) && zk_view::is_harmless(c);
                assert!(is_fine, "{place}: {c:?} came through: {:?}", context());
                after
            }
        };
    }
}

/// Runs the program on a terminal to its end; nothing where there is no `script`.
fn shown(person: &Person, args: &str) -> Option<String> {
    Some(Terminal::open(person, args)?.rest())
}

/// Checks that what the program shows has nothing in it that acts, and that it shows `mark`.
fn check(place: &str, person: &Person, args: &str, mark: &str) {
    let Some(seen) = shown(person, args) else { return };
    assert!(seen.contains(mark), "{place}: `{mark}` is not shown: {seen:?}");
    assert_harmless(place, &seen);
}

#[test]
fn the_corpus_would_be_found() {
    for (name, text) in HOSTILE {
        let found = std::panic::catch_unwind(|| assert_harmless(name, &format!("{text} ")));
        assert!(found.is_err(), "{name} is not found");
    }
}

#[test]
fn an_answer_a_call_and_its_output_do_nothing_to_the_terminal() {
    let script = || {
        let command = format!("printf '%s\\n' '{}'", hostile().replace('\0', ""));
        Script::new()
            .turn(move |turn| {
                turn.text(format!("Interim {}", hostile())).call("shell", json!({"command": command}))
            })
            .turn(|turn| turn.call("write_file", json!({"path": hostile(), "content": hostile()})))
            .turn(|turn| turn.call(hostile(), json!({hostile(): hostile()})))
            .turn(|turn| turn.call("read_file", json!({"path": hostile()})))
            .turn(|turn| turn.thinking(hostile()).text(format!("Final {}", hostile())))
    };
    for args in [
        "-p go --allow-all -v",
        "-p go --allow-all",
        "-p go -v",
        "-p go --output-format stream-json",
        "-p go --view json",
    ] {
        let server = FakeServer::builder(script()).lenient().start().unwrap();
        let person = Person::asking(&server);
        check(args, &person, args, "Final clipboard:");
        check("sessions list", &person, "sessions list --all", "go");
        let list = person.run(&["sessions"]).stdout;
        let id = list.split_whitespace().next().unwrap().to_owned();
        check("sessions show", &person, &format!("sessions show {id}"), "Final clipboard:");
    }
}

#[test]
fn a_conversation_with_questions_does_nothing_to_the_terminal() {
    let server = FakeServer::builder(
        Script::new()
            .turn(|turn| turn.text(hostile()).call("shell", json!({"command": format!(": '{}'", hostile())})))
            .turn(|turn| turn.call("write_file", json!({"path": "a", "content": hostile()})))
            .turn(|turn| turn.thinking(hostile()).text("The end.")),
    )
    .lenient()
    .start()
    .unwrap();
    let person = Person::asking(&server);
    let Some(mut terminal) = Terminal::open(&person, "'go'") else { return };
    for _ in 0..2 {
        let before = terminal.until("y  Yes");
        assert_harmless("question", &before);
        assert!(before.contains("U+001B"), "what runs is visible: {before:?}");
        std::thread::sleep(std::time::Duration::from_millis(1000));
        terminal.keys("y");
    }
    assert_harmless("answer", &terminal.until("The end."));
    terminal.expect("› ");
    terminal.leave();
    // The line editor draws with sequences of its own from here on.
    terminal.rest();
}

#[test]
fn errors_of_a_server_do_nothing_to_the_terminal() {
    let error = json!({"type": "error", "error": {"type": hostile(), "message": hostile()}});
    let reply = RawReply::new(error.to_string()).status(400).content_type("application/json");
    let server = FakeServer::raw_replies([reply]).unwrap();
    let person = Person::asking(&server);
    check("provider error", &person, "-p go", "zk: ");
    check("models", &person, "models", "clipboard");
}

#[test]
fn settings_hooks_and_names_of_directories_do_nothing_to_the_terminal() {
    let text = hostile();
    let quoted = serde_json::to_string(&text.replace('\0', "")).unwrap();
    let toml = toml::Value::String(text.clone()).to_string();
    let server = server(Script::answering(|_| Turn::new().text("Done.")));
    let person = Person::asking(&server);
    let dir = person
        .project()
        .join(format!("x\n{}", text.replace(['\0', '/'], "")).chars().take(80).collect::<String>());
    std::fs::create_dir(&dir).unwrap();
    person.write(
        ".zk/settings.toml",
        &format!("model = {toml}\n{toml} = 1\n[[hooks.Stop]]\ncommand = {toml}\n"),
    );
    person.write(
        ".claude/settings.json",
        &json!({"hooks": {"Stop": [{"command": text, "matcher": "x"}]}}).to_string(),
    );
    let prompt_hook = format!("echo {} >&2; exit 2", shell(&quoted));
    person.settings(&format!(
        "{toml} = 2\n[[hooks.UserPromptSubmit]]\ncommand = {}\n",
        toml::Value::String(prompt_hook)
    ));
    for (place, args, mark) in [
        ("trust", "trust", "not trusted"),
        ("hooks", "hooks list", "UserPromptSubmit"),
        ("doctor", "doctor", "hooks:"),
        ("config", "config show --origin", "thinking"),
        ("a prompt that a hook refuses", "-p go", "blocked by hook"),
    ] {
        check(place, &person, args, mark);
        // The directory is a project of its own, with nothing in it.
        let below = format!("{args} --cwd {}", shell(dir.to_str().unwrap()));
        check(place, &person, &below, if place == "trust" { "⟨U+000A⟩" } else { mark });
    }
    let odd = shell(&text.replace('\0', ""));
    check("a flag", &person, &format!("-p go --thinking {odd}"), "--thinking");
    check("an unknown session", &person, &format!("sessions show {odd}"), "zk: ");
}

/// A text as one word of a shell.
fn shell(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// Text reaches the terminal through one type. Whoever writes to it directly goes around the sanitiser.
#[test]
fn one_file_writes_to_the_terminal() {
    fn files(dir: &std::path::Path, all: &mut Vec<std::path::PathBuf>) {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { files(&path, all) } else { all.push(path) }
        }
    }
    let crates = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut all = Vec::new();
    files(&crates.join("zk-cli/src"), &mut all);
    files(&crates.join("zk-tui/src"), &mut all);
    // The terminal's text and the frames of its screens; JSON lines, whose controls are escaped; and the buffer of both.
    let own = ["term/safe.rs", "term/modes.rs", "program/result_line.rs", "term/output.rs"];
    for path in all.iter().filter(|path| !own.iter().any(|own| path.ends_with(own))) {
        let text = std::fs::read_to_string(path).unwrap();
        let shipped = text.split("#[cfg(test)]").next().unwrap_or_default();
        let code: String = shipped.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
        for writes in [
            "print!(",
            "println!(",
            "stdout().lock()",
            "stderr().lock()",
            "stdout().write",
            "stderr().write",
            "&mut std::io::stdout()",
        ] {
            assert!(!code.contains(writes), "{} writes with `{writes}`: use `SafeText`", path.display());
        }
    }
}
