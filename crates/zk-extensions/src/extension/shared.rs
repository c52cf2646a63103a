use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};
use zk_core::kernel::Cx;
use zk_core::service::Progress;

use crate::abilities::OpenTurns;
use crate::config::ExtensionConfig;
use crate::error::ExtensionError;
use crate::link::Link;

/// State of an extension's program.
#[derive(Clone, Default)]
pub enum ExtensionState {
    /// The program is starting.
    #[default]
    Starting,
    /// The program runs, and everything that it registers is registered.
    Ready(Introduction),
    /// The program does not run.
    Down {
        /// Cause, in words.
        reason: String,
        /// Time until it is started again; `None` if it is not.
        again_in: Option<Duration>,
    },
}

impl fmt::Debug for ExtensionState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Starting => f.write_str("Starting"),
            Self::Ready(introduction) => f.debug_tuple("Ready").field(introduction).finish(),
            Self::Down { reason, again_in } => {
                f.debug_struct("Down").field("reason", reason).field("again_in", again_in).finish()
            }
        }
    }
}

/// Answer of a running extension to `hello`.
#[derive(Clone)]
pub struct Introduction {
    /// Name that it calls itself; untrusted text.
    pub name: String,
    /// Version that it gave; untrusted text.
    pub version: String,
    /// Version of the protocol that it speaks.
    pub protocol: String,
    pub(crate) link: Arc<Link>,
}

impl fmt::Debug for Introduction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, version, protocol, link: _ } = self;
        f.debug_struct("Introduction")
            .field("name", name)
            .field("version", version)
            .field("protocol", protocol)
            .finish_non_exhaustive()
    }
}

/// State that all registrations of an extension share.
pub(crate) struct Shared {
    pub(crate) config: ExtensionConfig,
    pub(crate) project: PathBuf,
    cwd: OnceLock<PathBuf>,
    state: watch::Sender<ExtensionState>,
    was_ready: AtomicBool,
    /// Events for which the running program requested to be asked.
    asked: Mutex<BTreeSet<&'static str>>,
    /// Contexts of runs with requests in progress, and the number of these requests.
    runs: Mutex<HashMap<String, (usize, Cx)>>,
    /// Receivers of the output of calls.
    calls: Mutex<HashMap<String, Progress>>,
    /// Turns of backends in progress.
    pub(crate) turns: OpenTurns,
    /// Names that no backend may have.
    reserved: OnceLock<BTreeSet<String>>,
    on_notice: OnceLock<NoticeSink>,
}

/// Receiver of notices about an extension.
pub(crate) type NoticeSink = Arc<dyn Fn(&str) + Send + Sync>;

impl Shared {
    pub(crate) fn new(config: ExtensionConfig, project: PathBuf) -> Arc<Self> {
        let (state, _) = watch::channel(ExtensionState::Starting);
        Arc::new(Self {
            config,
            project,
            cwd: OnceLock::new(),
            state,
            was_ready: AtomicBool::new(false),
            asked: Mutex::default(),
            runs: Mutex::default(),
            calls: Mutex::default(),
            turns: OpenTurns::default(),
            reserved: OnceLock::new(),
            on_notice: OnceLock::new(),
        })
    }

    pub(crate) fn name(&self) -> &str {
        &self.config.name
    }

    /// Working directory of the conversation at its start.
    pub(crate) fn cwd(&self) -> &Path {
        self.cwd.get().unwrap_or(&self.project)
    }

    pub(crate) fn set_cwd(&self, cwd: PathBuf) {
        let _ = self.cwd.set(cwd);
    }

    pub(crate) fn reserve_names(&self, names: BTreeSet<String>) {
        let _ = self.reserved.set(names);
    }

    pub(crate) fn is_reserved(&self, name: &str) -> bool {
        self.reserved.get().is_some_and(|names| names.contains(name))
    }

    pub(crate) fn set_notice(&self, notice: NoticeSink) {
        let _ = self.on_notice.set(notice);
    }

    pub(crate) fn set_state(&self, state: ExtensionState) {
        if matches!(state, ExtensionState::Ready(_)) {
            self.was_ready.store(true, Ordering::Relaxed);
        }
        self.state.send_replace(state);
    }

    pub(crate) fn state(&self) -> ExtensionState {
        self.state.borrow().clone()
    }

    /// Whether the program was ready before, so that its guards are known.
    pub(crate) fn was_ready(&self) -> bool {
        self.was_ready.load(Ordering::Relaxed)
    }

