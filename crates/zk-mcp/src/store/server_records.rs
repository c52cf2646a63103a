use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use tokio::task::JoinHandle;
use zk_core::service::{Redactor, StateFileError, StateFiles};

use crate::config::canonical::sha256_hex;
use crate::config::server_config::ServerConfig;

/// Size at which a log is rotated, in bytes; one old log is kept.
const MAX_LOG_BYTES: u64 = 1 << 20;
/// Size limit of a record in bytes.
const MAX_RECORD_BYTES: usize = 1 << 20;
/// Recorded state of a server that is neither ready nor failed.
const STARTING: &str = "is being started";
/// Length of the digest in file names that distinguishes servers of the same name, in hexadecimal digits.
const KEY_HEX_DIGITS: usize = 16;

/// Logs of servers and their last known states, in files for their owner only.
#[derive(Debug)]
pub struct ServerRecords {
    dir: PathBuf,
    redactor: Arc<Redactor>,
    files: Arc<dyn StateFiles>,
    /// File names of the servers' records: a server with another definition or project has other files.
    names: BTreeMap<String, String>,
    /// Whether states recorded by a running conversation are kept.
    yields: bool,
    /// Number of writes of a record, by server; locked while one is written.
    turns: Mutex<BTreeMap<String, u64>>,
}

/// Last known state of a server.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownState {
    /// State as text.
    pub state: String,
    /// Process id of the program that used the server.
    pub pid: u32,
    /// Time of the state in seconds since 1970.
    pub at: u64,
}

impl ServerRecords {
    /// Creates records in the directory `dir` for `servers` of `project`. All text is redacted before it is
    /// written.
    #[must_use]
    pub fn new(
        dir: PathBuf,
        project: &Path,
        servers: &[ServerConfig],
        redactor: Arc<Redactor>,
        files: Arc<dyn StateFiles>,
    ) -> Self {
        let name = |server: &ServerConfig| {
            let project = project.as_os_str().as_encoded_bytes();
            let digest = sha256_hex(&[server.identity().as_bytes(), b"\n", project].concat());
            let key: String = digest.chars().take(KEY_HEX_DIGITS).collect();
            (server.name.clone(), format!("{}-{key}", server.name))
        };
        let names = servers.iter().map(name).collect();
        Self { dir, redactor, files, names, yields: false, turns: Mutex::default() }
    }

    /// Keeps states recorded by a running conversation, for a command that starts servers temporarily.
    #[must_use]
    pub fn yield_to_conversations(self) -> Self {
        Self { yields: true, ..self }
    }

    /// Returns the file name of a server's record and log, without extension.
    fn name<'a>(&'a self, server: &'a str) -> &'a str {
        self.names.get(server).map_or(server, String::as_str)
    }

    /// Returns the path of a server's log.
    #[must_use]
    pub fn log_path(&self, server: &str) -> PathBuf {
        self.dir.join("logs").join(format!("{}.log", self.name(server)))
    }

    /// Appends to a server's log. Failures are ignored.
    pub fn log(&self, server: &str, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes);
        let _ = self.append_to_log(server, &self.redactor.redact(&text));
    }

    fn append_to_log(&self, server: &str, text: &str) -> Result<(), StateFileError> {
        let path = self.log_path(server);
        if std::fs::metadata(&path).is_ok_and(|found| found.len() > MAX_LOG_BYTES) {
            let failed = |source| StateFileError::Io { doing: "rename", path: path.clone(), source };
            std::fs::rename(&path, path.with_extension("log.1")).map_err(failed)?;
        }
        self.files.append(&path, text.as_bytes()).map(drop)
    }

    /// Records the current state of a server.
    pub fn keep(&self, server: &str, state: &str) {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        *turns.entry(server.to_owned()).or_default() += 1;
        self.write(server, state);
    }

    /// Records in the background that a server is starting, since a prompt may be waiting for it. The result
    /// of the start is recorded synchronously, so that it is written before the program ends.
    pub fn keep_start(self: &Arc<Self>, server: &str) -> JoinHandle<()> {
        let turn = {
            let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
            let turn = turns.entry(server.to_owned()).or_default();
            *turn += 1;
            *turn
        };
        let (records, server) = (self.clone(), server.to_owned());
        tokio::task::spawn_blocking(move || {
            let turns = records.turns.lock().unwrap_or_else(PoisonError::into_inner);
            // A later state may have been written before.
            if turns.get(&server) == Some(&turn) {
                records.write(&server, STARTING);
            }
        })
    }

    fn write(&self, server: &str, state: &str) {
        let is_used = |known: KnownState| known.pid != std::process::id() && known.is_running();
        if self.yields && self.known(server).is_some_and(is_used) {
            return;
        }
        let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let known =
            KnownState { state: self.redactor.redact(state).into_owned(), pid: std::process::id(), at };
        let dir = self.dir.join("status");
        if let Ok(text) = serde_json::to_vec(&known) {
            let _ = self.files.replace(&dir.join(format!("{}.json", self.name(server))), &text);
        }
    }

    /// Reads the last known state of a server.
    #[must_use]
    pub fn known(&self, server: &str) -> Option<KnownState> {
        let path = self.dir.join("status").join(format!("{}.json", self.name(server)));
        let text = self.files.read(&path, MAX_RECORD_BYTES).ok().flatten()?;
        serde_json::from_slice(&text).ok()
    }
}

