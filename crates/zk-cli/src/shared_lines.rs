//! Lines about messages that left conversations, in a file that all of a person's conversations share.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use zk_compaction::{KeptLine, LineStore, is_read_only_line};
use zk_core::events::SessionStart;
use zk_core::kernel::{BoxError, Cx, Plugin, Scope};
use zk_core::service::{Command, CommandOutcome, Redactor};
use zk_exec::LocalStateFiles;

use crate::own_files;

/// Largest size of the file, in bytes; at half as much again its oldest lines leave.
const LARGEST: u64 = 4 << 20;

/// The most of the file that one look reads, in bytes.
const READ: u64 = 20 << 20;

/// Size of one read, in bytes.
const CHUNK: usize = 64 * 1024;

/// The longest line that counts, in bytes.
const LONGEST: usize = 4096;

/// The file with the lines. Nothing is opened before somebody writes or reads.
///
/// A record is one line of JSON, appended in one write. Processes that append share a lock of the file, one that takes
/// the oldest lines away has it alone; it ends with its process.
#[derive(Clone, Debug)]
pub(crate) struct SharedLines(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    project: String,
    largest: u64,
    writes: AtomicBool,
    redactor: Arc<Redactor>,
    session: Mutex<String>,
}

#[derive(Serialize, Deserialize)]
struct Record {
    time: u64,
    project: String,
    session: String,
    text: String,
}

impl SharedLines {
    /// The lines in `path`: those of `project` are read, and written where `writes`.
    pub(crate) fn new(path: PathBuf, project: &Path, writes: bool, redactor: Arc<Redactor>) -> Self {
        let project = project.to_string_lossy().into_owned();
        let (session, writes) = (Mutex::default(), AtomicBool::new(writes));
        Self(Arc::new(Inner { path, project, largest: LARGEST, writes, redactor, session }))
    }

    fn session(&self) -> String {
        self.0.session.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The file, shared with others that append, to be appended to.
    fn locked(&self) -> io::Result<File> {
        loop {
            let file = own_files::open(&self.0.path, OpenOptions::new().append(true).create(true))?;
            LocalStateFiles::lock_shared(&file)?;
            // Another process may have put a shorter file in its place meanwhile.
            if is_at(&file, &self.0.path) {
                return Ok(file);
            }
        }
    }

    /// Takes the oldest lines away, unless another process is at it.
    fn shorten(&self) -> io::Result<()> {
        let mut file = own_files::open(&self.0.path, OpenOptions::new().read(true))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(()),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        let size = file.metadata()?.len();
        if !is_at(&file, &self.0.path) || size <= self.0.largest + self.0.largest / 2 {
            return Ok(());
        }
        file.seek(SeekFrom::Start(size - self.0.largest))?;
        let mut newest = Vec::new();
        file.read_to_end(&mut newest)?;
        let begin = newest.iter().position(|byte| *byte == b'\n').map_or(newest.len(), |end| end + 1);
        let shorter = self.0.path.with_extension("new");
        // One that a killed process left.
        let _ = std::fs::remove_file(&shorter);
        let mut new = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&shorter)?;
        new.write_all(newest.get(begin..).unwrap_or_default())?;
        std::fs::rename(&shorter, &self.0.path)
    }

    /// The line of a record, unless it is another project's, this conversation's, or none.
    fn line(&self, record: &[u8], session: &str) -> Option<KeptLine> {
        let record: Record = serde_json::from_slice(record).ok().filter(|_| record.len() <= LONGEST)?;
        let is_other = session.is_empty() || record.session != session;
        // One that another version wrote may say what is not kept any more.
        let is_ours = record.project == self.0.project && is_other && !is_read_only_line(&record.text);
        is_ours.then_some(KeptLine { time_ms: record.time, session: record.session, text: record.text })
    }
}

impl LineStore for SharedLines {
    fn append(&self, lines: &[String]) -> io::Result<()> {
        if !self.0.writes.load(Ordering::Relaxed) || lines.is_empty() {
            return Ok(());
        }
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let time = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        let session = self.session();
        let mut records = Vec::new();
        for line in lines {
            let (project, session) = (self.0.project.clone(), session.clone());
            let text = self.0.redactor.redact(line).into_owned();
            serde_json::to_writer(&mut records, &Record { time, project, session, text })?;
            records.push(b'\n');
        }
        if let Some(dir) = self.0.path.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        }
        let mut file = self.locked()?;
        file.write_all(&records)?;
        let size = file.metadata()?.len();
        drop(file);
        if size > self.0.largest + self.0.largest / 2 { self.shorten() } else { Ok(()) }
    }

    fn read(&self, take: &mut dyn FnMut(KeptLine) -> bool) -> io::Result<()> {
        let mut file = match own_files::open(&self.0.path, OpenOptions::new().read(true)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        let session = self.session();
        let mut end = file.metadata()?.len();
        let first = end.saturating_sub(READ);
        // Part of a record that is in later chunks.
        let mut rest: Vec<u8> = Vec::new();
        while end > first {
            let begin = end.saturating_sub(CHUNK as u64).max(first);
            let mut chunk = vec![0; usize::try_from(end - begin).unwrap_or(CHUNK)];
            file.seek(SeekFrom::Start(begin))?;
            file.read_exact(&mut chunk)?;
            chunk.append(&mut rest);
            let mut records = chunk.split(|byte| *byte == b'\n');
            // The first record begins in an earlier chunk, but for the first of the file.
            let cut = records.next().unwrap_or_default().to_vec();
            for record in records.rev() {
                if let Some(line) = self.line(record, &session)
                    && !take(line)
                {
                    return Ok(());
                }
            }
            rest = cut;
            end = begin;
        }
        if first == 0
            && let Some(line) = self.line(&rest, &session)
        {
            take(line);
        }
        Ok(())
    }
}

