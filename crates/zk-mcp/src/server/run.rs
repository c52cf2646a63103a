//! Life cycle of a server: attempts, connection, restarts.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use rmcp::model::ServerNotification;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::Server;
use crate::client::{Callers, Connecting, Connection, Handler, ListChanged, OpenQuestions, Watched};
use crate::config::exposure::ServerTrust;
use crate::events::{McpBootstrapEnd, McpBootstrapStart, McpConnect, McpError};
use crate::server::status::{FailureStage, ServerFailure, ServerState};
use crate::transport::stdio::LogSink;

/// First and longest pause before a server is restarted.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(8);
/// Pause between the first steps of servers, so that starting many of them does not block the conversation's
/// thread.
const START_TURN: Duration = Duration::from_millis(4);
/// Maximum number of automatic start attempts since the server last worked for longer than the longest pause.
const MAX_ATTEMPTS: u32 = 5;
/// Time without notifications after which changed lists are listed again, and the longest wait for that.
const QUIET_BEFORE_LISTING: Duration = Duration::from_millis(250);
const MAX_WAIT_FOR_QUIET: Duration = Duration::from_secs(2);
/// Longest pause between listings of a server that keeps announcing changes without changing.
const MAX_REST: Duration = Duration::from_secs(60);

impl Server {
    /// Starts the server, and restarts it after failures. Returns only once the server is closed.
    pub(crate) async fn run(self: Arc<Self>) {
        // Attempts and failures since it last worked for a while, and whether it ever did.
        let (mut attempt, mut failures, mut has_worked) = (0, 0, false);
        while !matches!(self.live.borrow().state, ServerState::Closed) {
            attempt += 1;
            let failure = match self.bootstrap(attempt).await {
                Ok(connection) => {
                    has_worked = true;
                    let began = Instant::now();
                    self.serve(&connection).await;
                    if matches!(self.live.borrow().state, ServerState::Closed) {
                        return;
                    }
                    if began.elapsed() > MAX_PAUSE {
                        (attempt, failures) = (0, 0);
                    }
                    let why = connection.fault();
                    if connection.has_lost_session() {
                        connection.wait_for_settling().await;
                    }
                    connection.close().await;
                    if connection.has_lost_session() && failures == 0 {
                        // Servers end idle sessions, which is no failure yet.
                        failures = 1;
                        self.mark_starting();
                        continue;
                    }
                    self.failure(FailureStage::Connection, began.elapsed(), &why)
                }
                Err(_) if matches!(self.live.borrow().state, ServerState::Closed) => return,
                Err(failure) => failure,
            };
            failures += 1;
            let pause = restart_pause(failures, MAX_PAUSE);
            // Further attempts are useless before a person signs in.
            let again = attempt < MAX_ATTEMPTS && failure.stage != FailureStage::Auth;
            // Only a server that worked before is awaited.
            let state = if again && has_worked {
                ServerState::Starting
            } else {
                ServerState::Failed { error: failure.to_string() }
            };
            self.set_failed(state);
            let retry_in_ms = again.then(|| u64::try_from(pause.as_millis()).unwrap_or(u64::MAX));
            self.announce_failure(&failure, retry_in_ms).await;
            if again {
                let _ = timeout(pause, self.retry.notified()).await;
            } else {
                self.retry.notified().await;
            }
            self.mark_starting();
        }
    }

    /// Marks the server as starting, unless it was closed.
    fn mark_starting(&self) {
        self.live.send_if_modified(|live| {
            let is_closed = matches!(live.state, ServerState::Closed);
            if !is_closed {
                live.state = ServerState::Starting;
            }
            !is_closed
        });
    }

    async fn announce_failure(&self, failure: &ServerFailure, retry_in_ms: Option<u64>) {
        let event = McpError {
            server: failure.server.clone(),
            stage: failure.stage,
            error: failure.to_string(),
            retry_in_ms,
        };
        self.emit(event).await;
        if failure.stage == FailureStage::Auth {
            self.announce_sign_in().await;
        }
    }

    /// Makes one attempt and announces it.
    async fn bootstrap(&self, attempt: u32) -> Result<Arc<Connection>, ServerFailure> {
        let turn = self.shared.turns.lock().await;
        sleep(START_TURN).await;
        drop(turn);
        if matches!(self.live.borrow().state, ServerState::Closed) {
            return Err(self.failure(FailureStage::Start, Duration::ZERO, "the conversation ended"));
        }
        let began = Instant::now();
        *self.begun.lock().unwrap_or_else(PoisonError::into_inner) = Some(began);
        let transport = self.config.transport.as_str().to_owned();
        self.emit(McpBootstrapStart { server: self.config.name.clone(), transport, attempt }).await;
        self.has_offered.send_replace(false);
        self.has_listed_skills.send_replace(false);
        let made = self.connect(began).await;
        let is_ready = matches!(self.live.borrow().state, ServerState::Ready { .. });
        let error = match &made {
            Ok(_) if is_ready => None,
            Ok(_) => Some("its tools are not those that were accepted".to_owned()),
            Err(failure) => Some(failure.to_string()),
        };
        let ok = error.is_none();
        self.announce_end(error).await;
        let connection = made?;
        if ok {
            self.announce(&connection).await;
        }
        Ok(connection)
    }

