//! Marks of real shells, with start files as people have them.

use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use zk_exec::PersonTerminal;

use super::*;
use crate::line::Line;
use crate::marks::{Mark, MarkScanner, MarkSink};

/// Time that a shell on a busy machine may take.
const LONG: Duration = Duration::from_secs(60);

/// Commands that are generated for each start file of a shell. A campaign sets `ZK_SHELL_COMMANDS` to more.
const GENERATED: u64 = 20;

#[derive(Default)]
struct Seen {
    text: Vec<u8>,
    marks: Vec<Mark>,
}

impl MarkSink for Seen {
    fn pass(&mut self, bytes: &[u8]) {
        self.text.extend_from_slice(bytes);
    }

    fn mark(&mut self, mark: Mark) {
        self.marks.push(mark);
    }
}

/// Command as its marks tell it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Told {
    text: Option<String>,
    /// Whether the text is in the history's form.
    is_joined: bool,
    code: Option<i32>,
    dir: String,
}

struct Shell {
    _terminal: PersonTerminal,
    keys: fs::File,
    output: Receiver<Vec<u8>>,
    scanner: MarkScanner,
    seen: Seen,
    line: Line,
    dir: InstanceDir,
    home: tempfile::TempDir,
}

impl Drop for Shell {
    fn drop(&mut self) {
        // The shell hangs up with its terminal; a test does not wait for it.
        let _ = self.keys.write_all(b"\x03\x15exit\r");
    }
}

impl Shell {
    /// Starts the shell with this start file; `None` if it is not installed.
    fn start(kind: ShellKind, start_file: &str) -> Option<Self> {
        let program = Path::new("/usr/bin").join(kind.to_string());
        if !program.exists() {
            println!("skipped: there is no {}", program.display());
            return None;
        }
        let home = tempfile::tempdir().unwrap();
        let file = match kind {
            ShellKind::Bash => ".bashrc",
            ShellKind::Zsh => ".zshrc",
            ShellKind::Fish => ".config/fish/config.fish",
        };
        let file = home.path().join(file);
        make_private_dir(file.parent().unwrap()).unwrap();
        fs::write(file, start_file).unwrap();
        let dir = InstanceDir::create(&[home.path().to_path_buf()]).unwrap();
        let command = PersonCommand::new(program, home.path())
            .env("HOME", home.path())
            .env("PATH", "/usr/bin:/bin")
            .env("TERM", "xterm-256color")
            .env("LC_ALL", "C.UTF-8");
        let command = command_with_marks(command, kind, false, "n0nce", &dir).unwrap();
        let terminal = PersonTerminal::start(&command, io::stdin()).unwrap();
        let (mut reading, keys) = (terminal.handle().unwrap(), terminal.handle().unwrap());
        let (sender, output) = channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = reading.read(&mut buffer) {
                if sender.send(buffer[..read].to_vec()).is_err() {
                    return;
                }
            }
        });
        let (scanner, seen, line) = (MarkScanner::new("n0nce"), Seen::default(), Line::default());
        Some(Self { _terminal: terminal, keys, output, scanner, seen, line, dir, home })
    }

    /// Waits until a mark makes `is_enough` true; returns the marks so far.
    fn wait(&mut self, is_enough: impl Fn(&[Mark]) -> bool) -> Vec<Mark> {
        while !is_enough(&self.seen.marks) {
            match self.output.recv_timeout(LONG) {
                Ok(bytes) => self.scanner.push(&bytes, &mut self.seen),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    panic!("no mark: {:?} {:?}", self.seen.marks, String::from_utf8_lossy(&self.seen.text))
                }
            }
        }
        std::mem::take(&mut self.seen.marks)
    }

    fn ready(&mut self) {
        for mark in self.wait(|marks| matches!(marks.last(), Some(Mark::Ready { .. }))) {
            self.line.apply_mark(&mark);
        }
    }

    fn press(&mut self, bytes: &[u8]) {
        self.line.record_typed(bytes);
        self.keys.write_all(bytes).unwrap();
    }

    /// Enters a command as a paste; returns what its marks tell.
    fn enter(&mut self, command: &str) -> Told {
        self.press(format!("\x1b[200~{command}\x1b[201~\r").as_bytes());
        self.told()
    }

    fn told(&mut self) -> Told {
        let mut told = Told::default();
        for mark in self.wait(|marks| matches!(marks.last(), Some(Mark::Ready { .. }))) {
            match &mark {
                Mark::Started { text, source, entry } => {
                    let command = self.line.started_command(text, *source, *entry);
                    told.text = command.text;
                    told.is_joined = command.is_joined;
                }
                Mark::Ended { code, dir } => {
                    told.code = Some(*code);
                    told.dir = String::from_utf8_lossy(dir).into_owned();
                }
                Mark::Directory(dir) => told.dir = String::from_utf8_lossy(dir).into_owned(),
                Mark::Ready { .. }
                | Mark::Continued
                | Mark::LineText(_)
                | Mark::Definitions(_)
                | Mark::Line { .. } => {}
            }
            self.line.apply_mark(&mark);
        }
        told
    }

    fn line_len(&mut self) -> usize {
        self.keys.write_all(b"\x1b[1007177u").unwrap();
        let marks = self.wait(|marks| matches!(marks.last(), Some(Mark::Line { .. })));
        match marks.last() {
            Some(Mark::Line { len }) => *len,
            _ => panic!("{marks:?}"),
        }
    }
}

