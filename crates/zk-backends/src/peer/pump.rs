//! Task that owns the program: writes lines, reads its output, and ends it.

use std::sync::{Arc, Weak};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use zk_core::service::{Exit, KillSignal, LineSplitter, OutputStream, Process, ProcessEvent};

use super::{CallError, Incoming, MAX_MESSAGE_BYTES, Peer, Reply};

/// Size of one write in bytes: small enough to be atomic on a pipe, so that a blocked write can be abandoned.
const CHUNK_BYTES: usize = 4096;

/// Time that a write may block before the output is read, since the program may itself be blocked on its
/// output.
const STUCK_PAUSE: Duration = Duration::from_millis(5);

/// Time limit for the program to read its input.
const NOT_READING_LIMIT: Duration = Duration::from_secs(30);

/// Time limits for the program to end: after its input is closed, after `SIGTERM`, and after `SIGKILL`.
const END_WAITS: [Duration; 3] =
    [Duration::from_millis(300), Duration::from_millis(700), Duration::from_millis(700)];

/// Time limit for the exit status of a program that closed its output.
const EXIT_WAIT: Duration = Duration::from_millis(200);

/// Maximum number of output lines that are not messages, after which the connection ends.
const MAX_GARBAGE_LINES: u32 = 200;

pub(super) struct Pump<I: Incoming> {
    process: Box<dyn Process>,
    peer: Weak<Peer>,
    incoming: Arc<I>,
    ending: CancellationToken,
    lines: LineSplitter,
    garbage: u32,
}

/// Reason for the end of the connection.
struct Over(String);

impl<I: Incoming> Pump<I> {
    pub(super) fn new(
        process: Box<dyn Process>,
        peer: Weak<Peer>,
        incoming: Arc<I>,
        ending: CancellationToken,
    ) -> Self {
        Self { process, peer, incoming, ending, lines: LineSplitter::new(MAX_MESSAGE_BYTES), garbage: 0 }
    }

    /// Runs until either side ends the connection, then ends the program and its children.
    pub(super) async fn run(mut self, mut inbox: mpsc::Receiver<Vec<u8>>, gone: CancellationToken) {
        let Over(why) = loop {
            if let Err(over) = self.step(&mut inbox).await {
                break over;
            }
        };
        let why = self.peer.upgrade().map_or(why.clone(), |peer| peer.fail_pending(why));
        self.incoming.ended(&why);
        end_process(&mut *self.process).await;
        gone.cancel();
    }

    async fn step(&mut self, inbox: &mut mpsc::Receiver<Vec<u8>>) -> Result<(), Over> {
        tokio::select! {
            () = self.ending.cancelled() => Err(Over("it was ended".to_owned())),
            line = inbox.recv() => match line {
                Some(line) => self.write(&line).await,
                None => Err(Over("nobody needs it any more".to_owned())),
            },
            event = self.process.next() => {
                let event = event.map_err(|error| Over(error.to_string()))?;
                self.handle_event(event).await
            }
        }
    }

    /// Writes a line. While the write blocks, output is read, since the program may be blocked on it.
    async fn write(&mut self, line: &[u8]) -> Result<(), Over> {
        for chunk in line.chunks(CHUNK_BYTES) {
            let give_up = Instant::now() + NOT_READING_LIMIT;
            loop {
                match timeout(STUCK_PAUSE, self.process.write(chunk)).await {
                    Ok(Ok(())) => break,
                    Ok(Err(error)) => return Err(self.exit_reason_or(error.to_string()).await),
                    Err(_) if self.ending.is_cancelled() => return Err(Over("it was ended".to_owned())),
                    Err(_) if Instant::now() >= give_up => {
                        let seconds = NOT_READING_LIMIT.as_secs();
                        return Err(Over(format!("it read nothing for {seconds} s")));
                    }
                    Err(_) => {}
                }
                if let Ok(event) = timeout(STUCK_PAUSE, self.process.next()).await {
                    let event = event.map_err(|error| Over(error.to_string()))?;
                    self.handle_event(event).await?;
                }
            }
        }
        Ok(())
    }