    /// Announces the end of the current attempt, if that was not done yet.
    pub(super) async fn announce_end(&self, error: Option<String>) {
        let began = self.begun.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(began) = began else { return };
        let duration_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let (server, tools) = (self.config.name.clone(), self.lock_listed().names().len());
        self.emit(McpBootstrapEnd { server, duration_ms, ok: error.is_none(), tools, error }).await;
    }

    /// Announces that the server's tools can be used.
    pub(super) async fn announce(&self, connection: &Connection) {
        let (server, tools) = (self.config.name.clone(), self.lock_listed().names());
        self.emit(McpConnect { server, protocol: connection.protocol(), tools }).await;
    }

    async fn connect(&self, began: Instant) -> Result<Arc<Connection>, ServerFailure> {
        let until = began + self.config.start_cap;
        let failed = |stage, why: String| self.failure(stage, began.elapsed(), &why);
        let late =
            |stage| failed(stage, format!("it took longer than {} s", self.config.start_cap.as_secs_f64()));
        self.check_start().await.map_err(|why| failed(FailureStage::Start, why))?;
        let (shared, config) = (self.shared.clone(), self.config.clone());
        let known = run_blocking(move || shared.eras.load(config.identity())).await;
        let known = known.map_err(|why| failed(FailureStage::Start, why))?;
        let connected = timeout_at(until, self.connecting().connect(known)).await;
        let connected = connected.map_err(|_| late(FailureStage::Handshake))?;
        let connection = Arc::new(connected.map_err(|error| failed(error.stage, error.why))?);
        if known != Some(connection.era()) {
            let (shared, config, era) = (self.shared.clone(), self.config.clone(), connection.era());
            // If storing fails, the era is probed again.
            let _ = run_blocking(move || shared.eras.save(config.identity(), era)).await;
        }
        let listed = timeout_at(until, self.list(&connection)).await;
        listed.map_err(|_| late(FailureStage::List))?.map_err(|why| failed(FailureStage::List, why))?;
        Ok(connection)
    }

    /// Runs the host's check of a start, if there is one; the error is its objection.
    async fn check_start(&self) -> Result<(), String> {
        let Some(check) = self.shared.check.clone() else { return Ok(()) };
        let server = self.config.clone();
        run_blocking(move || check(&server)).await?
    }

    fn connecting(&self) -> Connecting<'_> {
        let log: Option<LogSink> = self.shared.log.clone().map(|log| {
            let name = self.config.name.clone();
            Arc::new(move |bytes: &[u8]| log(&name, bytes)) as LogSink
        });
        let is_sandboxed = self.config.trust == ServerTrust::Sandboxed;
        let handler = Handler {
            server: self.config.name.clone(),
            roots: self.shared.roots.clone(),
            sampling: self.config.sampling,
            callers: Callers::default(),
            changed: Arc::new(ListChanged::default()),
            watched: Watched::default(),
            questions: OpenQuestions::default(),
            answers: self.shared.answers.clone().filter(|_| !is_sandboxed),
            log: log.clone(),
        };
        let exec = if is_sandboxed { &self.shared.programs.sandbox } else { &self.shared.programs.exec };
        Connecting {
            server: &self.config,
            project: &self.shared.project,
            exec: exec.clone(),
            #[cfg(feature = "http")]
            http: &self.shared.http.http,
            #[cfg(feature = "http")]
            making: &self.shared.http.making,
            #[cfg(feature = "http")]
            auth: self.auth.clone(),
            handler,
            log,
            said: self.said.clone(),
            starts: &self.shared.programs.starts,
            pumps: &self.shared.programs.pumps,
        }
    }

    /// Updates the lists until the connection ends.
    async fn serve(&self, connection: &Arc<Connection>) {
        let watch = async {
            self.register_prompts(connection).await;
            self.has_offered.send_replace(true);
            let mut rest = Duration::ZERO;
            loop {
                let began = Instant::now();
                wait_for_quiet(connection.changed()).await;
                // An occasional announcement is handled at once; a call checks the list of tools in any case.
                if began.elapsed() < MAX_REST {
                    sleep(rest).await;
                }
                let before = self.lock_listed().digest();
                self.refresh(connection).await;
                self.list_skills(connection).await;
                self.register_prompts(connection).await;
                rest = next_listing_pause(rest, self.lock_listed().digest() != before);
            }
        };
        // Concurrent with the rest, so that a failure to list skills does not affect tools.
        let skills = async {
            self.list_skills(connection).await;
            self.has_listed_skills.send_replace(true);
            std::future::pending().await
        };
        tokio::select! {
            () = connection.ended.cancelled() => {}
            () = watch => {}
            () = skills => {}
            () = follow_subscription(connection) => {}
        }
    }
}