/// Start files that change what the marks rely on, and whether the marks survive them whole.
fn start_files(kind: ShellKind) -> Vec<(&'static str, &'static str)> {
    match kind {
        ShellKind::Bash => vec![
            ("plain", ""),
            ("string hook", "PROMPT_COMMAND='true; x=1;'\nHISTCONTROL=ignoreboth\n"),
            ("array hook", "PROMPT_COMMAND=(true 'y=2')\nshopt -s histappend lithist\n"),
            ("debug trap", "trap ': $BASH_COMMAND' DEBUG\ntrap ': err' ERR\nset -o functrace\n"),
            ("readonly hook", "readonly PROMPT_COMMAND='true'\n"),
            ("other marks", "PS1='\\[\\e]133;A\\a\\]\\u$ \\[\\e]133;B\\a\\]'\nPS0='\\e]133;C\\a'\n"),
            ("vi keys", "set -o vi\n"),
            ("strict", "set -u\nPS1='two\\nlines$ '\n"),
        ],
        ShellKind::Zsh => vec![
            ("plain", ""),
            (
                "own hooks",
                "precmd() { true }\npreexec() { false }\nzle-line-init() { true }\nzle -N zle-line-init\n",
            ),
            (
                "options",
                "setopt no_unset ksh_arrays sh_word_split hist_ignore_space hist_reduce_blanks\nHISTSIZE=100\n",
            ),
            (
                "instant prompt",
                "exec {out}>&1 1>/dev/null\nprint -n 'instant> ' >&$out\n\
                 restore() { exec 1>&$out {out}>&-; precmd_functions=(${precmd_functions:#restore}) }\n\
                 precmd_functions=(restore $precmd_functions)\n",
            ),
            ("vi keys", "bindkey -v\nPROMPT='%{\\e]133;A\\a%}two\nlines%# '\n"),
        ],
        ShellKind::Fish => vec![
            ("plain", ""),
            (
                "own hooks",
                "function on_run --on-event fish_preexec; true; end\nfunction fish_prompt; echo '> '; end\n",
            ),
            ("vi keys", "fish_vi_key_bindings\n"),
        ],
    }
}

