//! Line file: lines about omitted messages, shared by all of a person's conversations.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use zk_core::events::SessionStart;
use zk_core::kernel::{BoxError, Cx, Plugin, Scope};
use zk_core::service::{Command, CommandOutcome, Redactor, StateFileError, StateFiles};

use crate::store::line_store::{KeptLine, LineStore, is_read_only_line};

/// Size in bytes to which the file is trimmed when it is half as large again; the oldest lines are dropped.
const SHORTENED_FILE_BYTES: usize = 4 << 20;

/// Size in bytes above which the file is not read.
const MAX_FILE_BYTES: usize = 20 << 20;

/// Longest record, in bytes; longer ones are ignored.
const MAX_RECORD_BYTES: usize = 4096;

/// [`LineStore`] in one file for all conversations of a person, with the command `/history`.
///
/// The file is opened on the first read or write. A record is one line of JSON, appended in one write.
/// Writing processes take turns through a lock of [`StateFiles`], which ends with its process.
#[derive(Clone, Debug)]
pub struct LineFile(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    project: String,
    largest: usize,
    writes: AtomicBool,
    redactor: Arc<Redactor>,
    files: Arc<dyn StateFiles>,
    session: Mutex<String>,
}

#[derive(Serialize, Deserialize)]
struct Record {
    time: u64,
    project: String,
    session: String,
    text: String,
}

impl LineFile {
    /// Line file at `path` that reads and writes lines of `project`; `writes` says whether it starts with
    /// writing enabled.
    #[must_use]
    pub fn new(
        path: PathBuf,
        project: &Path,
        writes: bool,
        redactor: Arc<Redactor>,
        files: Arc<dyn StateFiles>,
    ) -> Self {
        let project = project.to_string_lossy().into_owned();
        let (session, writes) = (Mutex::default(), AtomicBool::new(writes));
        let largest = SHORTENED_FILE_BYTES;
        Self(Arc::new(Inner { path, project, largest, writes, redactor, files, session }))
    }

    fn current_session(&self) -> String {
        self.0.session.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn read_bytes(&self) -> io::Result<Option<Vec<u8>>> {
        self.0.files.read(&self.0.path, MAX_FILE_BYTES).map_err(StateFileError::into_io)
    }

    /// Drops the oldest lines. The caller holds the lock.
    fn shorten(&self) -> io::Result<()> {
        let bytes = self.read_bytes()?.unwrap_or_default();
        let newest = bytes.get(bytes.len().saturating_sub(self.0.largest)..).unwrap_or_default();
        let begin = newest.iter().position(|byte| *byte == b'\n').map_or(newest.len(), |end| end + 1);
        let newest = newest.get(begin..).unwrap_or_default();
        self.0.files.replace(&self.0.path, newest).map_err(StateFileError::into_io)
    }

    /// Parses the line of a record; `None` for other projects, this conversation, or invalid records.
    fn parse_line(&self, record: &[u8], session: &str) -> Option<KeptLine> {
        let record: Record =
            serde_json::from_slice(record).ok().filter(|_| record.len() <= MAX_RECORD_BYTES)?;
        let is_other = session.is_empty() || record.session != session;
        // A record of another version may concern removed calls.
        let is_ours = record.project == self.0.project && is_other && !is_read_only_line(&record.text);
        is_ours.then_some(KeptLine { time_ms: record.time, session: record.session, text: record.text })
    }
}

impl LineStore for LineFile {
    fn append(&self, lines: &[String]) -> io::Result<()> {
        if !self.0.writes.load(Ordering::Relaxed) || lines.is_empty() {
            return Ok(());
        }
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let time = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        let session = self.current_session();
        let mut records = Vec::new();
        for line in lines {
            let (project, session) = (self.0.project.clone(), session.clone());
            let text = self.0.redactor.redact(line).into_owned();
            serde_json::to_writer(&mut records, &Record { time, project, session, text })?;
            records.push(b'\n');
        }
        let lock = self.0.files.lock(&self.0.path).map_err(StateFileError::into_io)?;
        let size = self.0.files.append(&self.0.path, &records).map_err(StateFileError::into_io)?;
        if size > (self.0.largest + self.0.largest / 2) as u64 {
            self.shorten()?;
        }
        drop(lock);
        Ok(())
    }

