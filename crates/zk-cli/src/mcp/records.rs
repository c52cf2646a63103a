use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use tokio::task::JoinHandle;
use zk_core::service::Redactor;
use zk_core::service::StateFiles as _;
use zk_exec::LocalStateFiles;
use zk_mcp::ServerConfig;

use crate::app::AppContext;
use crate::own_files;
use crate::trust::hex;

/// Largest size of a log before it begins anew, in bytes; the one before is kept.
const LOG: u64 = 1 << 20;
/// State of a server that is neither ready nor failed.
const STARTING: &str = "is being started";
/// Length of the part of a digest that tells servers of one name from each other, in bytes.
const KEY: usize = 8;

/// Output of servers, and their states when they were used last, in files for their owner only.
#[derive(Debug)]
pub(crate) struct Records {
    dir: PathBuf,
    redactor: Arc<Redactor>,
    /// The names of the files of servers: another definition, or the same in another project, is another server.
    names: BTreeMap<String, String>,
    /// Whether what a conversation that runs said last is left as it is.
    yields: bool,
    /// Number of times that a record was to be written, by server; held while one is.
    turns: Mutex<BTreeMap<String, u64>>,
}

/// State of a server when it was used last.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Known {
    /// In words.
    pub(crate) state: String,
    /// The process of the program that used it.
    pub(crate) pid: u32,
    /// When, in seconds since 1970.
    pub(crate) at: u64,
}

impl Records {
    /// The records in `dir` of the servers of the settings.
    pub(crate) fn new(dir: PathBuf, app: &AppContext) -> Self {
        Self::of(dir, app.redactor.clone(), &app.project, &app.settings.mcp_servers().0)
    }

    fn of(dir: PathBuf, redactor: Arc<Redactor>, project: &Path, servers: &[ServerConfig]) -> Self {
        let name = |server: &ServerConfig| {
            let mut context = ring::digest::Context::new(&ring::digest::SHA256);
            context.update(server.identity().as_bytes());
            context.update(b"\n");
            context.update(project.as_os_str().as_encoded_bytes());
            let digest = context.finish();
            let digest = hex(digest.as_ref().get(..KEY).unwrap_or_default());
            (server.name.clone(), format!("{}-{digest}", server.name))
        };
        let names = servers.iter().map(name).collect();
        Self { dir, redactor, names, yields: false, turns: Mutex::default() }
    }

    /// Leaves what a conversation that runs said last as it is: for a command that starts servers for itself.
    pub(crate) fn yielding(self) -> Self {
        Self { yields: true, ..self }
    }

    /// The file name of a server's record and log, without extension.
    fn name<'a>(&'a self, server: &'a str) -> &'a str {
        self.names.get(server).map_or(server, String::as_str)
    }

    /// The log of a server.
    pub(crate) fn log_path(&self, server: &str) -> PathBuf {
        self.dir.join("logs").join(format!("{}.log", self.name(server)))
    }

    /// Adds to the log of a server. A log that cannot be written is no reason to stop anything.
    pub(crate) fn log(&self, server: &str, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes);
        let text = self.redactor.redact(&text);
        let _ = self.open(server).and_then(|mut file| file.write_all(text.as_bytes()));
    }

    fn open(&self, server: &str) -> std::io::Result<File> {
        let path = self.log_path(server);
        LocalStateFiles::make_private_dir(&self.dir.join("logs"))?;
        if std::fs::metadata(&path).is_ok_and(|found| found.len() > LOG) {
            std::fs::rename(&path, path.with_extension("log.1"))?;
        }
        own_files::open(&path, OpenOptions::new().append(true).create(true))
    }

    /// Keeps how a server is now.
    pub(crate) fn keep(&self, server: &str, state: &str) {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        *turns.entry(server.to_owned()).or_default() += 1;
        self.write(server, state);
    }

    /// Keeps that a server is being started, beside the thread of the conversation, since a prompt may wait for it. What becomes of
    /// the start is written at once, so that it is there when the program ends.
    pub(crate) fn keep_start(self: &Arc<Self>, server: &str) -> JoinHandle<()> {
        let turn = {
            let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
            let turn = turns.entry(server.to_owned()).or_default();
            *turn += 1;
            *turn
        };
        let (records, server) = (self.clone(), server.to_owned());
        tokio::task::spawn_blocking(move || {
            let turns = records.turns.lock().unwrap_or_else(PoisonError::into_inner);
            // A later state may have been written faster.
            if turns.get(&server) == Some(&turn) {
                records.write(&server, STARTING);
            }
        })
    }

    fn write(&self, server: &str, state: &str) {
        let is_used = |known: Known| known.pid != std::process::id() && known.is_running();
        if self.yields && self.known(server).is_some_and(is_used) {
            return;
        }
        let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let known = Known { state: self.redactor.redact(state).into_owned(), pid: std::process::id(), at };
        let dir = self.dir.join("status");
        if let Ok(text) = serde_json::to_vec(&known) {
            let _ =
                LocalStateFiles::default().replace(&dir.join(format!("{}.json", self.name(server))), &text);
        }
    }

    /// Reads the state of a server when it was used last, if that is known.
    pub(crate) fn known(&self, server: &str) -> Option<Known> {
        let text = own_files::read(
            &self.dir.join("status").join(format!("{}.json", self.name(server))),
            own_files::RECORD,
        )
        .ok()?;
        serde_json::from_slice(&text).ok()
    }
}

impl Known {
    /// In one line: what, and whether the program that used it still runs.
    pub(crate) fn describe(&self) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let minutes = now.saturating_sub(self.at) / 60;
        let state = &self.state;
        if self.is_running() {
            format!("{state} (zk {})", self.pid)
        } else if state == STARTING {
            format!("its start was cut off ({})", ago(minutes))
        } else {
            format!("{state} ({})", ago(minutes))
        }
    }

    /// Whether the program that used it still runs.
    fn is_running(&self) -> bool {
        Path::new(&format!("/proc/{}", self.pid)).exists()
    }
}

fn ago(minutes: u64) -> String {
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

    use super::*;

    /// The records of a project with a server `docs`.
    fn records(dir: &Path, project: &str, command: &str) -> Records {
        let server = ServerConfig::read("docs", &json!({"command": command})).unwrap();
        Records::of(dir.to_owned(), Arc::default(), Path::new(project), &[server])
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
        let dead = Known { pid: u32::MAX, ..known };
        assert_eq!(dead.describe(), "its start was cut off (just now)");
        let late = records.keep_start("docs");
        records.keep("docs", "ready, 3 tools");
        late.await.unwrap();
        assert_eq!(records.known("docs").unwrap().state, "ready, 3 tools");
    }

    #[test]
    fn what_a_conversation_that_runs_says_of_a_server_outlives_commands_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let records = records(dir.path(), "/a", "docs-server").yielding();
        records.keep("docs", "ready, 3 tools");
        assert_eq!(records.known("docs").unwrap().state, "ready, 3 tools");
        let of = |pid: u32| {
            let known = Known { state: "ready in a conversation".to_owned(), pid, at: 0 };
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