/// Commands with text, quotes, line ends and bytes that an encoding could lose; with the exit code of each.
fn generated(kind: ShellKind, count: u64, seed: u64) -> Vec<(String, i32)> {
    let mut state = seed;
    let mut next = move |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let words = [
        "a", "%41", "100%", "\\\\n", "é漢", "a;b", "x  y", "\"q\"", "$HOME", "#no", "~", "!no", "&", "|",
        "\t",
    ];
    (0..count)
        .map(|n| {
            let mut quoted = || {
                let count = next(4) + 1;
                let words: Vec<&str> = (0..count).map(|_| words[next(words.len() as u64) as usize]).collect();
                words.join(" ")
            };
            // A bang expands before the shell sees its quotes.
            let text = quoted().replace(['!', '\t'], "_");
            match n % 8 {
                6 if kind == ShellKind::Fish => (format!("if false # {n}\necho a\nend"), 0),
                6 => (format!("for x in a b; do\n  false '{n}'\ndone"), 1),
                7 => (format!("sh -c 'kill -TERM $$' {n}"), 143),
                5 if kind == ShellKind::Fish => (format!("echo '{text}' {n}"), 0),
                5 => (format!("cat >/dev/null <<'END'\n{text}\nEND"), 0),
                0 => (format!("echo '{text}' # {n}"), 0),
                1 => (format!("true '{text}\n{n}'"), 0),
                2 if kind == ShellKind::Fish => (format!("sh -c 'exit {}' {n}", n % 200), (n % 200) as i32),
                2 => (format!("(exit {}) # {n}", n % 200), (n % 200) as i32),
                3 => (format!("false '{text}' {n}"), 1),
                _ => (format!("echo '{text}' '{n}' >/dev/null"), 0),
            }
        })
        .collect()
}

#[expect(clippy::disallowed_methods, reason = "the size of a campaign is set from outside")]
fn generated_commands_are_told_exactly(kind: ShellKind) {
    let count =
        std::env::var("ZK_SHELL_COMMANDS").ok().and_then(|count| count.parse().ok()).unwrap_or(GENERATED);
    for (seed, (name, start_file)) in start_files(kind).into_iter().enumerate() {
        let comments = if kind == ShellKind::Zsh { "setopt interactive_comments\n" } else { "" };
        let Some(mut shell) = Shell::start(kind, &format!("{comments}{start_file}")) else { return };
        shell.ready();
        let home = shell.home.path().canonicalize().unwrap().to_string_lossy().into_owned();
        let mut unknown = 0;
        for (command, code) in generated(kind, count, seed as u64 + 7) {
            let told = shell.enter(&command);
            match &told.text {
                Some(text) if !told.is_joined => assert_eq!(*text, command, "{kind} {name}"),
                Some(_) | None => unknown += 1,
            }
            assert_eq!((told.code, &told.dir), (Some(code), &home), "{kind} {name}: {command}");
        }
        println!("{kind}, {name}: {count} commands, {unknown} of them unknown");
        assert!(name != "plain" || unknown == 0, "a plain {kind} tells every command");
    }
}

fn marks_survive_start_files(kind: ShellKind) {
    for (name, start_file) in start_files(kind) {
        let Some(mut shell) = Shell::start(kind, start_file) else { return };
        shell.ready();
        let dir = shell.home.path().join("näxt dir");
        fs::create_dir(&dir).unwrap();
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)).unwrap();
        let home = shell.home.path().canonicalize().unwrap().to_string_lossy().into_owned();
        for (command, code, to) in [
            ("echo one", 0, ""),
            ("false", 1, ""),
            ("cd 'näxt dir'", 0, "/näxt dir"),
            ("sh -c 'exit 77'", 77, "/näxt dir"),
            ("cd ..", 0, ""),
        ] {
            let told = shell.enter(command);
            // Exact or unknown, and never another one.
            assert!(told.text.as_deref().is_none_or(|text| text == command), "{kind} {name}: {told:?}");
            assert_eq!(
                (told.code, told.dir),
                (Some(code), format!("{home}{to}")),
                "{kind} {name}: {command}"
            );
        }
        assert_eq!(shell.line_len(), 0, "{kind} {name}");
        shell.keys.write_all(b"abc").unwrap();
        assert_eq!(shell.line_len(), 3, "{kind} {name}");
    }
}

#[test]
fn bash_tells_generated_commands_exactly() {
    generated_commands_are_told_exactly(ShellKind::Bash);
}

#[test]
fn zsh_tells_generated_commands_exactly() {
    generated_commands_are_told_exactly(ShellKind::Zsh);
}

#[test]
fn fish_tells_generated_commands_exactly() {
    generated_commands_are_told_exactly(ShellKind::Fish);
}

#[test]
fn marks_of_bash_survive_start_files() {
    marks_survive_start_files(ShellKind::Bash);
}

