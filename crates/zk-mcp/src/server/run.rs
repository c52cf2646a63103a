//! The life of a server: attempts, the connection, and what follows its end.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::ServerNotification;
use tokio::time::{Instant, sleep, timeout_at};

use super::Server;
use crate::client::{Callers, Connecting, Connection, Handler, ListChanged, Watched};
use crate::events::{McpBootstrapEnd, McpBootstrapStart, McpConnect, McpError};
use crate::status::{FailureStage, ServerFailure, ServerState};
use crate::stdio::LogSink;

/// The first pause before a server is tried again, and the longest.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(8);
/// How often a server that worked is tried again by itself.
const ATTEMPTS: u32 = 5;
/// How long a server has to be quiet about its lists before they are listed again, and how long it is waited for that.
const QUIET: Duration = Duration::from_millis(250);
const LONGEST_QUIET: Duration = Duration::from_secs(2);

impl Server {
    /// Starts the server, and again when it ends. Never returns.
    pub(crate) async fn run(self: Arc<Self>) {
        // Attempts since it last worked, and whether it ever did.
        let (mut attempt, mut has_worked) = (0, false);
        loop {
            attempt += 1;
            let failure = match self.bootstrap(attempt).await {
                Ok(connection) => {
                    (attempt, has_worked) = (0, true);
                    let began = Instant::now();
                    self.serve(&connection).await;
                    if matches!(self.live.borrow().state, ServerState::Closed) {
                        return;
                    }
                    let why = connection.fault();
                    connection.close().await;
                    self.failure(FailureStage::Connection, began.elapsed(), &why)
                }
                Err(failure) => failure,
            };
            let pause = pause(attempt);
            let again = has_worked && attempt < ATTEMPTS;
            let state = if again {
                ServerState::Starting
            } else {
                ServerState::Failed { error: failure.to_string() }
            };
            self.fail(state);
            let retry_in_ms = again.then(|| u64::try_from(pause.as_millis()).unwrap_or(u64::MAX));
            self.tell(&failure, retry_in_ms).await;
            if again {
                sleep(pause).await;
            } else {
                self.retry.notified().await;
                self.set(ServerState::Starting, None);
            }
        }
    }

    async fn tell(&self, failure: &ServerFailure, retry_in_ms: Option<u64>) {
        let event = McpError {
            server: failure.server.clone(),
            stage: failure.stage,
            error: failure.to_string(),
            retry_in_ms,
        };
        self.emit(event).await;
        if failure.stage == FailureStage::Auth {
            self.tell_of_sign_in().await;
        }
    }

    /// One attempt, with its events.
    async fn bootstrap(&self, attempt: u32) -> Result<Arc<Connection>, ServerFailure> {
        let server = || self.config.name.clone();
        let transport = self.config.transport.as_str().to_owned();
        self.emit(McpBootstrapStart { server: server(), transport, attempt }).await;
        let began = Instant::now();
        let made = self.connect(began).await;
        let tools = self.listed().names();
        let duration_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let error = made.as_ref().err().map(ToString::to_string);
        let (ok, count) = (made.is_ok(), tools.len());
        self.emit(McpBootstrapEnd { server: server(), duration_ms, ok, tools: count, error }).await;
        let connection = made?;
        if matches!(self.live.borrow().state, ServerState::Ready { .. }) {
            self.emit(McpConnect { server: server(), protocol: connection.protocol(), tools }).await;
        }
        Ok(connection)
    }

    async fn connect(&self, began: Instant) -> Result<Arc<Connection>, ServerFailure> {
        let until = began + self.config.start_cap;
        let failed = |stage, why: String| self.failure(stage, began.elapsed(), &why);
        let late =
            |stage| failed(stage, format!("it took longer than {} s", self.config.start_cap.as_secs_f64()));
        self.check_start().await.map_err(|why| failed(FailureStage::Start, why))?;
        let known = self.shared.eras.load(self.config.identity());
        let connected = timeout_at(until, self.connecting().connect(known)).await;
        let connected = connected.map_err(|_| late(FailureStage::Handshake))?;
        let connection = Arc::new(connected.map_err(|error| failed(error.stage, error.why))?);
        if known != Some(connection.era()) {
            self.shared.eras.save(self.config.identity(), connection.era());
        }
        let listed = timeout_at(until, self.list(&connection)).await;
        listed.map_err(|_| late(FailureStage::List))?.map_err(|why| failed(FailureStage::List, why))?;
        Ok(connection)
    }

    /// What the host has against a start.
    async fn check_start(&self) -> Result<(), String> {
        let Some(check) = self.shared.check.clone() else { return Ok(()) };
        let server = self.config.clone();
        let checked = tokio::task::spawn_blocking(move || check(&server)).await;
        checked.map_err(|error| error.to_string())?
    }

    fn connecting(&self) -> Connecting<'_> {
        let log: Option<LogSink> = self.shared.log.clone().map(|log| {
            let name = self.config.name.clone();
            Arc::new(move |bytes: &[u8]| log(&name, bytes)) as LogSink
        });
        let handler = Handler {
            server: self.config.name.clone(),
            roots: self.shared.roots.clone(),
            sampling: self.config.sampling,
            callers: Callers::default(),
            changed: Arc::new(ListChanged::default()),
            watched: Watched::default(),
            answers: self.shared.answers.clone(),
            log: log.clone(),
        };
        Connecting {
            server: &self.config,
            project: &self.shared.project,
            exec: self.shared.exec.clone(),
            #[cfg(feature = "http")]
            http: &self.shared.http,
            #[cfg(feature = "http")]
            auth: self.auth.clone(),
            handler,
            log,
            said: self.said.clone(),
            starts: &self.shared.starts,
            pumps: &self.shared.pumps,
        }
    }

    /// Keeps the lists up to date until the connection ends.
    async fn serve(&self, connection: &Arc<Connection>) {
        let watch = async {
            self.offer(connection).await;
            loop {
                connection.changed().told().await;
                let until = Instant::now() + LONGEST_QUIET;
                while Instant::now() < until
                    && tokio::time::timeout(QUIET, connection.changed().told()).await.is_ok()
                {
                }
                self.refresh(connection).await;
                self.offer_skills(connection).await;
                self.offer(connection).await;
            }
        };
        let subscribed = async {
            if let Some(mut subscription) = connection.subscribe().await {
                while let Ok(Some(what)) = subscription.next().await {
                    match what {
                        ServerNotification::ToolListChangedNotification(_) => {
                            connection.changed().note_tools()
                        }
                        _ => connection.changed().note_others(),
                    }
                }
                // What was missed since is not known.
                connection.changed().note_tools();
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = connection.ended.cancelled() => {}
            () = watch => {}
            () = subscribed => {}
        }
    }
}

/// The pause before the next attempt: twice as long each time, and never the same for two servers.
fn pause(attempt: u32) -> Duration {
    let doubled = FIRST_PAUSE.saturating_mul(1_u32.checked_shl(attempt.min(8)).unwrap_or(u32::MAX));
    doubled.min(LONGEST_PAUSE).mul_f64(0.75 + fastrand::f64() * 0.5)
}
