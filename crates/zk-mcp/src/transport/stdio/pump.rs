//! The task that owns the program: writes what is to be sent, reads what comes, and ends it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::service::{RoleClient, RxJsonRpcMessage};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout, timeout_at};
use zk_core::service::{ExecError, Exit, KillSignal, OutputStream, Process, ProcessEvent};

use super::frame::{Frames, MAX_MESSAGE_BYTES};
use super::{LogSink, Said};
use crate::transport::value_limits;

/// Bytes of one write: so few are written whole or not at all, and a write that is stuck can be given up.
const CHUNK_BYTES: usize = 4096;
/// Time a write may be stuck before what the program prints is read: it may wait for that.
const STUCK_PAUSE: Duration = Duration::from_millis(5);
/// Longest time without the program taking input before it is given up.
const NOT_READING_LIMIT: Duration = Duration::from_secs(30);
/// Time limits for the program to end by itself once its input is closed, and then once it is told to.
const END_GRACE: Duration = Duration::from_millis(300);
const LAST_OUTPUT_WAIT: Duration = Duration::from_millis(700);
/// Time limit for reading its last words after its end.
const LEFTOVER_WAIT: Duration = Duration::from_millis(200);

pub(super) enum Order {
    Write { line: Vec<u8>, written: oneshot::Sender<Result<(), String>> },
    End,
}

pub(super) struct Pump {
    process: Box<dyn Process>,
    outbox: mpsc::Sender<Message>,
    frames: Frames,
    /// Messages that were read and that nobody took yet.
    ready: VecDeque<(usize, Message)>,
    /// Size of those messages as they came, in bytes.
    held: usize,
    said: Said,
    log: Option<LogSink>,
    fault: Arc<Mutex<Option<String>>>,
}

/// The connection is over.
struct Over;

enum Happened {
    Order(Option<Order>),
    Room(Option<mpsc::OwnedPermit<Message>>),
    Process(Result<Option<ProcessEvent>, ExecError>),
}

type Message = RxJsonRpcMessage<RoleClient>;

impl Pump {
    pub(super) fn new(
        process: Box<dyn Process>,
        outbox: mpsc::Sender<Message>,
        said: Said,
        log: Option<LogSink>,
        fault: Arc<Mutex<Option<String>>>,
    ) -> Self {
        Self { process, outbox, frames: Frames::default(), ready: VecDeque::new(), held: 0, said, log, fault }
    }

    /// Serves until the connection ends from either side, then ends the program with everything it started.
    pub(super) async fn run(mut self, mut inbox: mpsc::Receiver<Order>) {
        while let Ok(()) = self.step(&mut inbox).await {}
        drop(self.outbox);
        end(&mut *self.process, &self.said, self.log.as_ref()).await;
    }

    async fn step(&mut self, inbox: &mut mpsc::Receiver<Order>) -> Result<(), Over> {
        // Nothing more is read while messages wait: a server that floods waits too.
        let waits = !self.ready.is_empty();
        let happened = tokio::select! {
            order = inbox.recv() => Happened::Order(order),
            permit = self.outbox.clone().reserve_owned(), if waits => Happened::Room(permit.ok()),
            event = self.process.next(), if !waits => Happened::Process(event),
        };
        match happened {
            Happened::Order(None | Some(Order::End)) | Happened::Room(None) => Err(Over),
            Happened::Order(Some(Order::Write { line, written })) => {
                let done = self.write(&line).await;
                let broken = done.is_err();
                let _ = written.send(done);
                if broken { Err(Over) } else { Ok(()) }
            }
            Happened::Room(Some(permit)) => {
                if let Some((size, message)) = self.ready.pop_front() {
                    self.held = self.held.saturating_sub(size);
                    permit.send(message);
                }
                Ok(())
            }
            Happened::Process(Ok(Some(ProcessEvent::Closed(OutputStream::Stdout)))) => {
                // Most often because it ended: then how it ended says more.
                let exit = self.exit_soon().await;
                Err(self.fail(exit.map_or_else(|| "its program closed its output".to_owned(), describe)))
            }
            Happened::Process(event) => {
                let event = event.map_err(|error| self.fail(error.to_string()))?;
                self.take(event)
            }
        }
    }

    /// Returns the end of the program, if that comes at once, and takes its last words.
    async fn exit_soon(&mut self) -> Option<Exit> {
        let (ended, said) = self.process.exit_within(LEFTOVER_WAIT).await;
        self.hear(&said);
        ended
    }