    fn read(&self, take: &mut dyn FnMut(KeptLine) -> bool) -> io::Result<()> {
        let Some(bytes) = self.read_bytes()? else { return Ok(()) };
        let session = self.current_session();
        for record in bytes.rsplit(|byte| *byte == b'\n') {
            if let Some(line) = self.parse_line(record, &session)
                && !take(line)
            {
                break;
            }
        }
        Ok(())
    }
}

impl Plugin for LineFile {
    fn name(&self) -> &'static str {
        "shared-lines"
    }

    fn register(&self, scope: &Scope) -> Result<(), BoxError> {
        let lines = self.clone();
        scope.on_sync(move |start: &SessionStart, _: &Cx| {
            let session = start.session_id.as_ref().map(ToString::to_string);
            *lines.0.session.lock().unwrap_or_else(PoisonError::into_inner) = session.unwrap_or_default();
        });
        scope.provide_service::<dyn LineStore>(Arc::new(self.clone()));
        scope.provide::<dyn Command>("history", Arc::new(HistoryCommand(self.clone())))?;
        Ok(())
    }
}

/// Command `/history`: switches the writing of lines on or off. Reading, and the tools of the model, are not
/// affected.
struct HistoryCommand(LineFile);

#[async_trait]
impl Command for HistoryCommand {
    fn name(&self) -> &str {
        "history"
    }

    fn help(&self) -> &str {
        "keep lines of this conversation for later ones, or not: /history [on|off]"
    }

