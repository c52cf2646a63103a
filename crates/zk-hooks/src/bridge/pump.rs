//! Task that owns the program: writes queued lines and reads replies.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::oneshot;
use tokio::time::timeout;
use zk_core::service::{ExecRequest, Exit, OutputStream, Process, ProcessEvent};

use super::BridgeError;
use super::lines::{BRIDGE_VERSION, EventLine, Hello, Lines, ReplyLine, line};
use super::queue::{Message, Shared, Verdict, Work};

/// Longest time for which output is still read after the program's end.
const LEFTOVER: Duration = Duration::from_millis(500);
/// Bytes of standard error that are kept.
const SAID: usize = 2 << 10;
/// Characters of standard error that a message quotes.
const QUOTED: usize = 200;

/// Starts the program for the first message and serves it until the plugin's scope closes.
pub(super) async fn run(mut work: Work, request: ExecRequest, limit: Duration) {
    let Some(first) = work.messages.recv().await else { return };
    let shared = work.shared.clone();
    let mut askers = Askers::default();
    let error = match start(&shared, &first, request).await {
        Ok(process) => {
            let program = Program { process, lines: Lines::default(), said: Vec::new(), limit };
            program.serve(first, &mut work, &mut askers).await
        }
        Err(error) => {
            askers.add(first.id, first.asker);
            Some(error)
        }
    };
    let Some(error) = error else { return };
    shared.break_off(error.clone());
    askers.fail(&error);
    // Messages that are queued from now on get the same error.
    while let Some(message) = work.messages.recv().await {
        answer(message.asker, Err(error.clone()));
    }
}

async fn start(
    shared: &Shared,
    first: &Message,
    request: ExecRequest,
) -> Result<Box<dyn Process>, BridgeError> {
    let program = || shared.program.clone();
    let Some(exec) = &first.exec else { return Err(BridgeError::NoExec { program: program() }) };
    let started = exec.spawn(request).await;
    started.map_err(|error| BridgeError::Start { program: program(), reason: error.to_string() })
}

/// Callers that wait for replies, by event number.
#[derive(Default)]
struct Askers(HashMap<u64, oneshot::Sender<Verdict>>);

impl Askers {
    fn add(&mut self, id: u64, asker: Option<oneshot::Sender<Verdict>>) {
        let Some(asker) = asker else { return };
        // Drops callers that timed out, so that the map does not grow with unanswered events.
        self.0.retain(|_, asker| !asker.is_closed());
        self.0.insert(id, asker);
    }

    fn fail(&mut self, error: &BridgeError) {
        for (_, asker) in self.0.drain() {
            answer(Some(asker), Err(error.clone()));
        }
    }
}

fn answer(asker: Option<oneshot::Sender<Verdict>>, verdict: Verdict) {
    if let Some(asker) = asker {
        // The caller may have timed out.
        let _ = asker.send(verdict);
    }
}

struct Program {
    process: Box<dyn Process>,
    lines: Lines,
    /// End of the program's standard error.
    said: Vec<u8>,
    /// Time limit for writing a line.
    limit: Duration,
}

impl Program {
    /// Serves the program until it fails, and returns the error; `None` when all senders are gone.
    async fn serve(mut self, first: Message, work: &mut Work, askers: &mut Askers) -> Option<BridgeError> {
        let shared = work.shared.clone();
        if let Err(error) = self.greet(&shared).await {
            askers.add(first.id, first.asker);
            return Some(error);
        }
        if let Err(error) = self.write(first, &shared, askers).await {
            return Some(error);
        }
        loop {
            // Replies first, since they free space in the queue.
            let happened = tokio::select! {
                biased;
                event = self.process.next() => Happened::Process(event),
                message = work.messages.recv() => Happened::Message(message),
            };
            let done = match happened {
                Happened::Message(None) => return None,
                Happened::Message(Some(message)) => self.write(message, &shared, askers).await,
                Happened::Process(Ok(Some(ProcessEvent::Exited(exit)))) => {
                    self.read_leftover(&shared, askers).await;
                    Err(self.ended_error(&shared, &describe(exit)))
                }
                Happened::Process(Ok(Some(ProcessEvent::Closed(OutputStream::Stdout)))) => {
                    // Usually because the program ended.
                    let exit = self.exit_within_grace().await;
                    Err(self.ended_error(&shared, &exit.map_or("closed its output".to_owned(), describe)))
                }
                Happened::Process(Ok(Some(event))) => self.handle_event(event, &shared, askers),
                Happened::Process(Ok(None)) => Err(self.ended_error(&shared, "ended")),
                Happened::Process(Err(error)) => {
                    Err(self.ended_error(&shared, &format!("was lost ({error})")))
                }
            };
            if let Err(error) = done {
                return Some(error);
            }
        }
    }

