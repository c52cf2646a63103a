use std::path::PathBuf;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use serde::Serialize;
use zk_core::service::{Clock, Redactor, StateFiles, SystemClock};

/// Maximum number of characters of a query in the log.
const MAX_QUERY_CHARS: usize = 512;

/// Size in bytes above which the log is emptied.
const MAX_LOG_BYTES: u64 = 1 << 20;

/// Reason for which a recall gave the model no fact. Its name in the log is stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MissOutcome {
    /// The prompt has no word to search for.
    NoWords,
    /// No fact has a word of the prompt.
    NoMatch,
    /// All facts that fit are in the context window of the model already.
    AllTold,
    /// No fact that fits is short enough for the budget.
    OverBudget,
    /// The memory cannot be read.
    Error,
}

/// Log of recall misses: redacted queries without a result, as JSON lines. No model reads it.
#[derive(Clone, Debug)]
pub struct MissLog {
    path: PathBuf,
    files: Arc<dyn StateFiles>,
}

#[derive(Serialize)]
struct Miss<'a> {
    time_ms: u64,
    outcome: MissOutcome,
    query: &'a str,
}

impl MissLog {
    /// Log in the file at `path`.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>, files: Arc<dyn StateFiles>) -> Self {
        Self { path: path.into(), files }
    }

    /// Writes a miss on a thread of its own; nobody waits for it, and a failure is ignored.
    pub(crate) fn record(&self, outcome: MissOutcome, prompt: &str, redactor: Option<&Redactor>) {
        // Redacted before it is cut, so that no part of a secret is left.
        let clean =
            redactor.map_or_else(|| prompt.to_owned(), |redactor| redactor.redact(prompt).into_owned());
        let query: String = clean.chars().take(MAX_QUERY_CHARS).collect();
        let log = self.clone();
        tokio::task::spawn_blocking(move || log.write(outcome, &query));
    }

    fn write(&self, outcome: MissOutcome, query: &str) {
        let time = SystemClock.now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let miss = Miss { time_ms: u64::try_from(time.as_millis()).unwrap_or(u64::MAX), outcome, query };
        let Ok(mut line) = serde_json::to_vec(&miss) else { return };
        line.push(b'\n');
        if let Ok(bytes) = self.files.append(&self.path, &line)
            && bytes > MAX_LOG_BYTES
        {
            let _ = self.files.replace(&self.path, &line);
        }
    }
}