    pub(crate) fn set_asked(&self, events: BTreeSet<&'static str>) {
        *lock(&self.asked) = events;
    }

    pub(crate) fn add_asked_event(&self, event: &'static str) {
        lock(&self.asked).insert(event);
    }

    pub(crate) fn is_asked(&self, event: &str) -> bool {
        lock(&self.asked).contains(event)
    }

    /// Passes a notice for the person to the host.
    pub(crate) fn notice(&self, text: &str) {
        if let Some(notice) = self.on_notice.get() {
            notice(&format!("extension `{}`: {text}", self.name()));
        }
    }

    /// Waits for a program that is starting; fails at once if it does not run.
    pub(crate) async fn ready(&self) -> Result<Introduction, ExtensionError> {
        let mut states = self.state.subscribe();
        let deadline = Instant::now() + self.config.limits.start;
        loop {
            match states.borrow_and_update().clone() {
                ExtensionState::Ready(introduction) => return Ok(introduction),
                ExtensionState::Down { reason, again_in } => {
                    let next = match again_in {
                        Some(pause) => format!("it is started again within {} s", pause.as_secs() + 1),
                        None => "mend it, then `/reload`".to_owned(),
                    };
                    return Err(ExtensionError::Down { name: self.name().to_owned(), reason, next });
                }
                ExtensionState::Starting => {}
            }
            if !matches!(timeout_at(deadline, states.changed()).await, Ok(Ok(()))) {
                let (method, limit) = ("hello".to_owned(), self.config.limits.start);
                return Err(ExtensionError::TimedOut { name: self.name().to_owned(), method, limit });
            }
        }
    }

    /// Sends a request for a run, and waits for its result.
    pub(crate) async fn request(
        &self,
        method: &str,
        params: impl Serialize + Send,
        limit: Duration,
        cx: &Cx,
    ) -> Result<Value, ExtensionError> {
        let introduction = self.ready().await?;
        let _working = self.track_run(cx);
        introduction.link.request(method, params, limit, cx.stop_token()).await
    }

    /// Reads the result of a request.
    pub(crate) fn read<T: serde::de::DeserializeOwned>(
        &self,
        method: &str,
        value: Value,
    ) -> Result<T, ExtensionError> {
        serde_json::from_value(value).map_err(|error| ExtensionError::Answer {
            name: self.name().to_owned(),
            what: method.to_owned(),
            reason: error.to_string(),
        })
    }

    /// Link of the running program.
    pub(crate) fn link(&self) -> Option<Arc<Link>> {
        match &*self.state.borrow() {
            ExtensionState::Ready(introduction) => Some(introduction.link.clone()),
            ExtensionState::Starting | ExtensionState::Down { .. } => None,
        }
    }

    fn track_run(&self, cx: &Cx) -> Working<'_> {
        let run = cx.run_id().to_owned();
        let mut runs = lock(&self.runs);
        runs.entry(run.clone()).or_insert_with(|| (0, cx.clone())).0 += 1;
        Working { shared: self, run }
    }

    /// Returns the context of a run with a request in progress: of the run with this id, or of any run.
    pub(crate) fn run_cx(&self, run: Option<&str>) -> Option<Cx> {
        let runs = lock(&self.runs);
        let found = match run {
            Some(run) => runs.get(run),
            None => runs.iter().find(|(run, _)| !run.is_empty()).map(|(_, entry)| entry),
        };
        found.map(|(_, cx)| cx.clone())
    }

    /// Receives the output of a call until the returned guard is dropped.
    pub(crate) fn watch_call(&self, call: &str, progress: &Progress) -> WatchedCall<'_> {
        lock(&self.calls).insert(call.to_owned(), progress.clone());
        WatchedCall { shared: self, call: call.to_owned() }
    }

    pub(crate) fn progress(&self, call: &str) -> Option<Progress> {
        lock(&self.calls).get(call).cloned()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Work of the extension for a run.
struct Working<'a> {
    shared: &'a Shared,
    run: String,
}

impl Drop for Working<'_> {
    fn drop(&mut self) {
        let mut runs = lock(&self.shared.runs);
        let is_last = runs.get_mut(&self.run).is_some_and(|(count, _)| {
            *count = count.saturating_sub(1);
            *count == 0
        });
        if is_last {
            runs.remove(&self.run);
        }
    }
}

/// Call whose output is received.
pub(crate) struct WatchedCall<'a> {
    shared: &'a Shared,
    call: String,
}

impl Drop for WatchedCall<'_> {
    fn drop(&mut self) {
        lock(&self.shared.calls).remove(&self.call);
    }
}