    async fn greet(&mut self, shared: &Shared) -> Result<(), BridgeError> {
        let data = Hello { version: BRIDGE_VERSION.to_owned(), plugin: shared.plugin.clone() };
        let hello =
            line(&EventLine { id: 0, event: "bridge:hello", reply: false, run: "", stamp: None, data });
        let hello = hello.map_err(|error| BridgeError::Unwritable {
            program: shared.program.clone(),
            reason: error.to_string(),
        })?;
        self.send(&hello, shared).await
    }

    async fn write(
        &mut self,
        message: Message,
        shared: &Arc<Shared>,
        askers: &mut Askers,
    ) -> Result<(), BridgeError> {
        // A caller that timed out needs no answer.
        let is_awaited = message.asker.as_ref().is_none_or(|asker| !asker.is_closed());
        askers.add(message.id, message.asker);
        let lost = shared.take_lost();
        if let Some(line) = (lost > 0).then(|| shared.lost_line(lost)).flatten() {
            self.send(&line, shared).await?;
        }
        if is_awaited {
            self.send(&message.line, shared).await?;
        }
        drop(message.room);
        Ok(())
    }

    async fn send(&mut self, line: &[u8], shared: &Shared) -> Result<(), BridgeError> {
        match timeout(self.limit, self.process.write(line)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => {
                let mut how = format!("reads no more ({error})");
                // Usually because the program ended.
                if let Some(exit) = self.exit_within_grace().await {
                    how = describe(exit);
                }
                Err(self.ended_error(shared, &how))
            }
            Err(_) => Err(self.ended_error(shared, &format!("read nothing for {:?}", self.limit))),
        }
    }

    /// Waits up to `LEFTOVER` for the program's exit, and processes its last lines.
    async fn exit_within_grace(&mut self) -> Option<Exit> {
        let (ended, said) = self.process.exit_within(LEFTOVER).await;
        self.keep_stderr(&said);
        ended
    }

    /// Processes output from before the program's end, which still counts.
    async fn read_leftover(&mut self, shared: &Shared, askers: &mut Askers) {
        let reading = async {
            while let Ok(Some(event)) = self.process.next().await {
                if self.handle_event(event, shared, askers).is_err() {
                    return;
                }
            }
        };
        let _ = timeout(LEFTOVER, reading).await;
    }

    fn handle_event(
        &mut self,
        event: ProcessEvent,
        shared: &Shared,
        askers: &mut Askers,
    ) -> Result<(), BridgeError> {
        match event {
            ProcessEvent::Output(OutputStream::Stdout, bytes) => {
                let garbage = |reason| BridgeError::Garbage { program: shared.program.clone(), reason };
                for line in self.lines.feed(&bytes).map_err(garbage)? {
                    let reply = ReplyLine::parse(&line).map_err(garbage)?;
                    if !shared.was_issued(reply.id) {
                        return Err(garbage(format!("no event has the id {}", reply.id)));
                    }
                    let verdict = match reply.error {
                        Some(reason) => {
                            let reason = quote(reason.as_bytes());
                            Err(BridgeError::Failed { program: shared.program.clone(), reason })
                        }
                        None => Ok(reply.reply.unwrap_or(Value::Null)),
                    };
                    // Late replies, and replies to events without one, have no caller.
                    answer(askers.0.remove(&reply.id), verdict);
                }
                Ok(())
            }
            ProcessEvent::Output(OutputStream::Stderr, bytes) => {
                self.keep_stderr(&bytes);
                Ok(())
            }
            ProcessEvent::Closed(_) | ProcessEvent::Exited(_) => Ok(()),
        }
    }

    fn keep_stderr(&mut self, bytes: &[u8]) {
        self.said.extend_from_slice(bytes);
        let above = self.said.len().saturating_sub(SAID);
        self.said.drain(..above);
    }

    fn ended_error(&self, shared: &Shared, how: &str) -> BridgeError {
        let last = self.said.split(|byte| *byte == b'\n').rfind(|line| !line.trim_ascii().is_empty());
        let said = last.map_or(String::new(), |line| format!(" (it said: {})", quote(line)));
        BridgeError::Ended { program: shared.program.clone(), how: how.to_owned(), said }
    }
}

enum Happened {
    Process(Result<Option<ProcessEvent>, zk_core::service::ExecError>),
    Message(Option<Message>),
}

fn describe(exit: Exit) -> String {
    match exit {
        Exit::Code(code) => format!("ended with exit code {code}"),
        Exit::Signal(signal) => format!("was ended by signal {signal}"),
        Exit::TimedOut | Exit::Stopped => "was ended".to_owned(),
    }
}

/// Shortens the program's output and makes it safe to print.
fn quote(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).take(QUOTED).collect()
}
