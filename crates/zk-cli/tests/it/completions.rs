use std::path::Path;
use std::process::Stdio;

use zk_testkit::Script;

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
