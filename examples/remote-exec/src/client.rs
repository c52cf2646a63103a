use std::io::{self, Read};
use std::ops::{ControlFlow, Range};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use serde::de::DeserializeOwned;
use tokio::net::unix::OwnedWriteHalf;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use zk_core::service::{
    Exec, ExecError, ExecRequest, FileStat, Files, KillSignal, PathError, Process, ProcessEvent, Resolved,
    SearchFound, SearchQuery, TerminalSize, WalkEntry, WalkOptions, WalkReport, WriteReceipt,
};

use crate::{Answer, Ask, Order, Told, frame};

/// Bytes of a file that are asked for at a time.
const PIECE: u64 = 1 << 20;

/// The files behind a socket.
#[derive(Clone, Debug)]
pub struct RemoteFiles {
    socket: PathBuf,
}

impl RemoteFiles {
    /// Those that the process at `socket` serves.
    pub fn new(socket: impl Into<PathBuf>) -> Self {
        Self { socket: socket.into() }
    }

    fn ask<T: DeserializeOwned>(&self, ask: &Ask, bytes: &[u8]) -> Answer<(T, Vec<u8>)> {
        let failed =
            |source| PathError::Io { doing: "reach".into(), path: self.socket.display().to_string(), source };
        let mut stream = UnixStream::connect(&self.socket).map_err(failed)?;
        frame::send(&mut stream, ask, bytes).map_err(failed)?;
        let (answer, bytes) = frame::receive::<Answer<T>>(&mut stream).map_err(failed)?;
        Ok((answer?, bytes))
    }

    fn get<T: DeserializeOwned>(&self, ask: &Ask) -> Answer<T> {
        self.ask(ask, &[]).map(|(answer, _)| answer)
    }
}

impl Files for RemoteFiles {
    fn roots(&self) -> Vec<PathBuf> {
        self.get(&Ask::Roots).unwrap_or_default()
    }

    fn resolve(&self, cwd: &Path, path: &str) -> Answer<Resolved> {
        self.get(&Ask::Resolve { cwd: cwd.into(), path: path.into() })
    }

    fn open(&self, at: &Resolved, range: Option<Range<u64>>) -> Answer<Box<dyn Read + Send>> {
        let Range { start, end } = range.unwrap_or(0..u64::MAX);
        let mut reader =
            Reader { files: self.clone(), at: at.clone(), next: start, end, piece: io::Cursor::default() };
        // What cannot be opened is said now.
        reader.fetch()?;
        Ok(Box::new(reader))
    }

    fn stat(&self, at: &Resolved) -> Answer<FileStat> {
        self.get(&Ask::Stat { at: at.clone() })
    }

    fn list(&self, at: &Resolved) -> Answer<Vec<(String, FileStat)>> {
        self.get(&Ask::List { at: at.clone() })
    }

    fn walk(
        &self,
        from: &Resolved,
        options: &WalkOptions,
        visit: &mut dyn FnMut(WalkEntry) -> ControlFlow<()>,
    ) -> Answer<WalkReport> {
        let ask = Ask::Walk { from: from.clone(), options: options.clone() };
        let (entries, report): (Vec<WalkEntry>, WalkReport) = self.get(&ask)?;
        let _ = entries.into_iter().try_for_each(visit);
        Ok(report)
    }

    fn search(&self, from: &Resolved, query: &SearchQuery, _: &CancellationToken) -> Answer<SearchFound> {
        self.get(&Ask::Search { from: from.clone(), query: query.clone() })
    }

    fn write(&self, at: &Resolved, bytes: &[u8]) -> Answer<WriteReceipt> {
        self.ask(&Ask::Write { at: at.clone() }, bytes).map(|(receipt, _)| receipt)
    }
}

/// A file that is fetched piece by piece.
struct Reader {
    files: RemoteFiles,
    at: Resolved,
    next: u64,
    end: u64,
    piece: io::Cursor<Vec<u8>>,
}

impl Reader {
    fn fetch(&mut self) -> Answer<()> {
        let range = self.next..self.end.min(self.next.saturating_add(PIECE));
        let ((), bytes) = self.files.ask(&Ask::Open { at: self.at.clone(), range }, &[])?;
        self.next += bytes.len() as u64;
        self.piece = io::Cursor::new(bytes);
        Ok(())
    }
}

impl Read for Reader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let whole = self.piece.get_ref().len() as u64;
        if self.piece.position() == whole && whole > 0 && self.next < self.end {
            self.fetch().map_err(io::Error::other)?;
        }
        self.piece.read(buffer)
    }
}