    async fn run(&self, args: &str, _: &Cx) -> Result<CommandOutcome, BoxError> {
        let writes = &self.0.0.writes;
        match args.trim() {
            "" => {}
            "on" => writes.store(true, Ordering::Relaxed),
            "off" => writes.store(false, Ordering::Relaxed),
            other => return Err(format!("`{other}` is neither `on` nor `off`").into()),
        }
        let text = if writes.load(Ordering::Relaxed) {
            "lines of this conversation are kept for later ones; /history off keeps no more"
        } else {
            "no more lines of this conversation are kept; those that are stay, and are found; \
             `compaction.shared_lines = false` in the settings keeps none at all"
        };
        Ok(CommandOutcome::Show(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::io::Write;
    use std::os::unix::fs::MetadataExt;

    use zk_exec::LocalStateFiles;

    use super::*;

    fn line_file(dir: &Path, project: &str, session: &str, largest: usize) -> LineFile {
        let lines = LineFile(Arc::new(Inner {
            path: dir.join("state/lines.jsonl"),
            project: project.to_owned(),
            largest,
            writes: AtomicBool::new(true),
            redactor: Arc::default(),
            files: Arc::new(LocalStateFiles::default()),
            session: Mutex::default(),
        }));
        *lines.0.session.lock().unwrap() = session.to_owned();
        lines
    }

    fn all_lines(lines: &LineFile) -> Vec<String> {
        let mut all = Vec::new();
        let mut take = |line: KeptLine| {
            all.push(line.text);
            true
        };
        lines.read(&mut take).unwrap();
        all
    }

    #[test]
    fn lines_of_other_conversations_of_the_project_are_read_newest_first() {
        let dir = tempfile::tempdir().unwrap();
        let (first, other) = (
            line_file(dir.path(), "/a", "s1", SHORTENED_FILE_BYTES),
            line_file(dir.path(), "/b", "s2", SHORTENED_FILE_BYTES),
        );
        assert!(all_lines(&first).is_empty(), "there is no file yet");
        first.append(&["one ä".to_owned(), "two".to_owned()]).unwrap();
        other.append(&["elsewhere".to_owned()]).unwrap();
        OpenOptions::new()
            .append(true)
            .open(&first.0.path)
            .unwrap()
            .write_all(b"torn {\n\n\xff\xfe\n")
            .unwrap();
        first.append(&["agent: read_file(a.rs)".to_owned(), "three".to_owned()]).unwrap();
        let later = line_file(dir.path(), "/a", "s3", SHORTENED_FILE_BYTES);
        assert_eq!(all_lines(&later), ["three", "two", "one ä"]);
        assert!(all_lines(&first).is_empty() && all_lines(&other).is_empty());
        let mode = std::fs::metadata(&first.0.path).unwrap().mode() & 0o777;
        assert_eq!(mode, 0o600);
    }

    #[test]
    fn many_lines_are_read_whole_the_newest_first() {
        let dir = tempfile::tempdir().unwrap();
        let written = line_file(dir.path(), "/a", "s1", SHORTENED_FILE_BYTES);
        let texts: Vec<String> =
            (0..3000).map(|number| format!("{number} {}", "ü".repeat(number % 90))).collect();
        written.append(&texts).unwrap();
        let mut found = all_lines(&line_file(dir.path(), "/a", "s2", SHORTENED_FILE_BYTES));
        found.reverse();
        assert_eq!(found, texts);
    }

    #[test]
    fn many_writers_lose_nothing_new_and_the_file_stays_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let largest = 20_000;
        std::thread::scope(|scope| {
            for writer in 0..4 {
                let lines = line_file(dir.path(), "/a", "s1", largest);
                scope.spawn(move || {
                    for number in 0..200 {
                        lines.append(&[format!("writer {writer} line {number}")]).unwrap();
                    }
                });
            }
        });
        let after = line_file(dir.path(), "/a", "s2", largest);
        assert!(std::fs::metadata(&after.0.path).unwrap().len() <= largest as u64 * 2);
        let found = all_lines(&after);
        for writer in 0..4 {
            let last = format!("writer {writer} line 199");
            let newest = found.iter().find(|line| line.starts_with(&format!("writer {writer} ")));
            assert!(newest.is_none_or(|line| *line == last), "{newest:?}");
        }
        let whole: std::collections::BTreeSet<&String> = found.iter().collect();
        assert!(whole.len() == found.len() && found.len() > 100, "{} lines", found.len());
    }

    #[tokio::test]
    async fn history_off_writes_no_more_lines_and_reads_those_there_are() {
        let dir = tempfile::tempdir().unwrap();
        let written = line_file(dir.path(), "/a", "s1", SHORTENED_FILE_BYTES);
        let (command, cx) = (HistoryCommand(written.clone()), zk_core::kernel::Bus::new().cx());
        written.append(&["one".to_owned()]).unwrap();
        command.run(" off ", &cx).await.unwrap();
        written.append(&["two".to_owned()]).unwrap();
        command.run("", &cx).await.unwrap();
        written.append(&["three".to_owned()]).unwrap();
        let later = line_file(dir.path(), "/a", "s2", SHORTENED_FILE_BYTES);
        assert_eq!(all_lines(&later), ["one"]);
        command.run("on", &cx).await.unwrap();
        written.append(&["four".to_owned()]).unwrap();
        assert_eq!(all_lines(&later), ["four", "one"]);
        assert!(command.run("of", &cx).await.unwrap_err().to_string().contains("`of`"));
    }

    #[test]
    fn secrets_are_redacted_and_nothing_is_written_once_switched_off() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lines.jsonl");
        let files = || Arc::new(LocalStateFiles::default());
        let silent = LineFile::new(path.clone(), Path::new("/a"), false, Arc::default(), files());
        silent.append(&["one".to_owned()]).unwrap();
        assert!(!path.exists());
        let lines = LineFile::new(path.clone(), Path::new("/a"), true, Arc::default(), files());
        lines.append(&["key sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789".to_owned()]).unwrap();
        assert!(!std::fs::read_to_string(&path).unwrap().contains("abcdefghijklm"));
    }
}
