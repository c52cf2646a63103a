//! Commands that need credentials of the person: they ask to run outside, with exactly those.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::path::Path;

use crate::network::{agree, sandboxed, wants};
use crate::servers::{Packages, Sshd, bare_repository, has, has_pushed, repository_with_commit, web_server};
use crate::zk::Person;

/// A push that nobody agreed to does nothing, and one that somebody agreed to arrives; gives what was shown.
fn pushes_after_one_yes(person: &Person, command: &str, repository: &Path, commit: &str) -> Option<String> {
    let told = person.run(&["policy", "test", command]).stdout;
    assert!(told.starts_with("ask (mode auto)"), "{told}");
    assert!(told.contains("it would run in a process of yours, outside of the sandbox"), "{told}");
    for refused in [&["-p", "go"][..], &["-p", "--permission-mode", "read-only", "go"]] {
        person.run(refused);
        assert!(!has_pushed(repository, commit), "{refused:?}");
    }
    let shown = agree(person, "'go'")?;
    assert!(has_pushed(repository, commit), "{shown}");
    Some(shown)
}

#[test]
fn a_push_over_http_asks_to_use_the_credential_helper_of_git_outside() {
    if !has("git", &["--version"]) || !has("python3", &["--version"]) {
        return;
    }
    let files = tempfile::tempdir().unwrap();
    let repository = bare_repository(files.path(), "x.git");
    let host = web_server(files.path(), Packages::make(files.path()));
    let command = format!("git push http://{}/private/x.git main", host.address());
    let model = wants(&command);
    let Some(person) = sandboxed(&model) else { return };
    let commit = repository_with_commit(&person.project());
    let section = format!("[credential \"http://{}\"]\n\thelper = store\n", host.address());
    fs::write(person.home().join(".gitconfig"), section).unwrap();
    let stored = format!("http://me:secret@127.0.0.1%3a{}\n", host.port());
    fs::write(person.home().join(".git-credentials"), stored).unwrap();
    let Some(shown) = pushes_after_one_yes(&person, &command, &repository, &commit) else { return };
    assert!(shown.contains("credentials of yours, which the sandbox hides"), "{shown}");
    assert!(shown.contains("credential helper"), "{shown}");
    // Without a sandbox in the mode that asks about nothing it is a command like others.
    let again = bare_repository(files.path(), "y.git");
    let model = wants(&command.replace("x.git", "y.git"));
    let person = person.with("ANTHROPIC_BASE_URL", &model.url());
    let ended = person.run(&["-p", "--context", "process", "--permission-mode", "all", "go"]);
    assert!(has_pushed(&again, &commit), "{}", ended.stdout);
}

#[test]
fn a_push_over_ssh_asks_to_use_the_agent_of_ssh_outside() {
    let files = tempfile::tempdir().unwrap();
    let Some(sshd) = Sshd::start(files.path()) else { return };
    let repository = bare_repository(files.path(), "x.git");
    let place = repository.display();
    let command = format!("git push ssh://{}@127.0.0.1:{}{place} main", sshd.user, sshd.port);
    let model = wants(&command);
    let Some(person) = sandboxed(&model) else { return };
    let person = person.with("SSH_AUTH_SOCK", sshd.agent_socket.to_str().unwrap());
    let commit = repository_with_commit(&person.project());
    let ssh = format!("[core]\n\tsshCommand = ssh -F none {}\n", sshd.options);
    fs::write(person.home().join(".gitconfig"), ssh).unwrap();
    let Some(shown) = pushes_after_one_yes(&person, &command, &repository, &commit) else { return };
    assert!(shown.contains("keys and agent of ssh"), "{shown}");
}

#[test]
fn ssh_that_needs_no_credential_of_the_person_reaches_its_host_from_the_sandbox() {
    let model = wants("true");
    let Some(person) = sandboxed(&model) else { return };
    let files = person.project().join("deploy");
    fs::create_dir(&files).unwrap();
    let Some(sshd) = Sshd::start(&files) else { return };
    // More than one plain command: it stays in the sandbox, with a key that belongs to the project.
    let place = format!("{}@127.0.0.1", sshd.user);
    let key = sshd.key.display();
    let command = format!(
        "ssh -p {} -i {key} -o IdentitiesOnly=yes {} {place} 'echo through-$((40+2))' && echo over",
        sshd.port, sshd.options
    );
    let model = wants(&command);
    let person = person.with("ANTHROPIC_BASE_URL", &model.url());
    let Some(shown) = agree(&person, "'go'") else { return };
    assert!(shown.contains(&format!("127.0.0.1:{}", sshd.port)), "{shown}");
    assert!(shown.contains("through-42"), "{shown}");
}

#[test]
fn gh_asks_to_use_its_login_outside() {
    if !has("gh", &["--version"]) {
        return;
    }
    let model = wants("gh api user");
    let Some(person) = sandboxed(&model) else { return };
    // A stand-in for GitHub, at a socket that gh is told of.
    let socket = person.home().join("github");
    let listener = UnixListener::bind(&socket).unwrap();
    let (heard, hears) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut head = [0; 4096];
            let read = stream.read(&mut head).unwrap();
            heard.send(String::from_utf8_lossy(&head[..read]).into_owned()).unwrap();
            let body = "{\"login\":\"octo-greeting\"}";
            let length = body.len();
            let answer = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
            );
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    let own = person.home().join(".config/gh");
    fs::create_dir_all(&own).unwrap();
    fs::write(own.join("config.yml"), format!("http_unix_socket: {}\n", socket.display())).unwrap();
    fs::write(own.join("hosts.yml"), "github.com:\n    oauth_token: secret-token\n    user: me\n").unwrap();
    for refused in [&["-p", "go"][..], &["-p", "--permission-mode", "read-only", "go"]] {
        let ended = person.run(refused);
        assert!(hears.try_recv().is_err(), "{refused:?}: {}", ended.stdout);
    }
    for mode in ["auto", "ask", "accept-edits"] {
        let Some(shown) = agree(&person, &format!("--permission-mode {mode} 'go'")) else { return };
        assert!(shown.contains("octo-greeting"), "{mode}: {shown}");
        assert!(hears.recv().unwrap().contains("secret-token"));
    }
    let ended = person.run(&["-p", "--context", "process", "--permission-mode", "all", "go"]);
    assert!(ended.stdout.contains("octo-greeting"), "{}", ended.stdout);
}
