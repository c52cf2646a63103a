use std::io::{self, BufRead as _, BufReader, Read};
use std::net::Shutdown;
use std::ops::{ControlFlow, Range};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;
use zk_core::service::{
    Exec, ExecError, ExecRequest, FileStat, Files, KillSignal, PathError, Process, ProcessEvent, Resolved,
    SearchFound, SearchQuery, TerminalSize, WalkEntry, WalkOptions, WalkReport, WriteReceipt,
};

use crate::wire::{Answer, News, Order, Question, receive, send};

fn ask(socket: &Path, question: &Question, bytes: &[u8]) -> io::Result<BufReader<UnixStream>> {
    let mut stream = UnixStream::connect(socket)?;
    send(&mut stream, question, bytes)?;
    Ok(BufReader::new(stream))
}

fn answer<T: DeserializeOwned>(from: &mut BufReader<UnixStream>) -> io::Result<T> {
    match receive(from)? {
        Some((answer, _)) => Ok(answer),
        None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// The files behind a socket.
#[derive(Clone, Debug)]
pub struct SocketFiles {
    socket: Arc<Path>,
    roots: Vec<PathBuf>,
}

impl SocketFiles {
    /// Requests the roots that the server offers.
    ///
    /// # Errors
    /// The system's, when nobody answers.
    pub fn connect(socket: impl Into<PathBuf>) -> io::Result<Self> {
        let socket: Arc<Path> = socket.into().into();
        let roots = answer(&mut ask(&socket, &Question::Roots, &[])?)?;
        Ok(Self { socket, roots })
    }

    fn lost(&self, source: io::Error) -> PathError {
        PathError::Io { doing: "reach".into(), path: self.socket.display().to_string(), source }
    }

    fn ask(&self, question: &Question, bytes: &[u8]) -> Answer<BufReader<UnixStream>> {
        ask(&self.socket, question, bytes).map_err(|error| self.lost(error))
    }

    fn answer<T: DeserializeOwned>(&self, from: &mut BufReader<UnixStream>) -> Answer<T> {
        answer(from).map_err(|error| self.lost(error))
    }

    fn get<T: DeserializeOwned>(&self, question: &Question, bytes: &[u8]) -> Answer<T> {
        self.answer::<Answer<T>>(&mut self.ask(question, bytes)?)?
    }
}

impl Files for SocketFiles {
    fn roots(&self) -> Vec<PathBuf> {
        self.roots.clone()
    }

    fn resolve(&self, cwd: &Path, path: &str) -> Answer<Resolved> {
        self.get(&Question::Resolve(cwd.into(), path.into()), &[])
    }

    fn open(&self, at: &Resolved, range: Option<Range<u64>>) -> Answer<Box<dyn Read + Send>> {
        let mut from = self.ask(&Question::Open(at.clone(), range), &[])?;
        self.answer::<Answer<()>>(&mut from)??;
        Ok(Box::new(Reader { from, piece: io::Cursor::default(), is_over: false }))
    }

    fn stat(&self, at: &Resolved) -> Answer<FileStat> {
        self.get(&Question::Stat(at.clone()), &[])
    }

    fn list(&self, at: &Resolved) -> Answer<Vec<(String, FileStat)>> {
        self.get(&Question::List(at.clone()), &[])
    }

    fn walk(
        &self,
        from: &Resolved,
        options: &WalkOptions,
        visit: &mut dyn FnMut(WalkEntry) -> ControlFlow<()>,
    ) -> Answer<WalkReport> {
        let mut stream = self.ask(&Question::Walk(from.clone(), options.clone()), &[])?;
        loop {
            match self.answer::<Result<WalkEntry, Answer<WalkReport>>>(&mut stream)? {
                Err(report) => return report,
                // Closing the connection cancels the walk on the server.
                Ok(entry) => {
                    if visit(entry).is_break() {
                        return Ok(WalkReport::default());
                    }
                }
            }
        }
    }

    fn search(&self, from: &Resolved, query: &SearchQuery, stop: &CancellationToken) -> Answer<SearchFound> {
        let mut stream = self.ask(&Question::Search(from.clone(), query.clone()), &[])?;
        let patience = |limit| stream.get_ref().set_read_timeout(limit).map_err(|error| self.lost(error));
        patience(Some(Duration::from_millis(20)))?;
        while let Err(error) = stream.fill_buf() {
            if stop.is_cancelled() {
                return Ok(SearchFound::default());
            }
            if error.kind() != io::ErrorKind::WouldBlock {
                return Err(self.lost(error));
            }
        }
        stream.get_ref().set_read_timeout(None).map_err(|error| self.lost(error))?;
        self.answer::<Answer<SearchFound>>(&mut stream)?
    }

    fn write(&self, at: &Resolved, bytes: &[u8]) -> Answer<WriteReceipt> {
        self.get(&Question::Write(at.clone()), bytes)
    }
}

/// A file that comes in pieces, of which the last is empty.
struct Reader {
    from: BufReader<UnixStream>,
    piece: io::Cursor<Vec<u8>>,
    is_over: bool,
}

impl Read for Reader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if !self.is_over && self.piece.fill_buf()?.is_empty() {
            let next: Option<(Result<(), String>, _)> = receive(&mut self.from)?;
            let (told, piece) = next.ok_or(io::ErrorKind::UnexpectedEof)?;
            told.map_err(io::Error::other)?;
            self.is_over = piece.is_empty();
            self.piece = io::Cursor::new(piece);
        }
        self.piece.read(buffer)
    }
}