/// Runs blocking work on another thread.
pub(super) async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, String> {
    tokio::task::spawn_blocking(work).await.map_err(|error| error.to_string())
}

/// Records notifications about changed lists from a stream, and reopens the stream when it breaks. Never
/// returns.
async fn follow_subscription(connection: &Connection) {
    let (mut breaks, mut is_again) = (0, false);
    loop {
        let began = Instant::now();
        match connection.subscribe().await {
            Ok(None) => return std::future::pending().await,
            Ok(Some(mut subscription)) => {
                if is_again {
                    record_all_changed(connection.changed());
                }
                while let Ok(Some(what)) = subscription.next().await {
                    match what {
                        ServerNotification::ToolListChangedNotification(_) => {
                            connection.changed().record_tools_changed();
                        }
                        _ => connection.changed().record_others_changed(),
                    }
                }
            }
            Err(_) => {}
        }
        // Changes since the stream broke are not known.
        record_all_changed(connection.changed());
        is_again = true;
        breaks = if began.elapsed() < MAX_REST { breaks + 1 } else { 1 };
        sleep(restart_pause(breaks, MAX_REST)).await;
    }
}

fn record_all_changed(changed: &ListChanged) {
    changed.record_tools_changed();
    changed.record_others_changed();
}

/// Waits for a notification about a changed list and then for a quiet period, since several notifications may
/// concern one change.
async fn wait_for_quiet(changed: &ListChanged) {
    changed.wait_for_change().await;
    let until = Instant::now() + MAX_WAIT_FOR_QUIET;
    while Instant::now() < until && timeout(QUIET_BEFORE_LISTING, changed.wait_for_change()).await.is_ok() {}
}

/// Returns the pause before the next listing: none if the list had changed, otherwise twice as long. Listing
/// itself may cause a server to notify.
fn next_listing_pause(rest: Duration, was_another: bool) -> Duration {
    if was_another { Duration::ZERO } else { (rest * 2).clamp(QUIET_BEFORE_LISTING, MAX_REST) }
}

/// Returns the pause after this many failures in a row: doubled each time, and different for each server.
fn restart_pause(failures: u32, longest: Duration) -> Duration {
    let doubled = FIRST_PAUSE.saturating_mul(1 << failures.saturating_sub(1).min(8));
    doubled.min(longest).mul_f64(0.75 + fastrand::f64() * 0.25)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_from_one_second_to_eight_and_differ() {
        for (failures, longest) in [(0, 1), (1, 1), (2, 2), (3, 4), (4, 8), (5, 8), (u32::MAX, 8)] {
            let longest = Duration::from_secs(longest);
            let pauses: Vec<Duration> = (0..50).map(|_| restart_pause(failures, MAX_PAUSE)).collect();
            assert!(pauses.iter().all(|one| *one <= longest && *one >= longest.mul_f64(0.75)), "{pauses:?}");
            assert!(pauses.iter().any(|one| *one != pauses[0]), "{failures}");
        }
    }

    #[test]
    fn unchanged_lists_that_are_announced_as_changed_are_listed_ever_more_rarely() {
        let rests =
            std::iter::successors(Some(Duration::ZERO), |rest| Some(next_listing_pause(*rest, false)));
        let rests: Vec<u128> = rests.take(12).map(|rest| rest.as_millis()).collect();
        let expected = [0, 250, 500, 1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000, 60_000];
        assert_eq!(rests, expected);
        assert_eq!(
            next_listing_pause(MAX_REST, true),
            Duration::ZERO,
            "one that is another one is believed again"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_storm_of_changes_is_one_change_and_one_that_never_ends_is_not_waited_out() {
        let changed = Arc::new(ListChanged::default());
        let storm = |count: u32, pause: Duration| {
            let changed = changed.clone();
            async move {
                for _ in 0..count {
                    changed.record_tools_changed();
                    sleep(pause).await;
                }
            }
        };
        let short = tokio::spawn(storm(200, Duration::from_millis(1)));
        wait_for_quiet(&changed).await;
        assert_eq!(changed.count_tool_changes(), 200, "all of it is over");
        short.await.unwrap();
        assert!(
            timeout(MAX_WAIT_FOR_QUIET, wait_for_quiet(&changed)).await.is_err(),
            "nothing more is due for it"
        );
        let endless = tokio::spawn(storm(u32::MAX, Duration::from_millis(100)));
        let began = Instant::now();
        wait_for_quiet(&changed).await;
        assert!(began.elapsed() <= MAX_WAIT_FOR_QUIET + QUIET_BEFORE_LISTING, "{:?}", began.elapsed());
        endless.abort();
    }
}
