use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Maximum length of a line that is read, in bytes: enough for an image of 5 MB in base64.
pub const MAX_LINE_BYTES: usize = 16 << 20;

/// Maximum number of bytes queued for a reader. Beyond it, the reader counts as gone.
const MAX_WAITING_BYTES: usize = 64 << 20;

/// Number of bytes per read.
const READ_BYTES: usize = 64 * 1024;

/// Longest time for writing the queue when the writer is closed.
const FLUSH_LIMIT: Duration = Duration::from_secs(2);

/// Reason why a line cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum LineError {
    /// The line is longer than allowed; it is skipped, and the next one can be read.
    #[error("a line of more than {most} bytes is not read")]
    TooLong {
        /// Maximum length of a line in bytes.
        most: usize,
    },
    /// The line is no UTF-8; the next one can be read.
    #[error("a line is not read: it is no UTF-8")]
    NotUtf8,
    /// Reading failed.
    #[error("cannot read: {0}")]
    Failed(#[from] io::Error),
}

/// Reads messages of another program, one per line. A line that is too long takes no memory beyond its bound.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// use zk_serve::LineReader;
///
/// let mut lines = LineReader::new(&b"{}\n\n[1]\r\n"[..]);
/// assert_eq!(lines.next().await.unwrap().as_deref(), Some("{}"));
/// assert_eq!(lines.next().await.unwrap().as_deref(), Some("[1]"));
/// assert_eq!(lines.next().await.unwrap(), None);
/// # });
/// ```
#[derive(Debug)]
pub struct LineReader<R> {
    from: R,
    most: usize,
    buffer: Vec<u8>,
    /// Number of bytes of the buffer that were searched for a line end.
    searched: usize,
    /// Whether the rest of a line that is too long is being skipped.
    skips: bool,
    is_over: bool,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    /// Creates a reader for lines of at most [`MAX_LINE_BYTES`].
    pub fn new(from: R) -> Self {
        Self { from, most: MAX_LINE_BYTES, buffer: Vec::new(), searched: 0, skips: false, is_over: false }
    }

    /// Sets the maximum length of a line in bytes.
    #[must_use]
    pub fn limited_to(mut self, most: usize) -> Self {
        self.most = most;
        self
    }

    /// Returns the next line that is not blank, without its end; `None` after the last one. The future may be
    /// dropped without losing a line.
    ///
    /// # Errors
    /// [`LineError`]; all but [`LineError::Failed`] leave the lines behind it readable.
    pub async fn next(&mut self) -> Result<Option<String>, LineError> {
        loop {
            let rest = self.buffer.get(self.searched..).unwrap_or_default();
            if let Some(at) = memchr::memchr(b'\n', rest) {
                let mut line: Vec<u8> = self.buffer.drain(..=self.searched + at).collect();
                self.searched = 0;
                line.pop();
                if std::mem::take(&mut self.skips) {
                    continue;
                }
                if let Some(text) = self.text(line)? {
                    return Ok(Some(text));
                }
                continue;
            }
            self.searched = self.buffer.len();
            if self.is_over {
                let last = std::mem::take(&mut self.buffer);
                self.searched = 0;
                return if std::mem::take(&mut self.skips) { Ok(None) } else { self.text(last) };
            }
            if self.skips || self.buffer.len() > self.most {
                self.buffer = Vec::new();
                self.searched = 0;
                if !std::mem::replace(&mut self.skips, true) {
                    return Err(LineError::TooLong { most: self.most });
                }
            }
            self.buffer.reserve(READ_BYTES);
            self.is_over = self.from.read_buf(&mut self.buffer).await? == 0;
        }
    }

    /// Returns the text of a line; `None` for a blank one.
    fn text(&self, mut line: Vec<u8>) -> Result<Option<String>, LineError> {
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        if line.len() > self.most {
            return Err(LineError::TooLong { most: self.most });
        }
        let text = String::from_utf8(line).map_err(|_| LineError::NotUtf8)?;
        Ok((!text.trim().is_empty()).then_some(text))
    }
}

/// Queue of messages to another program, one per line, in order, from any number of tasks. Sending never
/// waits: a reader that falls too far behind counts as gone. Clones write to the same stream.
#[derive(Clone, Debug)]
pub struct LineWriter {
    shared: Arc<Shared>,
    writing: Arc<Mutex<Option<JoinHandle<()>>>>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    more: Notify,
    written: Notify,
    gone: Notify,
}

#[derive(Debug, Default)]
struct State {
    waiting: Vec<u8>,
    is_closed: bool,
    is_gone: bool,
}

impl LineWriter {
    /// Creates a writer whose own task writes to the stream.
    pub fn new(to: impl AsyncWrite + Send + Unpin + 'static) -> Self {
        let shared = Arc::<Shared>::default();
        let writing = tokio::spawn(write_queue(shared.clone(), to));
        Self { shared, writing: Arc::new(Mutex::new(Some(writing))) }
    }