/// The commands behind a socket. The end of their connection ends what they started.
#[derive(Clone, Debug)]
pub struct SocketExec {
    socket: Arc<Path>,
}

impl SocketExec {
    /// Of the server at a socket.
    pub fn new(socket: impl Into<PathBuf>) -> Self {
        Self { socket: socket.into().into() }
    }

    fn start(&self, request: ExecRequest) -> io::Result<SocketProcess> {
        let program = request.program.to_string_lossy().into_owned();
        let mut from = ask(&self.socket, &Question::Spawn(request), &[])?;
        let number = answer::<Result<u64, String>>(&mut from)?.map_err(io::Error::other)?;
        let connection = from.get_ref().try_clone()?;
        let (news, happened) = mpsc::channel(8);
        std::thread::spawn(move || {
            while let Ok(Some((head, bytes))) = receive(&mut from) {
                let event = match head {
                    News::Printed(stream) => Ok(Some(ProcessEvent::Output(stream, bytes))),
                    News::Other(event) => Ok(Some(event)),
                    News::Lost(why) if why.is_empty() => Ok(None),
                    News::Lost(why) => Err(why),
                };
                if news.blocking_send(event).is_err() {
                    return;
                }
            }
        });
        let (socket, is_over) = (self.socket.clone(), false);
        Ok(SocketProcess { socket, program, number, connection, happened, is_over })
    }
}

#[async_trait]
impl Exec for SocketExec {
    async fn spawn(&self, request: ExecRequest) -> Result<Box<dyn Process>, ExecError> {
        let (exec, program) = (self.clone(), request.program.to_string_lossy().into_owned());
        let cwd = request.cwd.clone();
        match spawn_blocking(move || exec.start(request)).await.map_err(io::Error::other).flatten() {
            Ok(process) => Ok(Box::new(process)),
            Err(source) => Err(ExecError::Spawn { program, cwd, source }),
        }
    }
}

struct SocketProcess {
    socket: Arc<Path>,
    program: String,
    number: u64,
    connection: UnixStream,
    happened: mpsc::Receiver<Result<Option<ProcessEvent>, String>>,
    is_over: bool,
}

impl SocketProcess {
    fn lost(&self, source: io::Error) -> ExecError {
        ExecError::Watch { program: self.program.clone(), source }
    }

    async fn order(&self, order: Order, bytes: &[u8]) -> io::Result<Vec<u32>> {
        let (socket, question, bytes) =
            (self.socket.clone(), Question::Order(self.number, order), bytes.to_vec());
        let asked =
            spawn_blocking(move || answer::<Result<Vec<u32>, String>>(&mut ask(&socket, &question, &bytes)?));
        asked.await.map_err(io::Error::other)??.map_err(io::Error::other)
    }

    async fn input(&self, order: Order, bytes: &[u8]) -> Result<(), ExecError> {
        let failed = |source| ExecError::Input { program: self.program.clone(), source };
        self.order(order, bytes).await.map(|_| ()).map_err(failed)
    }
}

#[async_trait]
impl Process for SocketProcess {
    async fn next(&mut self) -> Result<Option<ProcessEvent>, ExecError> {
        if self.is_over {
            return Ok(None);
        }
        match self.happened.recv().await {
            Some(Ok(event)) => {
                self.is_over = event.is_none();
                Ok(event)
            }
            Some(Err(why)) => Err(self.lost(io::Error::other(why))),
            None => Err(self.lost(io::ErrorKind::ConnectionReset.into())),
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
        self.order(Order::Kill(signal), &[]).await.map(|_| ()).map_err(|error| self.lost(error))
    }

    async fn members(&mut self) -> Result<Vec<u32>, ExecError> {
        self.order(Order::Members, &[]).await.map_err(|error| self.lost(error))
    }

    fn release(self: Box<Self>) {
        // Send the response before the process handle and its connection are dropped.
        let question = Question::Order(self.number, Order::Release);
        if let Ok(mut asked) = ask(&self.socket, &question, &[]) {
            let _ = answer::<Result<Vec<u32>, String>>(&mut asked);
        }
    }
}

impl Drop for SocketProcess {
    fn drop(&mut self) {
        let _ = self.connection.shutdown(Shutdown::Both);
    }
}
