use std::io;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;
use zk_core::service::{
    Denial, Exec, ExecError, ExecRequest, KillSignal, Process, ProcessEvent, TerminalSize,
};

use super::{Ask, Order, Told, WINDOW, frame};
use crate::Limits;

/// Executor of commands behind a socket. Each command is ended when its connection closes, so also when
/// either side dies.
#[derive(Clone, Debug)]
pub struct RemoteExec {
    socket: Arc<Path>,
    limits: Limits,
}

impl RemoteExec {
    pub(super) fn new(socket: Arc<Path>) -> Self {
        Self { socket, limits: Limits::default() }
    }

    /// Limits each command, on top of the server's own limits.
    #[must_use]
    pub fn limited(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    async fn start(&self, request: ExecRequest) -> io::Result<RemoteProcess> {
        let program = request.program.to_string_lossy().into_owned();
        let reached = UnixStream::connect(&self.socket).await.map_err(|error| {
            let what = format!("the exec-server at {} does not answer: {error}", self.socket.display());
            io::Error::new(error.kind(), what)
        });
        let (mut from, mut to) = reached?.into_split();
        frame::send_to(&mut to, &Ask::Spawn { request, limits: self.limits }, &[]).await?;
        match frame::receive_from(&mut from).await? {
            (Told::Started, _) => {}
            (Told::Failed(why), _) => return Err(io::Error::other(why)),
            (other, _) => return Err(io::Error::other(format!("{other:?} before it was started"))),
        }
        let (orders, queue) = mpsc::unbounded_channel();
        tokio::spawn(write_all(to, queue));
        // Unbounded here: the server sends no more than the window.
        let (events, happened) = mpsc::unbounded_channel();
        let (answers, answered) = mpsc::unbounded_channel();
        tokio::spawn(read_all(from, events, answers));
        Ok(RemoteProcess {
            program,
            orders,
            happened,
            answered,
            next_order: 0,
            taken: 0,
            denials: Vec::new(),
            is_over: false,
        })
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

/// Writes whole frames, even if the sender of a frame has stopped waiting. Closes the connection at the end
/// of the queue.
async fn write_all(mut to: OwnedWriteHalf, mut queue: mpsc::UnboundedReceiver<Vec<u8>>) {
    while let Some(frame) = queue.recv().await {
        if to.write_all(&frame).await.is_err() {
            return;
        }
    }
}

async fn read_all(
    mut from: OwnedReadHalf,
    events: mpsc::UnboundedSender<Item>,
    answers: mpsc::UnboundedSender<Told>,
) {
    while let Ok((told, bytes)) = frame::receive_from::<Told>(&mut from).await {
        let sent = match told {
            Told::Event(ProcessEvent::Output(stream, _)) => {
                events.send(Item::Event(ProcessEvent::Output(stream, bytes))).is_ok()
            }
            Told::Event(event) => events.send(Item::Event(event)).is_ok(),
            Told::Denials(denials) => events.send(Item::Denials(denials)).is_ok(),
            Told::Over => events.send(Item::Over).is_ok(),
            answer @ (Told::Members(..) | Told::Done(..)) => answers.send(answer).is_ok(),
            Told::Started | Told::Failed(_) => false,
        };
        if !sent {
            return;
        }
    }
}

/// Unsolicited message of a process.
enum Item {
    Event(ProcessEvent),
    Denials(Vec<Denial>),
    Over,
}

/// Process behind a connection; both end together.
struct RemoteProcess {
    program: String,
    orders: mpsc::UnboundedSender<Vec<u8>>,
    happened: mpsc::UnboundedReceiver<Item>,
    answered: mpsc::UnboundedReceiver<Told>,
    next_order: u64,
    /// Output bytes read since the last `Order::Taken`.
    taken: u64,
    denials: Vec<Denial>,
    is_over: bool,
}

impl RemoteProcess {
    fn lost_error(&self) -> ExecError {
        let why = "the connection to the exec-server broke; what the command started is ended there";
        ExecError::Watch { program: self.program.clone(), source: io::Error::other(why) }
    }

    fn send_order(&mut self, order: Order, bytes: &[u8]) -> Result<u64, ExecError> {
        let number = self.next_order;
        self.next_order += 1;
        let frame = frame::encode(&(number, order), bytes).map_err(|_| self.lost_error())?;
        self.orders.send(frame).map_err(|_| self.lost_error())?;
        Ok(number)
    }

    async fn run_order(&mut self, order: Order, bytes: &[u8]) -> Result<Told, ExecError> {
        let wanted = self.send_order(order, bytes)?;
        loop {
            // Output that arrives in the meantime stays queued.
            match self.answered.recv().await {
                Some(answer @ (Told::Members(number, _) | Told::Done(number, _))) if number == wanted => {
                    return Ok(answer);
                }
                // Answer to an earlier order whose caller stopped waiting.
                Some(_) => {}
                None => return Err(self.lost_error()),
            }
        }
    }

    async fn send_input(&mut self, order: Order, bytes: &[u8]) -> Result<(), ExecError> {
        match self.run_order(order, bytes).await? {
            Told::Done(_, Err(why)) => {
                Err(ExecError::Input { program: self.program.clone(), source: io::Error::other(why) })
            }
            _ => Ok(()),
        }
    }
}

#[async_trait]
impl Process for RemoteProcess {
    async fn next(&mut self) -> Result<Option<ProcessEvent>, ExecError> {
        while !self.is_over {
            match self.happened.recv().await {
                Some(Item::Event(event)) => {
                    if let ProcessEvent::Output(_, bytes) = &event {
                        self.taken += bytes.len() as u64;
                        if self.taken >= WINDOW / 4 {
                            let taken = std::mem::take(&mut self.taken);
                            // If the connection is closed, the next event reports it.
                            let _ = self.send_order(Order::Taken(taken), &[]);
                        }
                    }
                    return Ok(Some(event));
                }
                Some(Item::Denials(denials)) => self.denials = denials,
                Some(Item::Over) => self.is_over = true,
                None => return Err(self.lost_error()),
            }
        }
        Ok(None)
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), ExecError> {
        self.send_input(Order::Write, bytes).await
    }

    async fn close_input(&mut self) -> Result<(), ExecError> {
        self.send_input(Order::CloseInput, &[]).await
    }

    async fn resize(&mut self, size: TerminalSize) -> Result<(), ExecError> {
        self.send_input(Order::Resize(size), &[]).await
    }

    async fn kill(&mut self, signal: KillSignal) -> Result<(), ExecError> {
        self.run_order(Order::Kill(signal), &[]).await.map(|_| ())
    }

    async fn members(&mut self) -> Result<Vec<u32>, ExecError> {
        match self.run_order(Order::Members, &[]).await? {
            Told::Members(_, members) => Ok(members),
            _ => Ok(Vec::new()),
        }
    }

    fn denials(&self) -> Vec<Denial> {
        self.denials.clone()
    }

    fn release(mut self: Box<Self>) {
        let _ = self.send_order(Order::Release, &[]);
    }
}