impl KnownState {
    /// Describes the state in one line, and whether the program that used the server is still running.
    #[must_use]
    pub fn describe(&self) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let minutes = now.saturating_sub(self.at) / 60;
        let state = &self.state;
        if self.is_running() {
            format!("{state} (zk {})", self.pid)
        } else if state == STARTING {
            format!("its start was cut off ({})", format_age(minutes))
        } else {
            format!("{state} ({})", format_age(minutes))
        }
    }

    /// Whether the program that used the server is still running.
    fn is_running(&self) -> bool {
        Path::new(&format!("/proc/{}", self.pid)).exists()
    }
}

fn format_age(minutes: u64) -> String {
    match minutes {
        0 => "just now".to_owned(),
        1..60 => format!("{minutes} min ago"),
        60..2880 => format!("{} h ago", minutes / 60),
        _ => format!("{} days ago", minutes / 1440),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use zk_exec::LocalStateFiles;

    use super::*;

    /// The records of a project with a server `docs`.
    fn records(dir: &Path, project: &str, command: &str) -> ServerRecords {
        let server = ServerConfig::read("docs", &json!({"command": command})).unwrap();
        let files = Arc::new(LocalStateFiles::default());
        ServerRecords::new(dir.to_owned(), Path::new(project), &[server], Arc::default(), files)
    }

    #[test]
    fn a_server_of_another_project_or_definition_has_records_of_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let own = records(dir.path(), "/a", "docs-server");
        own.keep("docs", "ready, 3 tools");
        own.log("docs", b"hello");
        assert!(records(dir.path(), "/a", "docs-server").known("docs").is_some());
        for (project, command) in [("/b", "docs-server"), ("/a", "other-server")] {
            let other = records(dir.path(), project, command);
            assert_eq!(other.known("docs"), None, "{project} {command}");
            assert!(!other.log_path("docs").exists(), "{project} {command}");
        }
    }

    #[tokio::test]
    async fn a_start_is_kept_unless_its_end_was_faster() {
        let dir = tempfile::tempdir().unwrap();
        let records = Arc::new(records(dir.path(), "/a", "docs-server"));
        records.keep_start("docs").await.unwrap();
        let known = records.known("docs").unwrap();
        assert_eq!(known.describe(), format!("is being started (zk {})", std::process::id()));
        let dead = KnownState { pid: u32::MAX, ..known };
        assert_eq!(dead.describe(), "its start was cut off (just now)");
        let late = records.keep_start("docs");
        records.keep("docs", "ready, 3 tools");
        late.await.unwrap();
        assert_eq!(records.known("docs").unwrap().state, "ready, 3 tools");
    }

    #[test]
    fn what_a_conversation_that_runs_says_of_a_server_outlives_commands_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let records = records(dir.path(), "/a", "docs-server").yield_to_conversations();
        records.keep("docs", "ready, 3 tools");
        assert_eq!(records.known("docs").unwrap().state, "ready, 3 tools");
        let of = |pid: u32| {
            let known = KnownState { state: "ready in a conversation".to_owned(), pid, at: 0 };
            let path = dir.path().join("status").join(format!("{}.json", records.name("docs")));
            std::fs::write(path, serde_json::to_vec(&known).unwrap()).unwrap();
        };
        // The first process of a machine always runs.
        of(1);
        records.keep("docs", "failed");
        assert_eq!(records.known("docs").unwrap().describe(), "ready in a conversation (zk 1)");
        of(u32::MAX);
        records.keep("docs", "failed");
        assert_eq!(records.known("docs").unwrap().state, "failed");
    }
}
