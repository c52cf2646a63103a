use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use assert_cmd::Command;
use serde_json::Value;
use zk_testkit::{FakeServer, Script};

/// Time limit of every wait, far longer than needed, for a busy machine.
pub(crate) const LONG: Duration = Duration::from_secs(20);

/// Person with a home, a project and the environment of the program.
pub(crate) struct Person {
    temp: tempfile::TempDir,
    vars: Vec<(String, String)>,
}

/// Exit code and output of the program.
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    /// The JSON objects on standard output, one a line.
    pub(crate) fn lines(&self) -> Vec<Value> {
        self.stdout
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
            .collect()
    }

    /// Returns the last JSON object, which must be a result.
    pub(crate) fn result(&self) -> Value {
        let last = self.lines().pop().unwrap_or_else(|| panic!("no result: {}", self.stderr));
        assert_eq!(last["type"], "result", "{last}");
        last
    }
}

impl Person {
    /// Creates a person without a key.
    pub(crate) fn new() -> Self {
        let temp = tempfile::tempdir().unwrap();
        std::fs::create_dir(temp.path().join("home")).unwrap();
        std::fs::create_dir(temp.path().join("project")).unwrap();
        Self { temp, vars: Vec::new() }
    }

    /// Creates a person whose Anthropic requests go to `server`.
    pub(crate) fn asking(server: &FakeServer) -> Self {
        Self::new().with("ANTHROPIC_BASE_URL", &server.url()).with("ANTHROPIC_API_KEY", "test-key")
    }

    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.vars.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The project's directory, canonical as the program shows it.
    pub(crate) fn project(&self) -> PathBuf {
        self.temp.path().canonicalize().unwrap().join("project")
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.temp.path().join("home")
    }

    pub(crate) fn write(&self, path: &str, text: &str) -> &Self {
        let path = self.project().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        self
    }

    pub(crate) fn settings(&self, text: &str) -> &Self {
        std::fs::write(self.home().join("settings.toml"), text).unwrap();
        self
    }

    fn vars(&self) -> Vec<(String, String)> {
        let home = self.home();
        let home = home.to_str().unwrap();
        let mut vars: Vec<(String, String)> = vec![
            ("PATH".into(), path()),
            ("HOME".into(), home.into()),
            ("ZK_HOME".into(), home.into()),
            ("TERM".into(), "xterm".into()),
            // As on a machine without a sandbox; a test of the sandbox says otherwise.
            ("ZK_CONTEXT".into(), "process".into()),
            // Most tests read lines; a test of a drawn screen asks for it.
            ("ZK_SCREEN".into(), "plain".into()),
        ];
        vars.extend(self.vars.iter().cloned());
        vars
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ended {
        self.run_with(args, "")
    }

    /// Runs the program to its end with this text on standard input.
    pub(crate) fn run_with(&self, args: &[&str], stdin: &str) -> Ended {
        let mut command = Command::new(program());
        command.env_clear().envs(self.vars()).current_dir(self.project()).args(args).timeout(LONG);
        if !stdin.is_empty() {
            command.write_stdin(stdin);
        }
        let output = command.output().unwrap();
        Ended {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Starts `program` in the project, with pipes at all three ends.
    #[expect(clippy::disallowed_methods, reason = "the program is run from outside")]
    pub(crate) fn spawn(&self, program: &Path, args: &[&str], stdin: Stdio) -> Child {
        std::process::Command::new(program)
            .env_clear()
            .envs(self.vars())
            .current_dir(self.project())
            .args(args)
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }
}

pub(crate) fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_zk"))
}

#[expect(clippy::disallowed_methods, reason = "the commands the program runs are found as usual")]
pub(crate) fn path() -> String {
    std::env::var("PATH").unwrap_or_else(|_| "/usr/bin:/bin".to_owned())
}

pub(crate) fn server(script: Script) -> FakeServer {
    FakeServer::start(script).unwrap()
}

/// Waits until `done` holds, for at most [`LONG`].
pub(crate) fn until(what: &str, mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < LONG, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(5));
    }
}
