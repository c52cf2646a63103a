//! The person's own shell with the agent attached.

use std::path::Path;

use serde_json::json;
use zk_testkit::{FakeServer, Script, Turn};

use crate::terminal::Terminal;
use crate::zk::{Person, program, server, until};

/// Prompt of the shells in these tests.
const PROMPT: &str = "ready> ";

/// Person with the same prompt in every shell.
fn person(server: &FakeServer) -> Person {
    let person = Person::asking(server).with("HISTFILE", "/dev/null");
    std::fs::write(person.home().join(".bashrc"), format!("PS1='{PROMPT}'\nTHING=teapot\n")).unwrap();
    std::fs::write(person.home().join(".zshrc"), format!("PROMPT='{PROMPT}'\nTHING=teapot\n")).unwrap();
    let fish = person.home().join(".config/fish");
    std::fs::create_dir_all(&fish).unwrap();
    let start =
        format!("function fish_prompt; printf '{PROMPT}'; end\nset THING teapot\nset fish_greeting\n");
    std::fs::write(fish.join("config.fish"), start).unwrap();
    person
}

fn shells() -> impl Iterator<Item = &'static str> {
    ["bash", "zsh", "fish"].into_iter().filter(|name| Path::new("/usr/bin").join(name).exists())
}

/// Calls the agent at the empty line, and sends a text.
fn ask(terminal: &mut Terminal, text: &str) {
    terminal.keys("?");
    terminal.expect("Ask anything");
    terminal.keys(&format!("{text}\r"));
}

/// Ends the shell as a person does.
fn leave(mut terminal: Terminal) {
    terminal.keys("exit\r");
    assert_eq!(terminal.code(), Some(0));
}

#[test]
fn a_question_at_an_empty_line_is_answered_with_what_ran_before_and_the_shell_goes_on() {
    for shell in shells() {
        let server = server(Script::answering(|asked| {
            Turn::new().text(format!("Answer-{} to {}.", asked.messages.len(), asked.last_user_text()))
        }));
        let person = person(&server);
        let Some(mut terminal) = Terminal::open(&person, &format!("shell --shell {shell}")) else { return };
        terminal.expect(PROMPT);
        terminal.keys("sh -c 'echo $0-pot; exit 3' tea\r");
        terminal.expect("tea-pot");
        terminal.expect(PROMPT);
        ask(&mut terminal, "why that code");
        terminal.expect("Answer-1 to");
        terminal.expect(PROMPT);
        // The line keeps its text under the chord, and a question mark in a line is text.
        terminal.keys("echo what");
        terminal.expect("what");
        terminal.keys("\u{1d}");
        terminal.expect("Ask anything");
        terminal.keys("\u{4}");
        terminal.expect("what");
        terminal.keys("-now; echo \\?$THING\r");
        terminal.expect("what-now");
        terminal.expect("?teapot");
        terminal.expect(PROMPT);
        terminal.keys("exit 7\r");
        assert_eq!(terminal.code(), Some(7), "{shell}");
        let bodies = server.bodies();
        let asked = bodies.last().unwrap().to_string();
        assert!(asked.contains("$ sh -c 'echo $0-pot; exit 3' tea"), "{shell}: {asked}");
        assert!(asked.contains("exit code 3") && asked.contains("\\ntea-pot"), "{shell}: {asked}");
        assert_eq!(server.violations(), []);
    }
}

