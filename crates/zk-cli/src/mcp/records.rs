use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use zk_core::service::Redactor;

use crate::sessions::make_private;
use crate::trust::write_atomically;

/// How large a log becomes before it begins anew; the one before is kept.
const LOG: u64 = 1 << 20;

/// What servers print, and how they were when they were used last, in files for their owner only.
#[derive(Debug)]
pub(crate) struct Records {
    dir: PathBuf,
    redactor: Arc<Redactor>,
}

/// How a server was when it was used last.
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
    pub(crate) fn new(dir: PathBuf, redactor: Arc<Redactor>) -> Self {
        Self { dir, redactor }
    }

    /// The log of a server.
    pub(crate) fn log_path(&self, server: &str) -> PathBuf {
        self.dir.join("logs").join(format!("{server}.log"))
    }

    /// Adds to the log of a server. A log that cannot be written is no reason to stop anything.
    pub(crate) fn log(&self, server: &str, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes);
        let text = self.redactor.redact(&text);
        let _ = self.open(server).and_then(|mut file| file.write_all(text.as_bytes()));
    }

    fn open(&self, server: &str) -> std::io::Result<File> {
        let path = self.log_path(server);
        make_private(&self.dir.join("logs"))?;
        if std::fs::metadata(&path).is_ok_and(|found| found.len() > LOG) {
            std::fs::rename(&path, path.with_extension("log.1"))?;
        }
        OpenOptions::new().append(true).create(true).mode(0o600).open(path)
    }

    /// Keeps how a server is now.
    pub(crate) fn keep(&self, server: &str, state: &str) {
        let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let known = Known { state: self.redactor.redact(state).into_owned(), pid: std::process::id(), at };
        let dir = self.dir.join("status");
        let kept = serde_json::to_vec(&known).map_err(std::io::Error::from);
        let _ = kept.and_then(|text| {
            make_private(&dir)?;
            write_atomically(&dir.join(format!("{server}.json")), &dir, &text)
        });
    }

    /// The same for a command that starts servers for itself: what a conversation that runs said last is left as it is.
    pub(crate) fn keep_unless_used(&self, server: &str, state: &str) {
        let is_used = |known: Known| known.pid != std::process::id() && known.is_running();
        if !self.known(server).is_some_and(is_used) {
            self.keep(server, state);
        }
    }

    /// How a server was when it was used last, if that is known.
    pub(crate) fn known(&self, server: &str) -> Option<Known> {
        let text = std::fs::read(self.dir.join("status").join(format!("{server}.json"))).ok()?;
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
        } else {
            format!("{state} ({})", ago(minutes))
        }
    }

    /// Whether the program that used it still runs.
    fn is_running(&self) -> bool {
        std::path::Path::new(&format!("/proc/{}", self.pid)).exists()
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
    use super::*;

    #[test]
    fn what_a_conversation_that_runs_says_of_a_server_outlives_commands_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let records = Records::new(dir.path().to_owned(), Arc::default());
        records.keep_unless_used("docs", "ready, 3 tools");
        assert_eq!(records.known("docs").unwrap().state, "ready, 3 tools");
        let of = |pid: u32| {
            let known = Known { state: "ready in a conversation".to_owned(), pid, at: 0 };
            let path = dir.path().join("status/docs.json");
            std::fs::write(path, serde_json::to_vec(&known).unwrap()).unwrap();
        };
        // The first process of a machine always runs.
        of(1);
        records.keep_unless_used("docs", "failed");
        assert_eq!(records.known("docs").unwrap().describe(), "ready in a conversation (zk 1)");
        of(u32::MAX);
        records.keep_unless_used("docs", "failed");
        assert_eq!(records.known("docs").unwrap().state, "failed");
    }
}
