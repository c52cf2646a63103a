use std::io::{Cursor, Read};
use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use super::wire::{Client, Peer};
use serde_json::{Value, json};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use zk_core::kernel::{BoxError, Plugin, Scope};
use zk_core::service::{
    CachedFile, FileStat, FileWatch, Files, OnChange, PathError, Resolved, SearchFound, SearchQuery,
    WalkEntry, WalkOptions, WalkReport, WriteReceipt,
};

/// Longest wait for the editor's answer about one file. After it, the text on disk is used.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// Maximum size of a file in bytes for which the editor is asked.
const MAX_BUFFER_BYTES: u64 = 5 << 20;

/// Access to the editor's unsaved texts of a session.
#[derive(Clone, Debug)]
pub(super) struct Buffers {
    peer: Arc<Peer>,
    client: Client,
    handle: Handle,
    session: Arc<str>,
}

impl Buffers {
    pub(super) fn new(peer: Arc<Peer>, client: Client, session: Arc<str>) -> Self {
        Self { peer, client, handle: Handle::current(), session }
    }

    fn reads(&self) -> bool {
        self.client.reads_files
    }

    /// Requests the editor's text of a file; `None` on an error or a time-out.
    fn text(&self, path: &Path) -> Option<String> {
        let answer = self.request_file("fs/read_text_file", path, None)?;
        answer.get("content").and_then(Value::as_str).map(str::to_owned)
    }

    fn send_text(&self, path: &Path, text: &str) {
        if self.client.writes_files {
            // The file has the text already.
            let _ = self.request_file("fs/write_text_file", path, Some(text));
        }
    }

    fn request_file(&self, method: &'static str, path: &Path, content: Option<&str>) -> Option<Value> {
        let mut params = json!({ "sessionId": *self.session, "path": path });
        if let (Some(content), Some(params)) = (content, params.as_object_mut()) {
            params.insert("content".into(), content.into());
        }
        let (sender, answer) = mpsc::channel();
        let peer = self.peer.clone();
        let asking = self.handle.spawn(async move {
            // The caller may have given up.
            let _ = sender.send(peer.request(method, params).await);
        });
        let answer = answer.recv_timeout(ANSWER_LIMIT);
        asking.abort();
        answer.ok()?.ok()
    }
}

/// Plugin that puts the editor's buffers before the files.
#[derive(Debug)]
pub(super) struct BufferFilesPlugin(pub(super) Buffers);

impl Plugin for BufferFilesPlugin {
    fn name(&self) -> &'static str {
        "editor-files"
    }

    fn register(&self, scope: &Scope) -> Result<(), BoxError> {
        let files = scope.bus().and_then(|bus| bus.service::<dyn Files>());
        if let Some(files) = files {
            scope.provide_service::<dyn Files>(Arc::new(BufferFiles { files, buffers: self.0.clone() }));
        }
        Ok(())
    }
}

/// Files of the disk with the editor's unsaved texts in place of their contents. Access is checked as for the
/// files on disk.
struct BufferFiles {
    files: Arc<dyn Files>,
    buffers: Buffers,
}

impl BufferFiles {
    /// Whether the editor may have unsaved text of a file.
    fn may_be_open(&self, at: &Resolved) -> bool {
        let is_small = |stat: FileStat| stat.len <= MAX_BUFFER_BYTES;
        self.buffers.reads()
            && self.files.roots().iter().any(|root| at.path.starts_with(root))
            && self.files.stat(at).is_ok_and(is_small)
    }
}

impl Files for BufferFiles {
    fn roots(&self) -> Vec<PathBuf> {
        self.files.roots()
    }

    fn resolve(&self, cwd: &Path, path: &str) -> Result<Resolved, PathError> {
        self.files.resolve(cwd, path)
    }

    fn open(&self, at: &Resolved, range: Option<Range<u64>>) -> Result<Box<dyn Read + Send>, PathError> {
        let on_disk = self.files.open(at, range.clone())?;
        let text = if self.may_be_open(at) { self.buffers.text(&at.path) } else { None };
        let Some(text) = text else { return Ok(on_disk) };
        let mut bytes = text.into_bytes();
        if let Some(range) = range {
            let end = usize::try_from(range.end).unwrap_or(usize::MAX).min(bytes.len());
            let start = usize::try_from(range.start).unwrap_or(usize::MAX).min(end);
            bytes.truncate(end);
            bytes.drain(..start);
        }
        Ok(Box::new(Cursor::new(bytes)))
    }

    fn stat(&self, at: &Resolved) -> Result<FileStat, PathError> {
        self.files.stat(at)
    }

    fn read_cached(&self, cwd: &Path, path: &str, max_bytes: usize) -> Option<CachedFile> {
        if self.buffers.reads() { None } else { self.files.read_cached(cwd, path, max_bytes) }
    }

    fn list(&self, at: &Resolved) -> Result<Vec<(String, FileStat)>, PathError> {
        self.files.list(at)
    }

    fn walk(
        &self,
        from: &Resolved,
        options: &WalkOptions,
        visit: &mut dyn FnMut(WalkEntry) -> ControlFlow<()>,
    ) -> Result<WalkReport, PathError> {
        self.files.walk(from, options, visit)
    }

    fn can_search(&self) -> bool {
        self.files.can_search()
    }

    fn search(
        &self,
        from: &Resolved,
        query: &SearchQuery,
        stop: &CancellationToken,
    ) -> Result<SearchFound, PathError> {
        self.files.search(from, query, stop)
    }

    fn watch(&self, at: &Resolved, changed: OnChange) -> Result<Box<dyn FileWatch>, PathError> {
        self.files.watch(at, changed)
    }

    fn write(&self, at: &Resolved, bytes: &[u8]) -> Result<WriteReceipt, PathError> {
        let receipt = self.files.write(at, bytes)?;
        if let Ok(text) = std::str::from_utf8(bytes) {
            self.buffers.send_text(&at.path, text);
        }
        Ok(receipt)
    }
}
