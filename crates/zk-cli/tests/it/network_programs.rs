//! The usual programs that connect, against real servers on loopback, in each permission mode.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;
use zk_testkit::{CountingHost, FakeServer, Script, Turn};

use crate::network::{end, sandboxed};
use crate::servers::{Packages, bare_repository, has, has_pushed, repository_with_commit, web_server};
use crate::terminal::Terminal;
use crate::zk::{Person, path, server};

/// Commands, the program that each needs, and the file of the project that is there once it worked.
const COMMANDS: [(&str, &[&str], &str, &str); 6] = [
    ("curl", &["--version"], "curl -sS -o got.txt http://HOST/x", "got.txt"),
    ("git", &["http-backend", "-h"], "git push http://HOST/git/x.git main", ""),
    (
        "npm",
        &["--version"],
        "npm install --no-audit --no-fund left-pad",
        "node_modules/left-pad/package.json",
    ),
    ("pip", &["--version"], "pip install -q --target vendor left-pad", "vendor/left_pad.py"),
    (env!("CARGO"), &["--version"], "cargo add left-pad", "added"),
    ("go", &["version"], "go get example.org/left@v1.0.0", "go.sum"),
];

/// Servers and a person whose project uses them.
struct Scene {
    person: Person,
    host: CountingHost,
    repository: PathBuf,
    commit: String,
    commands: Vec<(String, &'static str)>,
    _model: FakeServer,
    _files: tempfile::TempDir,
}

impl Scene {
    fn make() -> Option<Self> {
        if !has("python3", &["--version"]) {
            return None;
        }
        let files = tempfile::tempdir().unwrap();
        let repository = bare_repository(files.path(), "x.git");
        let host = web_server(files.path(), Packages::make(files.path()));
        let at = host.address();
        let is_there = |(program, args, ..): &(&str, &[&str], &str, &str)| {
            // The server of git ends with an error without a request.
            if *program == "git" { has("git", &["--version"]) } else { has(program, args) }
        };
        let commands: Vec<(String, &str)> = COMMANDS
            .iter()
            .filter(|row| is_there(row))
            .map(|(_, _, command, made)| (command.replace("HOST", &at), *made))
            .collect();
        let wanted: Vec<String> = commands.iter().map(|(command, _)| command.clone()).collect();
        let model = server(Script::answering(move |asked| match wanted.get(asked.messages.len() / 2) {
            Some(command) => Turn::new().call("shell", json!({ "command": command })),
            None => Turn::new().text(format!("Told: {:?}.", asked.results())),
        }));
        let bin = Path::new(env!("CARGO")).parent().unwrap().display().to_string();
        let person = sandboxed(&model)?
            .with("PATH", &format!("{bin}:{}", path()))
            .with("PIP_INDEX_URL", &format!("http://{at}/simple"))
            // Go asks no proxy for `localhost` or an address of this machine.
            .with("GOPROXY", &format!("http://go.localhost:{}/go", host.port()))
            .with("GOSUMDB", "off");
        person
            .write(".npmrc", &format!("registry=http://{at}/npm/\n"))
            .write("package.json", "{}\n")
            .write("go.mod", "module x\n\ngo 1.19\n")
            .write("Cargo.toml", "[package]\nname = \"x\"\nversion = \"0.1.0\"\nedition = \"2021\"\n")
            .write("src/lib.rs", "")
            .write(
                ".cargo/config.toml",
                &format!(
                    "[source.crates-io]\nreplace-with = \"near\"\n[source.near]\nregistry = \"sparse+http://{at}/crates/\"\n"
                ),
            );
        let commit = repository_with_commit(&person.project());
        Some(Self { person, host, repository, commit, commands, _model: model, _files: files })
    }

    /// Commands that have done their work.
    fn done(&self) -> Vec<&str> {
        let project = self.person.project();
        let is_done = |made: &str| match made {
            "" => has_pushed(&self.repository, &self.commit),
            "added" => std::fs::read_to_string(project.join("Cargo.toml")).unwrap().contains("left-pad"),
            made => project.join(made).exists(),
        };
        let done = self.commands.iter().filter(|(_, made)| is_done(made));
        done.map(|(command, _)| command.as_str()).collect()
    }

    fn all(&self) -> Vec<&str> {
        self.commands.iter().map(|(command, _)| command.as_str()).collect()
    }
}

/// Agrees to each command once in a mode that asks.
fn works_after_one_yes(mode: &str) {
    let Some(scene) = Scene::make() else { return };
    let refused = scene.person.run(&["-p", "--permission-mode", mode, "go"]);
    assert_eq!((scene.done(), scene.host.connections()), (vec![], 0), "nobody agreed: {}", refused.stdout);
    let Some(mut terminal) = Terminal::open(&scene.person, &format!("--permission-mode {mode} 'go'")) else {
        return;
    };
    for command in scene.all() {
        let shown = terminal.until("y  Yes");
        assert!(shown.contains(&format!(":{}", scene.host.port())), "{command}: {shown}");
        std::thread::sleep(Duration::from_millis(1000));
        terminal.keys("y");
    }
    let told = end(terminal);
    assert_eq!(scene.done(), scene.all(), "{told}");
}

#[test]
fn programs_that_connect_work_after_one_yes_in_the_mode_ask() {
    works_after_one_yes("ask");
}

#[test]
fn programs_that_connect_work_after_one_yes_in_the_mode_accept_edits() {
    works_after_one_yes("accept-edits");
}

#[test]
fn programs_that_connect_work_after_one_yes_in_the_mode_auto() {
    works_after_one_yes("auto");
}

#[test]
fn programs_that_connect_are_refused_where_all_is_read_only_and_work_unasked_in_the_mode_all() {
    let Some(scene) = Scene::make() else { return };
    let refused = scene.person.run(&["-p", "--permission-mode", "read-only", "go"]);
    assert_eq!((scene.done(), scene.host.connections()), (vec![], 0), "{}", refused.stdout);
    let ended = scene.person.run(&["-p", "--permission-mode", "all", "go"]);
    assert_eq!(scene.done(), scene.all(), "{}", ended.stdout);
}