#[test]
fn marks_of_zsh_survive_start_files() {
    marks_survive_start_files(ShellKind::Zsh);
}

#[test]
fn marks_of_fish_survive_start_files() {
    marks_survive_start_files(ShellKind::Fish);
}

#[test]
fn bash_keeps_private_commands_private_and_a_repeated_one_is_known() {
    let Some(mut shell) = Shell::start(ShellKind::Bash, "HISTCONTROL=ignoreboth\n") else { return };
    shell.ready();
    assert_eq!(shell.enter("echo one").text.as_deref(), Some("echo one"));
    shell.press(b"\x1b[A\r");
    assert_eq!(shell.told().text.as_deref(), Some("echo one"), "recalled by a key");
    shell.press(b"echo one\r");
    assert_eq!(shell.told().text.as_deref(), Some("echo one"), "typed again");
    shell.press(b" echo secret\r");
    assert_eq!(shell.told().text, None);
}

#[test]
fn the_nonce_is_in_no_environment() {
    for kind in [ShellKind::Bash, ShellKind::Zsh, ShellKind::Fish] {
        let Some(mut shell) = Shell::start(kind, "") else { continue };
        shell.ready();
        shell.enter("sh -c 'echo count=$(env | grep -c n0nce)'");
        let text = String::from_utf8_lossy(&shell.seen.text).into_owned();
        assert!(text.contains("count=0"), "{kind}: {text}");
    }
}

#[test]
fn an_instance_has_a_private_directory_and_those_of_the_dead_are_swept() {
    let home = tempfile::tempdir().unwrap();
    // A process id that is used again, and one of another container: neither tells whether the instance lives.
    let dead = home.path().join(format!("shell/{}-00", std::process::id()));
    make_private_dir(&dead).unwrap();
    private_file(&dead.join(LOCK_NAME)).unwrap();
    let elsewhere = InstanceDir::create(&[home.path().to_path_buf()]).unwrap();
    let foreign = home.path().join("shell/4194303-01");
    fs::rename(&elsewhere.path, &foreign).unwrap();
    let beginning = home.path().join("shell/new-02");
    make_private_dir(&beginning).unwrap();
    let unusable = PathBuf::from("/proc/none");
    let dir = InstanceDir::create(&[unusable, home.path().to_path_buf()]).unwrap();
    assert!(foreign.exists() && beginning.exists(), "both may be of live instances");
    let file = dir.write("x", b"1").unwrap();
    assert_eq!(fs::metadata(&dir.path).unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!dead.exists());
    let path = dir.path.clone();
    drop(dir);
    assert!(!path.exists());
    assert!(InstanceDir::create(&[]).is_err());
}

#[test]
fn a_quote_in_a_path_stays_in_it() {
    assert_eq!(quoted(OsStr::new("/a b'c")), b"'/a b'\\''c'");
}

#[test]
fn a_line_that_goes_on_is_told_and_its_text_is_in_the_form_of_the_history() {
    for (options, key, text, is_joined) in [
        ("", "", "for x in a\ndo false\ndone", false),
        ("", "x\x7f", "for x in a; do false; done", true),
        ("shopt -s lithist\n", "x\x7f", "for x in a\ndo false\ndone", false),
    ] {
        let Some(mut shell) = Shell::start(ShellKind::Bash, options) else { return };
        shell.ready();
        for line in ["for x in a\r", "do false\r"] {
            shell.press(line.as_bytes());
            for mark in shell.wait(|marks| marks.last() == Some(&Mark::Continued)) {
                shell.line.apply_mark(&mark);
            }
            assert_eq!(shell.line.phase, crate::line::Phase::Continued { has_keys: true });
        }
        shell.press(format!("done{key}\r").as_bytes());
        let told = shell.told();
        assert_eq!((told.text.as_deref(), told.is_joined, told.code), (Some(text), is_joined, Some(1)));
    }
}

