use std::path::Path;
use std::process::Stdio;

use zk_testkit::Script;

use crate::terminal::Terminal;
use crate::zk::{Person, path, program, server};

/// Returns the words that a shell completes for a command line; `None` without this shell.
fn offered(person: &Person, shell: &str, words: &[&str]) -> Option<String> {
    let (last, quoted) = (words.last()?, words.join(" "));
    let bin = program().parent()?.display();
    let line = match shell {
        "bash" => format!(
            "PATH={bin}:$PATH; source <(zk completions bash); COMP_WORDS=({quoted}); COMP_CWORD={}; COMP_TYPE=9; \
             _clap_complete_zk zk '{last}' x; echo \"${{COMPREPLY[@]}}\"",
            words.len() - 1
        ),
        "fish" => format!("set PATH {bin} $PATH; zk completions fish | source; complete -C '{quoted}'"),
        _ => return None,
    };
    let found = path().split(':').map(|dir| Path::new(dir).join(shell)).find(|shell| shell.is_file());
    let Some(found) = found else {
        println!("skipped: no {shell} here");
        return None;
    };
    let ran = person.spawn(&found, &["-c", &line], Stdio::null()).wait_with_output().unwrap();
    Some(String::from_utf8_lossy(&ran.stdout).into_owned())
}

#[test]
fn real_shells_complete_a_command_a_value_and_a_session() {
    let server = server(Script::new().turn(|turn| turn.text("Done.")));
    let person = Person::asking(&server);
    let ended = person.run(&["-p", "begin", "--output-format", "json"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let id = ended.result()["session_id"].as_str().unwrap().to_owned();
    for shell in ["bash", "fish"] {
        let Some(found) = offered(&person, shell, &["zk", "sess"]) else { continue };
        assert!(found.contains("sessions"), "{shell}: {found}");
        let found = offered(&person, shell, &["zk", "--permission-mode", "acc"]).unwrap();
        assert!(found.contains("accept-edits"), "{shell}: {found}");
        let found = offered(&person, shell, &["zk", "sessions", "show", id.get(..4).unwrap()]).unwrap();
        assert!(found.contains(&id), "{shell}: {found}");
    }
}

/// Line that the first Tab of a new zsh makes of `line`, with the script in a directory of `fpath`; `None` without zsh.
fn completed_by_first_tab(person: &Person, line: &str) -> Option<String> {
    let is_there = path().split(':').any(|dir| Path::new(dir).join("zsh").is_file());
    if !is_there {
        println!("skipped: no zsh here");
        return None;
    }
    let dir = tempfile::tempdir().unwrap();
    let script = person.run(&["completions", "zsh"]).stdout;
    std::fs::create_dir(dir.path().join("functions")).unwrap();
    std::fs::write(dir.path().join("functions/_zk"), script).unwrap();
    let start = format!(
        "path=({} $path)\nfpath=({}/functions $fpath)\nautoload -U compinit\ncompinit -D -u\n\
         show() {{ zle -I; print -r -- \"<$BUFFER>\" }}\nzle -N show\nbindkey '^I' complete-word\n\
         bindkey '^X' show\nPS1='ready'\n",
        program().parent()?.display(),
        dir.path().display()
    );
    std::fs::write(dir.path().join(".zshrc"), start).unwrap();
    let mut terminal =
        Terminal::run(person, &format!("exec env TERM=dumb ZDOTDIR={} zsh -d -i", dir.path().display()))?;
    terminal.expect("ready");
    terminal.keys(&format!("{line}\t\u{18}"));
    terminal.expect("<");
    Some(terminal.until(">"))
}

#[test]
fn first_tab_of_zsh_completes_a_command_a_value_and_a_session() {
    let server = server(Script::new().turn(|turn| turn.text("Done.")));
    let person = Person::asking(&server);
    let ended = person.run(&["-p", "begin", "--output-format", "json"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let id = ended.result()["session_id"].as_str().unwrap().to_owned();
    for (line, expected) in [
        ("zk sess".to_owned(), "zk sessions".to_owned()),
        ("zk --permission-mode acc".to_owned(), "zk --permission-mode accept-edits".to_owned()),
        (format!("zk sessions show {}", id.get(..4).unwrap()), format!("zk sessions show {id}")),
    ] {
        let Some(found) = completed_by_first_tab(&person, &line) else { return };
        assert_eq!(found.trim_end(), expected);
    }
}

#[test]
fn every_shell_has_a_script_and_manual_pages_have_every_command() {
    let person = Person::new();
    for shell in ["bash", "zsh", "fish", "powershell", "nushell"] {
        let ended = person.run(&["completions", shell]);
        assert!(ended.code == 0 && ended.stdout.contains("zk"), "{shell}: {}", ended.stderr);
    }
    let dir = tempfile::tempdir().unwrap();
    let ended = person.run(&["debug", "man", dir.path().to_str().unwrap()]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    for (page, word) in [("zk.1", "EXIT"), ("zk-sessions-show.1", "session"), ("zk-completions.1", "shell")] {
        let text = std::fs::read_to_string(dir.path().join(page)).unwrap();
        assert!(text.contains(".TH") && text.to_lowercase().contains(&word.to_lowercase()), "{page}: {text}");
    }
}
