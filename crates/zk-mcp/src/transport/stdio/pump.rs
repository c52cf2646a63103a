//! Task that owns the program: writes messages, reads its output, and ends it.

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

/// Size of one write in bytes: small enough to be written atomically, so that a blocked write can be given
/// up.
const CHUNK_BYTES: usize = 4096;
/// Time that a write may block before output is read, since the program may be waiting for that.
const STUCK_PAUSE: Duration = Duration::from_millis(5);
/// Longest time without the program reading input, after which it is given up.
const NOT_READING_LIMIT: Duration = Duration::from_secs(30);
/// Time limits for the program's end: after closing its input, and after the request to end.
const END_GRACE: Duration = Duration::from_millis(300);
const LAST_OUTPUT_WAIT: Duration = Duration::from_millis(700);
/// Time limit for reading the last output after the program's end.
const LEFTOVER_WAIT: Duration = Duration::from_millis(200);

pub(super) enum Order {
    Write { line: Vec<u8>, written: oneshot::Sender<Result<(), String>> },
    End,
}

pub(super) struct Pump {
    process: Box<dyn Process>,
    outbox: mpsc::Sender<Message>,
    frames: Frames,
    /// Messages that were read and not delivered yet, with their sizes.
    ready: VecDeque<(usize, Message)>,
    /// Total size of the undelivered messages, in bytes.
    held: usize,
    said: Said,
    log: Option<LogSink>,
    fault: Arc<Mutex<Option<String>>>,
}

/// Marker that the connection is over.
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

    /// Runs until the connection ends from either side, then ends the program and all its processes.
    pub(super) async fn run(mut self, mut inbox: mpsc::Receiver<Order>) {
        while let Ok(()) = self.handle_next(&mut inbox).await {}
        drop(self.outbox);
        end_program(&mut *self.process, &self.said, self.log.as_ref()).await;
    }

    async fn handle_next(&mut self, inbox: &mut mpsc::Receiver<Order>) -> Result<(), Over> {
        // While messages wait, no more are read, so that a flooding server has to wait too.
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
                // Usually because the program ended; its exit is the better explanation.
                let exit = self.exit_soon().await;
                Err(self
                    .record_fault(exit.map_or_else(|| "its program closed its output".to_owned(), describe)))
            }
            Happened::Process(event) => {
                let event = event.map_err(|error| self.record_fault(error.to_string()))?;
                self.handle_event(event)
            }
        }
    }

    /// Returns the exit of the program if it happens at once, and reads the last output.
    async fn exit_soon(&mut self) -> Option<Exit> {
        let (ended, said) = self.process.exit_within(LEFTOVER_WAIT).await;
        self.handle_stderr(&said);
        ended
    }

    /// Writes a line. While the write blocks, output is read, because the program may be blocked on it.
    async fn write(&mut self, line: &[u8]) -> Result<(), String> {
        for chunk in line.chunks(CHUNK_BYTES) {
            let give_up = Instant::now() + NOT_READING_LIMIT;
            loop {
                match timeout(STUCK_PAUSE, self.process.write(chunk)).await {
                    Ok(Ok(())) => break,
                    Ok(Err(error)) => {
                        // Usually because the program ended; its exit is the better explanation.
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
                    self.handle_event(event).map_err(|Over| "its program has ended".to_owned())?;
                }
                if self.held > 2 * MAX_MESSAGE_BYTES {
                    return Err("its program sends without reading".to_owned());
                }
            }
        }
        Ok(())
    }

    fn handle_event(&mut self, event: Option<ProcessEvent>) -> Result<(), Over> {
        match event {
            Some(ProcessEvent::Output(OutputStream::Stdout, bytes)) => {
                let Ok(lines) = self.frames.feed(&bytes) else {
                    return Err(self
                        .record_fault(format!("it sent a message of more than {MAX_MESSAGE_BYTES} bytes")));
                };
                for line in lines {
                    self.handle_line(&line);
                }
                Ok(())
            }
            Some(ProcessEvent::Output(OutputStream::Stderr, bytes)) => {
                self.handle_stderr(&bytes);
                Ok(())
            }
            Some(ProcessEvent::Closed(OutputStream::Stderr)) => Ok(()),
            Some(ProcessEvent::Closed(OutputStream::Stdout)) => {
                Err(self.record_fault("its program closed its output".to_owned()))
            }
            Some(ProcessEvent::Exited(exit)) => Err(self.record_fault(describe(exit))),
            None => Err(self.record_fault("its program has ended".to_owned())),
        }
    }

    /// Handles one line. A line that is no message goes to the log, since some programs print there by
    /// mistake.
    fn handle_line(&mut self, line: &[u8]) {
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
                self.handle_stderr(&[b"(no message) ", shown, b"\n"].concat());
            }
        }
    }

    fn handle_stderr(&self, bytes: &[u8]) {
        self.said.append(bytes);
        self.log.iter().for_each(|log| log(bytes));
    }

    fn record_fault(&self, why: String) -> Over {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
        Over
    }
}

/// Ends the program: closes its input, then asks it to end, then kills it.
async fn end_program(process: &mut dyn Process, said: &Said, log: Option<&LogSink>) {
    let _ = process.close_input().await;
    if wait_for_end(process, END_GRACE, said, log).await {
        return;
    }
    let _ = process.kill(KillSignal::Terminate).await;
    if wait_for_end(process, LAST_OUTPUT_WAIT, said, log).await {
        return;
    }
    let _ = process.kill(KillSignal::Kill).await;
    wait_for_end(process, LAST_OUTPUT_WAIT, said, log).await;
}

/// Waits for the program's end for up to `limit`, and reads the last output; returns whether it ended.
async fn wait_for_end(
    process: &mut dyn Process,
    limit: Duration,
    said: &Said,
    log: Option<&LogSink>,
) -> bool {
    let mut until = Instant::now() + limit;
    let mut ended = false;
    loop {
        match timeout_at(until, process.next()).await {
            Ok(Ok(Some(ProcessEvent::Exited(_)))) => {
                ended = true;
                until = Instant::now() + LEFTOVER_WAIT;
            }
            Ok(Ok(Some(ProcessEvent::Output(OutputStream::Stderr, bytes)))) => {
                said.append(&bytes);
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