impl Plugin for SharedLines {
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

/// `/history`: whether lines are written. They are read all the same, and nothing that the model is offered changes.
struct HistoryCommand(SharedLines);

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

/// Whether the opened file is the one at `path`.
fn is_at(file: &File, path: &Path) -> bool {
    let at = std::fs::symlink_metadata(path);
    file.metadata().is_ok_and(|here| at.is_ok_and(|at| (at.dev(), at.ino()) == (here.dev(), here.ino())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(dir: &Path, project: &str, session: &str, largest: u64) -> SharedLines {
        let lines = SharedLines(Arc::new(Inner {
            path: dir.join("state/lines.jsonl"),
            project: project.to_owned(),
            largest,
            writes: AtomicBool::new(true),
            redactor: Arc::default(),
            session: Mutex::default(),
        }));
        *lines.0.session.lock().unwrap() = session.to_owned();
        lines
    }

    fn all(lines: &SharedLines) -> Vec<String> {
        let mut all = Vec::new();
        let mut take = |line: KeptLine| {
            all.push(line.text);
            true
        };
        lines.read(&mut take).unwrap();
        all
    }

    #[test]
    fn lines_of_the_project_come_back_newest_first_and_not_those_of_this_conversation() {
        let dir = tempfile::tempdir().unwrap();
        let (first, other) = (lines(dir.path(), "/a", "s1", LARGEST), lines(dir.path(), "/b", "s2", LARGEST));
        assert!(all(&first).is_empty(), "there is no file yet");
        first.append(&["one ä".to_owned(), "two".to_owned()]).unwrap();
        other.append(&["elsewhere".to_owned()]).unwrap();
        OpenOptions::new()
            .append(true)
            .open(&first.0.path)
            .unwrap()
            .write_all(b"torn {\n\n\xff\xfe\n")
            .unwrap();
        first.append(&["agent: read_file(a.rs)".to_owned(), "three".to_owned()]).unwrap();
        let later = lines(dir.path(), "/a", "s3", LARGEST);
        assert_eq!(all(&later), ["three", "two", "one ä"]);
        assert!(all(&first).is_empty() && all(&other).is_empty());
        let mode = std::fs::metadata(&first.0.path).unwrap().mode() & 0o777;
        assert_eq!(mode, 0o600);
    }

    #[test]
    fn a_file_of_many_chunks_is_read_whole_from_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let written = lines(dir.path(), "/a", "s1", LARGEST);
        let texts: Vec<String> =
            (0..3000).map(|number| format!("{number} {}", "ü".repeat(number % 90))).collect();
        written.append(&texts).unwrap();
        let mut found = all(&lines(dir.path(), "/a", "s2", LARGEST));
        found.reverse();
        assert_eq!(found, texts);
    }

    #[test]
    fn many_writers_lose_nothing_new_and_the_file_stays_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let largest = 20_000;
        std::thread::scope(|scope| {
            for writer in 0..4 {
                let lines = lines(dir.path(), "/a", "s1", largest);
                scope.spawn(move || {
                    for number in 0..200 {
                        lines.append(&[format!("writer {writer} line {number}")]).unwrap();
                    }
                });
            }
        });
        let after = lines(dir.path(), "/a", "s2", largest);
        assert!(std::fs::metadata(&after.0.path).unwrap().len() <= largest * 2);
        let found = all(&after);
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
        let written = lines(dir.path(), "/a", "s1", LARGEST);
        let (command, cx) = (HistoryCommand(written.clone()), zk_core::kernel::Bus::new().cx());
        written.append(&["one".to_owned()]).unwrap();
        command.run(" off ", &cx).await.unwrap();
        written.append(&["two".to_owned()]).unwrap();
        command.run("", &cx).await.unwrap();
        written.append(&["three".to_owned()]).unwrap();
        let later = lines(dir.path(), "/a", "s2", LARGEST);
        assert_eq!(all(&later), ["one"]);
        command.run("on", &cx).await.unwrap();
        written.append(&["four".to_owned()]).unwrap();
        assert_eq!(all(&later), ["four", "one"]);
        assert!(command.run("of", &cx).await.unwrap_err().to_string().contains("`of`"));
    }

    #[test]
    fn secrets_and_a_person_who_wants_no_lines_are_heeded() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lines.jsonl");
        let silent = SharedLines::new(path.clone(), Path::new("/a"), false, Arc::default());
        silent.append(&["one".to_owned()]).unwrap();
        assert!(!path.exists());
        let lines = SharedLines::new(path.clone(), Path::new("/a"), true, Arc::default());
        lines.append(&["key sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789".to_owned()]).unwrap();
        assert!(!std::fs::read_to_string(&path).unwrap().contains("abcdefghijklm"));
    }
}