    /// Queues a line, which must not contain a line end. Returns whether the reader is still there.
    pub fn send(&self, line: &str) -> bool {
        let mut state = self.shared.state();
        if state.is_gone || state.is_closed {
            return false;
        }
        if state.waiting.len() + line.len() > MAX_WAITING_BYTES {
            state.is_gone = true;
            drop(state);
            self.shared.more.notify_one();
            self.shared.mark_gone();
            return false;
        }
        state.waiting.extend_from_slice(line.as_bytes());
        state.waiting.push(b'\n');
        drop(state);
        self.shared.more.notify_one();
        true
    }

    /// Waits until fewer than `most` bytes are queued, or the reader is gone.
    pub async fn room(&self, most: usize) {
        loop {
            let written = self.shared.written.notified();
            {
                let state = self.shared.state();
                if state.waiting.len() < most || state.is_gone || state.is_closed {
                    return;
                }
            }
            written.await;
        }
    }

    /// Waits until the reader is gone.
    pub async fn gone(&self) {
        loop {
            let gone = self.shared.gone.notified();
            if self.shared.state().is_gone {
                return;
            }
            gone.await;
        }
    }

    /// Writes the queue for at most two seconds, then closes the stream.
    pub async fn close(&self) {
        self.shared.state().is_closed = true;
        self.shared.written.notify_waiters();
        self.shared.more.notify_one();
        let writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut writing) = writing
            && timeout(FLUSH_LIMIT, &mut writing).await.is_err()
        {
            writing.abort();
        }
    }
}

impl Shared {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn mark_gone(&self) {
        self.gone.notify_waiters();
        self.written.notify_waiters();
    }
}

async fn write_queue(shared: Arc<Shared>, mut to: impl AsyncWrite + Unpin) {
    loop {
        let more = shared.more.notified();
        let (bytes, is_closed) = {
            let mut state = shared.state();
            if state.is_gone {
                return;
            }
            (std::mem::take(&mut state.waiting), state.is_closed)
        };
        if bytes.is_empty() {
            if is_closed {
                let _ = to.shutdown().await;
                return;
            }
            more.await;
            continue;
        }
        let written = async {
            to.write_all(&bytes).await?;
            to.flush().await
        };
        if written.await.is_err() {
            shared.state().is_gone = true;
            shared.mark_gone();
            return;
        }
        shared.written.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Lines that a reader returns for bytes that arrive in pieces; an error for each refused line.
    fn read(bytes: &[u8], piece: usize, most: usize) -> Vec<Result<String, ()>> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let (mut to, from) = tokio::io::duplex(piece.max(1));
            let all = bytes.to_vec();
            let sending = tokio::spawn(async move {
                let _ = to.write_all(&all).await;
            });
            let mut lines = LineReader::new(from).limited_to(most);
            let mut found = Vec::new();
            loop {
                match lines.next().await {
                    Ok(Some(line)) => found.push(Ok(line)),
                    Ok(None) => break,
                    Err(LineError::Failed(error)) => panic!("{error}"),
                    Err(_) => found.push(Err(())),
                }
            }
            sending.await.unwrap();
            found
        })
    }

    proptest! {
        #[test]
        fn lines_are_the_same_however_their_bytes_come(text in "[a-c\r\n ]{0,200}", piece in 1usize..64) {
            let expected: Vec<Result<String, ()>> = text
                .split('\n')
                .map(|line| line.strip_suffix('\r').unwrap_or(line))
                .filter(|line| !line.trim().is_empty())
                .map(|line| if line.len() > 20 { Err(()) } else { Ok(line.to_owned()) })
                .collect();
            prop_assert_eq!(read(text.as_bytes(), piece, 20), expected);
        }
    }

    #[test]
    fn a_line_that_is_too_long_or_no_text_is_left_out_and_the_next_one_is_read() {
        let long = [vec![b'x'; 5_000_000], b"\nnext\n\xff\nlast".to_vec()].concat();
        assert_eq!(read(&long, 8192, 1000), [Err(()), Ok("next".into()), Err(()), Ok("last".into())]);
    }

    #[tokio::test]
    async fn lines_of_many_tasks_stay_whole_and_a_reader_that_is_gone_is_noticed() {
        let (to, from) = tokio::io::duplex(7);
        let writer = LineWriter::new(to);
        let sending = (0..20).map(|task| {
            let writer = writer.clone();
            tokio::spawn(async move { (0..50).for_each(|_| _ = writer.send(&task.to_string().repeat(30))) })
        });
        for sending in sending.collect::<Vec<_>>() {
            sending.await.unwrap();
        }
        let mut lines = LineReader::new(from);
        for _ in 0..1000 {
            let line = lines.next().await.unwrap().unwrap();
            let task: String = line.chars().take(line.len() / 30).collect();
            assert_eq!(line, task.repeat(30));
        }
        drop(lines);
        writer.send("nobody");
        writer.gone().await;
        assert!(!writer.send("nobody"));
        writer.close().await;
    }
}