/// Commands behind a socket.
#[derive(Clone, Debug)]
pub struct RemoteExec {
    socket: PathBuf,
}

impl RemoteExec {
    /// Those that the process at `socket` runs.
    pub fn new(socket: impl Into<PathBuf>) -> Self {
        Self { socket: socket.into() }
    }

    async fn start(&self, request: ExecRequest) -> io::Result<RemoteProcess> {
        let program = request.program.to_string_lossy().into_owned();
        let (mut from, mut orders) = tokio::net::UnixStream::connect(&self.socket).await?.into_split();
        frame::send_to(&mut orders, &Ask::Spawn { request }, &[]).await?;
        match frame::receive_from(&mut from).await? {
            (Told::Started, _) => {}
            (Told::Failed(why), _) => return Err(io::Error::other(why)),
            (other, _) => return Err(io::Error::other(format!("{other:?} before it was started"))),
        }
        // Without a bound: an answer behind events that nobody reads yet must come through.
        let (events, happened) = mpsc::unbounded_channel();
        let (answers, answered) = mpsc::channel(1);
        tokio::spawn(async move {
            while let Ok((told, bytes)) = frame::receive_from::<Told>(&mut from).await {
                let sent = match told {
                    Told::Event(ProcessEvent::Output(stream, _)) => {
                        events.send(Some(ProcessEvent::Output(stream, bytes))).is_ok()
                    }
                    Told::Event(event) => events.send(Some(event)).is_ok(),
                    Told::Over => events.send(None).is_ok(),
                    answer => answers.send(answer).await.is_ok(),
                };
                if !sent {
                    return;
                }
            }
        });
        Ok(RemoteProcess { program, orders, happened, answered, is_over: false })
    }
}

#[async_trait]
impl Exec for RemoteExec {
    async fn spawn(&self, request: ExecRequest) -> Result<Box<dyn Process>, ExecError> {
        let (program, cwd) = (request.program.to_string_lossy().into_owned(), request.cwd.clone());
        match self.start(request).await {
            Ok(process) => Ok(Box::new(process)),
            Err(source) => Err(ExecError::Spawn { program, cwd, source }),
        }
    }
}

/// The end of its connection is the end of the process.
struct RemoteProcess {
    program: String,
    orders: OwnedWriteHalf,
    happened: mpsc::UnboundedReceiver<Option<ProcessEvent>>,
    answered: mpsc::Receiver<Told>,
    is_over: bool,
}

impl RemoteProcess {
    fn lost(&self, why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> ExecError {
        ExecError::Watch { program: self.program.clone(), source: io::Error::other(why) }
    }

    async fn order(&mut self, order: Order, bytes: &[u8]) -> Result<Told, ExecError> {
        frame::send_to(&mut self.orders, &order, bytes).await.map_err(|error| self.lost(error))?;
        // What it prints meanwhile waits where it is.
        self.answered.recv().await.ok_or_else(|| self.lost("the connection was closed"))
    }

    async fn input(&mut self, order: Order, bytes: &[u8]) -> Result<(), ExecError> {
        match self.order(order, bytes).await? {
            Told::Done(Err(why)) => {
                Err(ExecError::Input { program: self.program.clone(), source: io::Error::other(why) })
            }
            _ => Ok(()),
        }
    }
}

#[async_trait]
impl Process for RemoteProcess {
    async fn next(&mut self) -> Result<Option<ProcessEvent>, ExecError> {
        if self.is_over {
            return Ok(None);
        }
        match self.happened.recv().await {
            Some(Some(event)) => Ok(Some(event)),
            Some(None) => {
                self.is_over = true;
                Ok(None)
            }
            None => Err(self.lost("the connection was closed")),
        }
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), ExecError> {
        self.input(Order::Write, bytes).await
    }

    async fn close_input(&mut self) -> Result<(), ExecError> {
        self.input(Order::CloseInput, &[]).await
    }

    async fn resize(&mut self, size: TerminalSize) -> Result<(), ExecError> {
        self.input(Order::Resize(size), &[]).await
    }

    async fn kill(&mut self, signal: KillSignal) -> Result<(), ExecError> {
        self.order(Order::Kill(signal), &[]).await.map(|_| ())
    }

    async fn members(&mut self) -> Result<Vec<u32>, ExecError> {
        match self.order(Order::Members, &[]).await? {
            Told::Members(members) => Ok(members),
            _ => Ok(Vec::new()),
        }
    }

    fn release(mut self: Box<Self>) {
        tokio::spawn(async move {
            let _ = frame::send_to(&mut self.orders, &Order::Release, &[]).await;
        });
    }
}