    async fn handle_event(&mut self, event: Option<ProcessEvent>) -> Result<(), Over> {
        match event {
            Some(ProcessEvent::Output(OutputStream::Stdout, bytes)) => {
                let lines = self.lines.feed(&bytes).map_err(|_| {
                    Over(format!("it sent a message of more than {} MB", MAX_MESSAGE_BYTES >> 20))
                })?;
                lines.iter().try_for_each(|line| self.handle_line(line))
            }
            Some(ProcessEvent::Output(OutputStream::Stderr, bytes)) => {
                self.keep_stderr(&bytes);
                Ok(())
            }
            Some(ProcessEvent::Closed(OutputStream::Stderr)) => Ok(()),
            Some(ProcessEvent::Closed(OutputStream::Stdout)) | None => {
                Err(self.exit_reason_or("it closed its output".to_owned()).await)
            }
            Some(ProcessEvent::Exited(exit)) => {
                // Error output may still arrive after the exit.
                let (_, said) = self.process.exit_within(EXIT_WAIT).await;
                self.keep_stderr(&said);
                Err(Over(describe(exit)))
            }
        }
    }

    /// Reason for the end: the program's exit if it follows at once, since it is more precise than `why`.
    async fn exit_reason_or(&mut self, why: String) -> Over {
        let (exit, said) = self.process.exit_within(EXIT_WAIT).await;
        self.keep_stderr(&said);
        Over(exit.map_or(why, describe))
    }

    fn keep_stderr(&self, bytes: &[u8]) {
        if let Some(peer) = self.peer.upgrade() {
            peer.keep_stderr(bytes);
        }
    }

    fn handle_line(&mut self, line: &[u8]) -> Result<(), Over> {
        let Some(peer) = self.peer.upgrade() else { return Err(Over("nobody needs it any more".to_owned())) };
        let Ok(Value::Object(mut message)) = serde_json::from_slice(line) else {
            // Lines that are not messages are kept as error output: package runners print their progress there.
            peer.keep_stderr(line.get(..line.len().min(1024)).unwrap_or_default());
            peer.keep_stderr(b"\n");
            self.garbage += 1;
            return match self.garbage {
                MAX_GARBAGE_LINES => {
                    Err(Over(format!("it sent {MAX_GARBAGE_LINES} lines that are no messages")))
                }
                _ => Ok(()),
            };
        };
        let id = message.remove("id").filter(|id| !id.is_null());
        let params = message.remove("params").unwrap_or_default();
        match (message.get("method").and_then(Value::as_str), id) {
            (Some(method), Some(id)) => {
                let reply = Reply { id, peer, is_sent: false };
                self.incoming.request(method, params, reply);
                Ok(())
            }
            (Some(method), None) => self.incoming.notification(method, params).map_err(Over),
            (None, Some(id)) => {
                let answer = match message.remove("error") {
                    Some(error) => Err(answer_error(&error)),
                    None => Ok(message.remove("result").unwrap_or_default()),
                };
                peer.deliver_answer(&id, answer);
                Ok(())
            }
            (None, None) => Ok(()),
        }
    }
}

fn answer_error(error: &Value) -> CallError {
    let message = error.get("message").and_then(Value::as_str).unwrap_or("it gave no reason");
    let more = error.get("data").and_then(|data| match data {
        Value::String(text) => Some(text.clone()),
        Value::Object(fields) => fields.values().find_map(Value::as_str).map(ToOwned::to_owned),
        _ => None,
    });
    let message = more.map_or(message.to_owned(), |more| format!("{message}: {more}"));
    CallError::Refused { code: error.get("code").and_then(Value::as_i64).unwrap_or_default(), message }
}

/// Ends the program: closes its input, then terminates it, then kills it with all processes that it started.
async fn end_process(process: &mut dyn Process) {
    // The pipe may be closed already.
    let _ = process.close_input().await;
    for (signal, wait) in
        [None, Some(KillSignal::Terminate), Some(KillSignal::Kill)].into_iter().zip(END_WAITS)
    {
        if let Some(signal) = signal {
            // The process may have ended already.
            let _ = process.kill(signal).await;
        }
        if timeout(wait, wait_for_exit(process)).await.is_ok() && has_no_members(process).await {
            return;
        }
    }
}

async fn wait_for_exit(process: &mut dyn Process) {
    while let Ok(Some(_)) = process.next().await {}
}

/// Whether all processes that the program started have ended.
async fn has_no_members(process: &mut dyn Process) -> bool {
    process.members().await.is_ok_and(|members| members.is_empty())
}

fn describe(exit: Exit) -> String {
    match exit {
        Exit::Code(code) => format!("it ended with exit code {code}"),
        Exit::Signal(signal) => format!("it was ended by signal {signal}"),
        Exit::TimedOut | Exit::Stopped => "it was ended".to_owned(),
    }
}
