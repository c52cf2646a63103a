use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, timeout, timeout_at};
use zk_core::service::{ExecError, Exit, KillSignal, LineSplitter, OutputStream, Process, ProcessEvent};

use super::{Link, LogSink, QueuedLine, Said, Served, quoted};
use crate::protocol::{Cancel, ErrorObject, Incoming, MAX_LINE_BYTES};

/// Maximum number of an extension's requests that are served at the same time.
pub(crate) const MAX_REQUESTS: usize = 64;
/// Size of one write in bytes: small enough to be written atomically, so that a blocked write can be given up.
const CHUNK_BYTES: usize = 4096;
/// Time that a write may block before output is read, since the program may be waiting for that.
const STUCK_PAUSE: Duration = Duration::from_millis(5);
/// Longest time for which the program's last output is read after its end.
const LEFTOVER_WAIT: Duration = Duration::from_millis(300);
/// Time for the program to end after its input was closed.
const CLOSE_GRACE: Duration = Duration::from_millis(300);
/// Time for the program to end after `SIGTERM`, before it is killed.
const TERMINATE_GRACE: Duration = Duration::from_millis(700);

/// Task that owns a program: writes queued lines, reads its output, serves its requests, and ends it.
pub(crate) struct Pump {
    process: Box<dyn Process>,
    link: Arc<Link>,
    host: Arc<dyn Served>,
    lines: LineSplitter,
    said: Said,
    log: Option<LogSink>,
    /// Longest time without the program reading its input.
    reading_limit: Duration,
    serving: JoinSet<String>,
    /// Requests in progress by their ids as JSON.
    requests: HashMap<String, AbortHandle>,
}

enum Happened {
    Queued(Option<QueuedLine>),
    Process(Result<Option<ProcessEvent>, ExecError>),
    Served(Option<String>),
}

impl Pump {
    pub(crate) fn new(
        process: Box<dyn Process>,
        link: Arc<Link>,
        host: Arc<dyn Served>,
        log: Option<LogSink>,
        reading_limit: Duration,
    ) -> Self {
        Self {
            process,
            link,
            host,
            lines: LineSplitter::new(MAX_LINE_BYTES),
            said: Said::default(),
            log,
            reading_limit,
            serving: JoinSet::new(),
            requests: HashMap::new(),
        }
    }

    /// Runs until the program ends or breaks the protocol; returns the reason in words.
    pub(crate) async fn run(&mut self, queue: &mut mpsc::UnboundedReceiver<QueuedLine>) -> String {
        loop {
            let is_serving = !self.serving.is_empty();
            // The order is random, so that a flood of output does not block writing.
            let happened = tokio::select! {
                event = self.process.next() => Happened::Process(event),
                served = self.serving.join_next(), if is_serving => {
                    Happened::Served(served.and_then(Result::ok))
                }
                line = queue.recv() => Happened::Queued(line),
            };
            let done = match happened {
                Happened::Process(event) => self.handle_process(event).await,
                Happened::Served(id) => {
                    id.iter().for_each(|id| drop(self.requests.remove(id)));
                    Ok(())
                }
                Happened::Queued(Some(line)) => self.write(&line.line).await,
                Happened::Queued(None) => return "it is being ended".to_owned(),
            };
            if let Err(reason) = done {
                return format!("{reason}{}", self.said.last_line());
            }
        }
    }

    /// Writes a line. While the write blocks, output is read, because the program may be blocked on it.
    async fn write(&mut self, line: &[u8]) -> Result<(), String> {
        for chunk in line.chunks(CHUNK_BYTES) {
            let give_up = Instant::now() + self.reading_limit;
            loop {
                match timeout(STUCK_PAUSE, self.process.write(chunk)).await {
                    Ok(Ok(())) => break,
                    Ok(Err(error)) => {
                        // Usually because the program ended; its exit is the better explanation.
                        let exit = self.exit_soon().await;
                        return Err(exit.map_or_else(|| format!("reads no more ({error})"), describe));
                    }
                    Err(_) if Instant::now() >= give_up => {
                        return Err(format!("read nothing for {:?}", self.reading_limit));
                    }
                    Err(_) => {}
                }
                if let Ok(event) = timeout(STUCK_PAUSE, self.process.next()).await {
                    self.handle_process(event).await?;
                }
            }
        }
        Ok(())
    }

    async fn handle_process(&mut self, event: Result<Option<ProcessEvent>, ExecError>) -> Result<(), String> {
        match event {
            Ok(Some(ProcessEvent::Output(OutputStream::Stdout, bytes))) => self.handle_output(&bytes),
            Ok(Some(ProcessEvent::Output(OutputStream::Stderr, bytes))) => {
                self.handle_stderr(&bytes);
                Ok(())
            }
            Ok(Some(ProcessEvent::Closed(OutputStream::Stderr))) => Ok(()),
            Ok(Some(ProcessEvent::Closed(OutputStream::Stdout))) => {
                // Usually because the program ended; its exit is the better explanation.
                let exit = self.exit_soon().await;
                Err(exit.map_or_else(|| "closed its output".to_owned(), describe))
            }
            Ok(Some(ProcessEvent::Exited(exit))) => {
                // Answers from before the end are still handled.
                self.read_leftover().await?;
                Err(describe(exit))
            }
            Ok(None) => Err("ended".to_owned()),
            Err(error) => Err(format!("was lost ({error})")),
        }
    }