#[test]
fn a_command_of_the_agent_runs_in_the_live_shell_once_it_is_allowed() {
    let script = Script::new()
        .turn(|t| t.call("run_in_shell", json!({"command": "echo live-$THING\nMORE=kettle"})))
        .turn(|t| t.text("Finished."));
    let server = server(script);
    let person = person(&server);
    let Some(mut terminal) = Terminal::open(&person, "shell --shell bash --permission-mode ask") else {
        return;
    };
    terminal.expect(PROMPT);
    ask(&mut terminal, "do it");
    terminal.expect("Call the tool run_in_shell?");
    terminal.expect("echo live-$THING");
    terminal.expect("y  Yes");
    std::thread::sleep(std::time::Duration::from_millis(1000));
    terminal.keys("y");
    terminal.expect("live-teapot");
    terminal.expect("Finished.");
    terminal.expect(PROMPT);
    terminal.keys("echo and-$MORE\r");
    terminal.expect("and-kettle");
    leave(terminal);
    let told = server.bodies().last().unwrap().to_string();
    assert!(told.contains("live-teapot\\n(exit code 0)"), "{told}");
    assert_eq!(server.violations(), []);
}

#[test]
fn a_space_before_a_command_and_shell_off_keep_it_from_the_model() {
    let server =
        server(Script::answering(|asked| Turn::new().text(format!("Answer-{}.", asked.messages.len()))));
    let person = person(&server);
    let Some(mut terminal) = Terminal::open(&person, "shell --shell bash") else { return };
    terminal.expect(PROMPT);
    terminal.keys(" echo canary-one | tr a-z A-Z\r");
    terminal.expect("CANARY-ONE");
    terminal.expect(PROMPT);
    terminal.keys("read -s word; echo ended\r");
    terminal.expect("\n");
    terminal.keys("canary-two\r");
    terminal.expect("ended");
    terminal.expect(PROMPT);
    ask(&mut terminal, "what ran");
    terminal.expect("Answer-1");
    terminal.expect(PROMPT);
    ask(&mut terminal, "/shell off");
    terminal.expect("nothing of the shell is recorded");
    terminal.expect(PROMPT);
    terminal.keys("echo canary-three | tr a-z A-Z\r");
    terminal.expect("CANARY-THREE");
    terminal.expect(PROMPT);
    ask(&mut terminal, "and now");
    terminal.expect("Answer-3");
    terminal.expect(PROMPT);
    leave(terminal);
    let all = server.bodies().iter().map(ToString::to_string).collect::<String>().to_lowercase();
    assert!(all.contains("read -s word") && !all.contains("canary"), "{all}");
}

#[test]
fn a_shell_in_a_shell_and_a_shell_without_a_terminal_are_refused() {
    let server = server(Script::new());
    let person = person(&server);
    let zk = program().display().to_string();
    let Some(mut terminal) = Terminal::open(&person, "shell --shell bash") else { return };
    terminal.expect(PROMPT);
    terminal.keys(&format!("{zk} shell; echo code-$?\r"));
    terminal.expect("this is a shell of zk already");
    terminal.expect("code-2");
    terminal.expect(PROMPT);
    terminal.keys(&format!("{zk} shell --nested </dev/null; echo code-$?\r"));
    terminal.expect("a shell needs a terminal");
    terminal.expect("code-2");
    leave(terminal);
    let Some(terminal) = Terminal::open(&person, "shell --shell /no/such/shell") else { return };
    terminal.expect("cannot start /no/such/shell");
    assert_eq!(terminal.code(), Some(1));
}

#[test]
fn the_card_shows_what_stands_behind_a_command() {
    let script = Script::new()
        .turn(|t| t.call("run_in_shell", json!({"command": "greet now"})))
        .turn(|t| t.text("Finished."));
    let server = server(script);
    let person = person(&server);
    let bashrc = person.home().join(".bashrc");
    let old = std::fs::read_to_string(&bashrc).unwrap();
    std::fs::write(&bashrc, old + "alias greet='salute 5'\nsalute() { echo salute-$(($1 * 2)); }\n").unwrap();
    let Some(mut terminal) = Terminal::open(&person, "shell --shell bash --permission-mode ask") else {
        return;
    };
    terminal.expect(PROMPT);
    ask(&mut terminal, "do it");
    terminal.expect("Call the tool run_in_shell?");
    terminal.expect("stand for:");
    terminal.expect("alias greet='salute 5'");
    terminal.expect("echo salute-$(($1 * 2))");
    terminal.answer("y");
    terminal.expect("salute-10");
    terminal.expect("Finished.");
    terminal.expect(PROMPT);
    leave(terminal);
    assert_eq!(server.violations(), []);
}