#[test]
fn the_shell_tells_the_aliases_and_functions_behind_words_without_running_anything() {
    for (kind, start_file, expected) in [
        (
            ShellKind::Bash,
            "alias ll='ls -l'\nmake() { command make \"$@\"; }\nset -u\n",
            &["alias ll='ls -l'", "make ()", "command make \"$@\""][..],
        ),
        (
            ShellKind::Zsh,
            "alias ll='ls -l'\nalias -g none='/dev/null'\nmake() { command make \"$@\"; }\n",
            &["alias ll='ls -l'", "alias -g none=", "make () {", "command make \"$@\""],
        ),
        (
            ShellKind::Fish,
            "function ll; ls -l; end\nabbr -a -- make 'make -j2'\n",
            &["function ll", "ls -l", "'make -j2'", "function own  # may be that of the file /"],
        ),
    ] {
        let Some(mut shell) = Shell::start(kind, start_file) else { continue };
        shell.ready();
        let functions = shell.home.path().join(".config/fish/functions");
        fs::create_dir_all(&functions).unwrap();
        fs::write(functions.join("own.fish"), "touch ~/made\nfunction own; true; end\n").unwrap();
        shell.dir.write("ask", b"ll\nown\nmake\nnone\nls\n$(touch made)\n").unwrap();
        let prompts = shell.line.prompts;
        shell.keys.write_all(b"\x1b[1007179u").unwrap();
        let marks = shell.wait(|marks| matches!(marks.last(), Some(Mark::Definitions(_))));
        let Some(Mark::Definitions(told)) = marks.last() else { panic!("{marks:?}") };
        let told = String::from_utf8_lossy(told);
        assert!(expected.iter().all(|part| told.contains(part)), "{kind}: {told}");
        assert!(!told.contains("ls is") && !shell.home.path().join("made").exists(), "{kind}: {told}");
        assert_eq!(shell.line.prompts, prompts);
        assert_eq!(shell.enter("echo next").text.as_deref(), Some("echo next"), "{kind}");
    }
}

#[test]
fn the_script_for_remote_hosts_gives_hints_and_none_in_a_shell_of_zk() {
    for kind in [ShellKind::Bash, ShellKind::Zsh, ShellKind::Fish] {
        let hints = kind.hints();
        assert!(!hints.contains("1007179") && !hints.contains("1007177"), "no keys: {hints}");
        assert!(!["@LOCAL", "@END", "@NONCE@", "@UNLESS@"].iter().any(|part| hints.contains(part)));
        for (is_remote, unset) in [(true, ""), (false, "export ZK_SHELL=abc\n")] {
            let unset = if kind == ShellKind::Fish {
                unset.replace("export ZK_SHELL=abc", "set -gx ZK_SHELL abc")
            } else {
                unset.to_owned()
            };
            // zsh reads the marks of a local shell before.
            let fresh = if kind == ShellKind::Zsh && is_remote {
                "unset __zk_nonce; precmd_functions=() preexec_functions=()\n"
            } else {
                ""
            };
            let Some(mut shell) = Shell::start(kind, &format!("{fresh}{unset}{hints}")) else { continue };
            if is_remote {
                // The marks of a local shell, which need their own nonce, are left out then.
                shell.scanner = MarkScanner::new("hint");
                shell.wait(|marks| matches!(marks.last(), Some(Mark::Ended { .. } | Mark::Directory(_))));
                let has_ended = |marks: &[Mark]| marks.iter().any(|mark| matches!(mark, Mark::Ended { .. }));
                shell.press(b"sh -c 'exit 4'\r");
                let mut marks = shell.wait(has_ended);
                marks.retain(|mark| !matches!(mark, Mark::Ready { .. }));
                assert!(
                    matches!(marks.first(), Some(Mark::Started { text, .. }) if text == b"sh -c 'exit 4'"),
                    "{kind}: {marks:?}"
                );
                let ended = marks.iter().find(|mark| matches!(mark, Mark::Ended { .. }));
                assert!(matches!(ended, Some(Mark::Ended { code: 4, .. })), "{kind}: {marks:?}");
            } else {
                shell.ready();
                shell.enter("echo one");
                let text = String::from_utf8_lossy(&shell.seen.text).into_owned();
                assert!(!text.contains("7177;hint"), "{kind}: {text}");
            }
        }
    }
}