    async fn exit_soon(&mut self) -> Option<Exit> {
        let (ended, said) = self.process.exit_within(LEFTOVER_WAIT).await;
        self.handle_stderr(&said);
        ended
    }

    async fn read_leftover(&mut self) -> Result<(), String> {
        let until = Instant::now() + LEFTOVER_WAIT;
        while let Ok(Ok(Some(event))) = timeout_at(until, self.process.next()).await {
            match event {
                ProcessEvent::Output(OutputStream::Stdout, bytes) => self.handle_output(&bytes)?,
                ProcessEvent::Output(OutputStream::Stderr, bytes) => self.handle_stderr(&bytes),
                ProcessEvent::Closed(_) | ProcessEvent::Exited(_) => {}
            }
        }
        Ok(())
    }

    fn handle_output(&mut self, bytes: &[u8]) -> Result<(), String> {
        let lines = self.lines.feed(bytes);
        let lines = lines.map_err(|_| format!("printed a line of more than {MAX_LINE_BYTES} bytes"))?;
        for line in lines {
            let message = Incoming::parse(&line)
                .map_err(|reason| format!("printed what is no message ({reason}): {}", quoted(&line)))?;
            self.handle_message(message)?;
        }
        Ok(())
    }

    fn handle_message(&mut self, message: Incoming) -> Result<(), String> {
        match message {
            Incoming::Response { id, result } => match self.link.resolve(id, result) {
                true => Ok(()),
                false => Err(format!("answered request {id}, which there was none of")),
            },
            Incoming::Notification { method, params } if method == "cancel" => {
                if let Ok(Cancel { id }) = serde_json::from_value(params)
                    && let Some(request) = self.requests.remove(&id.to_string())
                {
                    request.abort();
                }
                Ok(())
            }
            Incoming::Notification { method, params } => {
                self.host.handle_notification(&method, params);
                Ok(())
            }
            Incoming::Request { id, method, params } => self.serve(id, method, params),
        }
    }

    fn serve(&mut self, id: Value, method: String, params: Value) -> Result<(), String> {
        // Aborted ones leave no result behind.
        while let Some(served) = self.serving.try_join_next() {
            served.iter().for_each(|id| drop(self.requests.remove(id)));
        }
        if self.serving.len() >= MAX_REQUESTS {
            let message = format!("{MAX_REQUESTS} requests are being served; wait for one of their answers");
            let error = ErrorObject { code: -32000, message };
            return match self.link.try_answer(&id, &Err(error)) {
                true => Ok(()),
                false => Err("sends without reading".to_owned()),
            };
        }
        let (link, host, key) = (self.link.clone(), self.host.clone(), id.to_string());
        let done = key.clone();
        let task = self.serving.spawn(async move {
            let result = host.serve(&method, params).await;
            link.answer(&id, result).await;
            done
        });
        self.requests.insert(key, task);
        Ok(())
    }

    fn handle_stderr(&self, bytes: &[u8]) {
        self.said.append(bytes);
        self.log.iter().for_each(|log| log(bytes));
    }

    /// Ends the program: closes its input, then terminates it, then kills it.
    pub(crate) async fn end(mut self) {
        self.serving.abort_all();
        let _ = self.process.close_input().await;
        if self.wait_for_end(CLOSE_GRACE).await {
            return;
        }
        let _ = self.process.kill(KillSignal::Terminate).await;
        if self.wait_for_end(TERMINATE_GRACE).await {
            return;
        }
        let _ = self.process.kill(KillSignal::Kill).await;
        self.wait_for_end(TERMINATE_GRACE).await;
    }

    /// Waits for the program's end, and reads its last output; returns whether it ended.
    async fn wait_for_end(&mut self, limit: Duration) -> bool {
        let mut until = Instant::now() + limit;
        let mut ended = false;
        loop {
            match timeout_at(until, self.process.next()).await {
                Ok(Ok(Some(ProcessEvent::Exited(_)))) => {
                    ended = true;
                    until = Instant::now() + LEFTOVER_WAIT;
                }
                Ok(Ok(Some(ProcessEvent::Output(OutputStream::Stderr, bytes)))) => self.handle_stderr(&bytes),
                Ok(Ok(Some(ProcessEvent::Output(OutputStream::Stdout, _) | ProcessEvent::Closed(_)))) => {}
                Ok(Ok(None) | Err(_)) => return true,
                Err(_) => return ended,
            }
        }
    }
}

fn describe(exit: Exit) -> String {
    match exit {
        Exit::Code(code) => format!("ended with exit code {code}"),
        Exit::Signal(signal) => format!("was ended by signal {signal}"),
        Exit::TimedOut | Exit::Stopped => "was ended".to_owned(),
    }
}