#[test]
fn commands_of_a_remote_host_are_claims_and_the_script_for_it_is_printed() {
    let server =
        server(Script::answering(|asked| Turn::new().text(format!("Answer-{}.", asked.messages.len()))));
    let person = person(&server);
    for shell in ["bash", "zsh", "fish"] {
        let printed = person.run(&["shell", "init", shell]);
        assert!(printed.code == 0 && printed.stdout.contains("7177"), "{}", printed.stdout);
    }
    assert_eq!(person.run(&["shell", "init", "tcsh"]).code, 2);
    let Some(mut terminal) = Terminal::open(&person, "shell --shell bash") else { return };
    terminal.expect(PROMPT);
    terminal.keys("printf '\\033]7177;hint;C;make all\\007\\033]7177;hint;D;2;/srv\\007\\033]7177;hint;C;x\\007there\\n'\r");
    terminal.expect("there\r\n");
    terminal.expect(PROMPT);
    ask(&mut terminal, "what ran");
    terminal.expect("Answer-1");
    terminal.expect(PROMPT);
    leave(terminal);
    let told = server.bodies().last().unwrap().to_string();
    assert!(told.contains("nobody checked it)\\n  $ make all (exit code 2, then in /srv)"), "{told}");
}

#[test]
fn fifty_canaries_are_in_no_request_session_or_log() {
    let server =
        server(Script::answering(|asked| Turn::new().text(format!("Answer-{}.", asked.messages.len()))));
    let person = person(&server);
    let bashrc = person.home().join(".bashrc");
    let secrets: String = (0..15)
        .map(|n| format!("export SERVICE{n}_{}=canary-env-{n}\n", ["TOKEN", "PASSWORD", "API_KEY"][n % 3]))
        .collect();
    let old = std::fs::read_to_string(&bashrc).unwrap();
    // The file is no part of what is searched.
    let secret_file = person.project().join("../secrets");
    std::fs::write(&secret_file, secrets).unwrap();
    std::fs::write(&bashrc, old + &format!(". {}\n", secret_file.display())).unwrap();
    let Some(mut terminal) = Terminal::open(&person, "shell --shell bash") else { return };
    terminal.expect(PROMPT);
    for n in 0..10 {
        // Keys that arrive before the echo is off are shown, and are no secrets.
        terminal.keys("stty -echo; echo hidden; read -s word; stty echo; echo read-it\r");
        terminal.expect("hidden\r\n");
        terminal.keys(&format!("canary-password-{n}\r"));
        terminal.expect("read-it\r\n");
        terminal.expect(PROMPT);
        terminal.keys(&format!(" echo canary-space-{n} | tr a-z A-Z\r"));
        terminal.expect(&format!("CANARY-SPACE-{n}"));
        terminal.expect(PROMPT);
        terminal
            .keys(&format!("echo https://me:canary-url-{n}@host/ 'http://host/?token=canary-query-{n}&x'\r"));
        terminal.expect("&x\r\n");
        terminal.expect(PROMPT);
    }
    for dump in ["env", "export -p", "set | grep SERVICE", "declare -p SERVICE1_PASSWORD", "env | sort"] {
        terminal.keys(&format!("{dump}\r"));
        terminal.expect("SERVICE1_PASSWORD=");
        terminal.expect(PROMPT);
    }
    ask(&mut terminal, "what ran");
    terminal.expect("Answer-1");
    terminal.expect(PROMPT);
    leave(terminal);
    let asked = server.bodies().iter().map(ToString::to_string).collect::<String>().to_lowercase();
    assert!(asked.contains("read -s word") && asked.contains("service1_password"), "{asked}");
    assert!(!asked.contains("canary"), "{asked}");
    let mut dirs = vec![person.home()];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                dirs.push(entry.path());
            } else if let Ok(bytes) = std::fs::read(entry.path()) {
                let text = String::from_utf8_lossy(&bytes).to_lowercase();
                assert!(!text.contains("canary"), "{}", entry.path().display());
            }
        }
    }
}