    /// Writes a line. While the program does not read, what it prints is read: it may be stuck in printing.
    async fn write(&mut self, line: &[u8]) -> Result<(), String> {
        for chunk in line.chunks(CHUNK_BYTES) {
            let give_up = Instant::now() + NOT_READING_LIMIT;
            loop {
                match timeout(STUCK_PAUSE, self.process.write(chunk)).await {
                    Ok(Ok(())) => break,
                    Ok(Err(error)) => {
                        // Most often because it ended: then how it ended says more.
                        let exit = self.exit_soon().await;
                        return Err(exit.map_or_else(|| error.to_string(), describe));
                    }
                    Err(_) if Instant::now() >= give_up => {
                        return Err(format!(
                            "its program read nothing for {} s",
                            NOT_READING_LIMIT.as_secs()
                        ));
                    }
                    Err(_) => {}
                }
                if let Ok(event) = timeout(STUCK_PAUSE, self.process.next()).await {
                    let event = event.map_err(|error| error.to_string())?;
                    self.take(event).map_err(|Over| "its program has ended".to_owned())?;
                }
                if self.held > 2 * MAX_MESSAGE_BYTES {
                    return Err("its program sends without reading".to_owned());
                }
            }
        }
        Ok(())
    }

    fn take(&mut self, event: Option<ProcessEvent>) -> Result<(), Over> {
        match event {
            Some(ProcessEvent::Output(OutputStream::Stdout, bytes)) => {
                let Ok(lines) = self.frames.feed(&bytes) else {
                    return Err(
                        self.fail(format!("it sent a message of more than {MAX_MESSAGE_BYTES} bytes"))
                    );
                };
                for line in lines {
                    self.message(&line);
                }
                Ok(())
            }
            Some(ProcessEvent::Output(OutputStream::Stderr, bytes)) => {
                self.hear(&bytes);
                Ok(())
            }
            Some(ProcessEvent::Closed(OutputStream::Stderr)) => Ok(()),
            Some(ProcessEvent::Closed(OutputStream::Stdout)) => {
                Err(self.fail("its program closed its output".to_owned()))
            }
            Some(ProcessEvent::Exited(exit)) => Err(self.fail(describe(exit))),
            None => Err(self.fail("its program has ended".to_owned())),
        }
    }

    /// Takes in one line. What is no message is for the log: some programs print there by mistake.
    fn message(&mut self, line: &[u8]) {
        if line.trim_ascii().is_empty() {
            return;
        }
        match value_limits::bound(line).map(|line| serde_json::from_slice(&line)) {
            Some(Ok(message)) => {
                self.held += line.len();
                self.ready.push_back((line.len(), message));
            }
            Some(Err(_)) | None => {
                let shown = line.get(..line.len().min(1024)).unwrap_or_default();
                self.hear(&[b"(no message) ", shown, b"\n"].concat());
            }
        }
    }

    fn hear(&self, bytes: &[u8]) {
        self.said.hear(bytes);
        self.log.iter().for_each(|log| log(bytes));
    }

    fn fail(&self, why: String) -> Over {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
        Over
    }
}

/// Ends the program: its input first, then a request, then by force.
async fn end(process: &mut dyn Process, said: &Said, log: Option<&LogSink>) {
    let _ = process.close_input().await;
    if wait(process, END_GRACE, said, log).await {
        return;
    }
    let _ = process.kill(KillSignal::Terminate).await;
    if wait(process, LAST_OUTPUT_WAIT, said, log).await {
        return;
    }
    let _ = process.kill(KillSignal::Kill).await;
    wait(process, LAST_OUTPUT_WAIT, said, log).await;
}

/// Whether the program ended within `limit`; its last words are kept.
async fn wait(process: &mut dyn Process, limit: Duration, said: &Said, log: Option<&LogSink>) -> bool {
    let mut until = Instant::now() + limit;
    let mut ended = false;
    loop {
        match timeout_at(until, process.next()).await {
            Ok(Ok(Some(ProcessEvent::Exited(_)))) => {
                ended = true;
                until = Instant::now() + LEFTOVER_WAIT;
            }
            Ok(Ok(Some(ProcessEvent::Output(OutputStream::Stderr, bytes)))) => {
                said.hear(&bytes);
                log.iter().for_each(|log| log(&bytes));
            }
            Ok(Ok(Some(ProcessEvent::Output(OutputStream::Stdout, _) | ProcessEvent::Closed(_)))) => {}
            Ok(Ok(None) | Err(_)) => return true,
            Err(_) => return ended,
        }
    }
}

fn describe(exit: Exit) -> String {
    match exit {
        Exit::Code(code) => format!("its program ended with exit code {code}"),
        Exit::Signal(signal) => format!("its program was ended by signal {signal}"),
        Exit::TimedOut | Exit::Stopped => "its program was ended".to_owned(),
    }
}
