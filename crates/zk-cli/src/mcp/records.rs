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
        if std::path::Path::new(&format!("/proc/{}", self.pid)).exists() {
            format!("{state} (zk {})", self.pid)
        } else {
            format!("{state} ({} ago)", ago(minutes))
        }
    }
}

fn ago(minutes: u64) -> String {
    match minutes {
        0..60 => format!("{minutes} min"),
        60..2880 => format!("{} h", minutes / 60),
        _ => format!("{} days", minutes / 1440),
    }
}