#[test]
fn zk_that_is_killed_leaves_no_shell_and_its_directory_goes_with_the_next_start() {
    let server = server(Script::new());
    let person = person(&server);
    let pid_file = person.project().join("pids");
    // The shell that is around it sees its end.
    let around = format!(
        "sh -c '{} shell --shell bash; echo code-$?; stty -a | grep -o -- \"-*icanon\"'",
        program().display()
    );
    for (signal, code, is_swept) in
        [("TERM", "code-143", true), ("HUP", "code-129", true), ("KILL", "code-137", false)]
    {
        let Some(mut terminal) = Terminal::run(&person, &around) else { return };
        terminal.expect(PROMPT);
        terminal.keys(&format!("echo $PPID $$ > {}; sleep 1000 & echo left\r", pid_file.display()));
        terminal.expect("left\r\n");
        terminal.expect(PROMPT);
        let pids = std::fs::read_to_string(&pid_file).unwrap();
        let (zk, shell) = pids.trim().split_once(' ').unwrap();
        let pid = |text: &str| rustix::process::Pid::from_raw(text.parse().unwrap()).unwrap();
        let name = match signal {
            "TERM" => rustix::process::Signal::TERM,
            "HUP" => rustix::process::Signal::HUP,
            _ => rustix::process::Signal::KILL,
        };
        rustix::process::kill_process(pid(zk), name).unwrap();
        terminal.expect(code);
        if is_swept {
            terminal.expect("icanon");
        }
        until("the end of the shell", || rustix::process::test_kill_process(pid(shell)).is_err());
        let left = find_instances(&person.home());
        assert_eq!(left.is_empty(), is_swept, "{signal}: {left:?}");
    }
    let Some(terminal) = Terminal::open(&person, "shell --shell bash") else { return };
    terminal.expect(PROMPT);
    assert_eq!(find_instances(&person.home()).len(), 1, "the one of the killed instance is gone");
    leave(terminal);
    assert_eq!(find_instances(&person.home()), Vec::<std::path::PathBuf>::new());
}

#[test]
fn a_signal_while_the_model_answers_ends_zk_with_its_shell_and_restores_the_terminal() {
    for (signal, code) in
        [(rustix::process::Signal::TERM, "code-143"), (rustix::process::Signal::HUP, "code-129")]
    {
        let server = server(Script::new().turn(|t| t.text("Begun").hang()));
        let person = person(&server);
        let pid_file = person.project().join("pids");
        let around = format!(
            "sh -c '{} shell --shell bash; echo code-$?; stty -a | grep -o -- \"-*icanon\"'",
            program().display()
        );
        let Some(mut terminal) = Terminal::run(&person, &around) else { return };
        terminal.expect(PROMPT);
        terminal.keys(&format!("echo $PPID > {}; echo left\r", pid_file.display()));
        terminal.expect("left\r\n");
        terminal.expect(PROMPT);
        ask(&mut terminal, "go on");
        terminal.expect("Begun");
        let zk = std::fs::read_to_string(&pid_file).unwrap();
        let zk = rustix::process::Pid::from_raw(zk.trim().parse().unwrap()).unwrap();
        rustix::process::kill_process(zk, signal).unwrap();
        terminal.expect(code);
        terminal.expect("icanon");
        assert_eq!(find_instances(&person.home()), Vec::<std::path::PathBuf>::new());
    }
}

/// Directories of instances below a home.
fn find_instances(home: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    let mut dirs = vec![home.to_path_buf()];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                if dir.ends_with("shell") {
                    found.push(entry.path());
                }
                dirs.push(entry.path());
            }
        }
    }
    found
}
