use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use zk_core::events::ToolPrepare;
use zk_core::kernel::{Answer, Bus, Cx, Handler, Scope};
use zk_core::service::{Exec, ExecError, ExecRequest, Process, ReadExec};

use crate::SandboxExec;

/// Longest wait of a command for the read-only sandbox to be set up.
const SET_UP_TIMEOUT: Duration = Duration::from_secs(10);

type Make = dyn Fn() -> Result<SandboxExec, String> + Send + Sync;
type OnMade = dyn Fn(&Arc<SandboxExec>) + Send + Sync;
type OnNotice = dyn Fn(ReadSandboxNotice<'_>) + Send + Sync;

/// Sandbox of calls that run unasked because they only read, as the service [`ReadExec`] for as long as it stands. It is
/// set up before the first command that wants it, and again once it was lost.
pub struct ReadSandbox {
    make: Arc<Make>,
    tested: Option<SandboxExec>,
    on_made: Box<OnMade>,
    on_change: Box<dyn Fn(bool) + Send + Sync>,
    on_notice: Box<OnNotice>,
    is_wanted: Box<dyn Fn() -> bool + Send + Sync>,
    appeared: Box<dyn Fn() -> Vec<PathBuf> + Send + Sync>,
}

/// Change of a read-only sandbox that a person is told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadSandboxNotice<'a> {
    /// The sandbox cannot be set up, or not any more.
    Lost {
        /// Cause.
        reason: &'a str,
    },
    /// The sandbox is set up again.
    Restored,
}

impl ReadSandbox {
    /// One that `make` tests and makes, on a thread that may block.
    pub fn new(make: impl Fn() -> Result<SandboxExec, String> + Send + Sync + 'static) -> Self {
        Self {
            make: Arc::new(make),
            tested: None,
            on_made: Box::new(|_| ()),
            on_change: Box::new(|_| ()),
            on_notice: Box::new(|_| ()),
            is_wanted: Box::new(|| true),
            appeared: Box::new(Vec::new),
        }
    }

    /// Takes this sandbox, which was tested and made.
    #[must_use]
    pub fn tested(self, exec: SandboxExec) -> Self {
        Self { tested: Some(exec), ..self }
    }

    /// Calls `tell` with the sandbox once it is made.
    #[must_use]
    pub fn on_made(self, tell: impl Fn(&Arc<SandboxExec>) + Send + Sync + 'static) -> Self {
        Self { on_made: Box::new(tell), ..self }
    }

    /// Calls `tell` whenever it stands or does not stand any more, for whoever judges which calls only read.
    #[must_use]
    pub fn on_change(self, tell: impl Fn(bool) + Send + Sync + 'static) -> Self {
        Self { on_change: Box::new(tell), ..self }
    }

    /// Calls `tell` with what a person is told.
    #[must_use]
    pub fn on_notice(self, tell: impl Fn(ReadSandboxNotice<'_>) + Send + Sync + 'static) -> Self {
        Self { on_notice: Box::new(tell), ..self }
    }

    /// Asks `is_wanted` before it is set up.
    #[must_use]
    pub fn wanted_if(self, is_wanted: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self { is_wanted: Box::new(is_wanted), ..self }
    }

    /// Asks `appeared` before each command for files, absolute and physical, that it hides from then on.
    #[must_use]
    pub fn hide_appeared(self, appeared: impl Fn() -> Vec<PathBuf> + Send + Sync + 'static) -> Self {
        Self { appeared: Box::new(appeared), ..self }
    }

    /// Provides it to the tools of `bus`, and ends it with the bus.
    pub fn provide(mut self, bus: &Bus) {
        let scope = bus.scope("reads");
        let tested = self.tested.take();
        let reads = Arc::new(Reads {
            sandbox: self,
            scope: scope.clone(),
            exec: OnceLock::new(),
            stage: Mutex::new(Stage::Untried),
            attempt: tokio::sync::Mutex::default(),
            hiding: Mutex::default(),
        });
        if let Some(exec) = tested {
            reads.hold(Arc::new(exec));
        }
        scope.handle::<ToolPrepare, _>(Arc::new(SetUp(reads.clone())));
        scope.on_close(async move || {
            if let Some(exec) = reads.exec.get() {
                exec.close().await;
            }
        });
    }
}

impl fmt::Debug for ReadSandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadSandbox").field("tested", &self.tested).finish_non_exhaustive()
    }
}

struct Reads {
    sandbox: ReadSandbox,
    scope: Scope,
    exec: OnceLock<Arc<SandboxExec>>,
    stage: Mutex<Stage>,
    attempt: tokio::sync::Mutex<()>,
    hiding: Mutex<()>,
}

enum Stage {
    Untried,
    /// Tools find the sandbox by this scope.
    Holds(Scope),
    /// The sandbox stood, and cannot be set up any more.
    Lost,
    /// The sandbox could not be set up when it was wanted first.
    Refused,
}

impl Reads {
    /// Changes the stage, and at once whether the judge counts on the sandbox.
    fn change(&self, stage: Stage) -> Stage {
        let mut now = self.stage.lock().unwrap_or_else(PoisonError::into_inner);
        (self.sandbox.on_change)(matches!(stage, Stage::Holds(_)));
        std::mem::replace(&mut *now, stage)
    }

    /// Whether another attempt to set it up may find it possible.
    fn is_to_be_tried(&self) -> bool {
        let stage = self.stage.lock().unwrap_or_else(PoisonError::into_inner);
        matches!(*stage, Stage::Untried | Stage::Lost)
    }

    fn hold(self: &Arc<Self>, exec: Arc<SandboxExec>) {
        let exec = self.exec.get_or_init(|| {
            (self.sandbox.on_made)(&exec);
            exec
        });
        let exec = exec.clone();
        let Some(bus) = self.scope.bus() else { return };
        let scope = bus.scope("reads-held");
        // First: what is judged as a read from here on finds the sandbox.
        scope.provide_service(Arc::new(ReadExec(Arc::new(Held { exec, reads: self.clone() }))));
        self.change(Stage::Holds(scope));
    }

    /// Hides files that have appeared; no command starts between the two steps.
    fn hide_appeared(&self, exec: &SandboxExec) {
        let _alone = self.hiding.lock().unwrap_or_else(PoisonError::into_inner);
        let appeared = (self.sandbox.appeared)();
        if !appeared.is_empty() {
            // One that cannot be told is set up anew, with them hidden.
            let _ = exec.hide(&appeared);
        }
    }

    async fn lose(&self, reason: &str) {
        // First: what was judged as a read before finds out that it is none any more.
        let Stage::Holds(scope) = self.change(Stage::Lost) else { return };
        scope.close().await;
        (self.sandbox.on_notice)(ReadSandboxNotice::Lost { reason });
    }

    async fn set_up(self: &Arc<Self>) {
        let _alone = self.attempt.lock().await;
        if !self.is_to_be_tried() {
            return;
        }
        let (known, make) = (self.exec.get().cloned(), self.sandbox.make.clone());
        let is_first = known.is_none();
        // Waits for a process that sets it up.
        let attempt = tokio::task::spawn_blocking(move || match known {
            Some(exec) => exec.start().map(|_| exec).map_err(|error| error.to_string()),
            None => make().map(Arc::new),
        });
        let found = match tokio::time::timeout(SET_UP_TIMEOUT, attempt).await {
            Ok(Ok(found)) => found,
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("setting it up takes too long".to_owned()),
        };
        match found {
            Ok(exec) => {
                self.hold(exec);
                if !is_first {
                    (self.sandbox.on_notice)(ReadSandboxNotice::Restored);
                }
            }
            Err(reason) if is_first => {
                self.change(Stage::Refused);
                (self.sandbox.on_notice)(ReadSandboxNotice::Lost { reason: &reason });
            }
            Err(_) => {}
        }
    }
}

/// Executor of calls that run unasked because they only read. The call that finds out that its sandbox cannot be set up any
/// more fails: nothing runs in its place.
struct Held {
    exec: Arc<SandboxExec>,
    reads: Arc<Reads>,
}

#[async_trait]
impl Exec for Held {
    async fn spawn(&self, request: ExecRequest) -> Result<Box<dyn Process>, ExecError> {
        self.reads.hide_appeared(&self.exec);
        let process = self.exec.spawn(request).await;
        if process.is_err() {
            let exec = self.exec.clone();
            let attempt = tokio::task::spawn_blocking(move || exec.start().map(drop)).await;
            if let Ok(Err(error)) = attempt {
                self.reads.lose(&error.to_string()).await;
            }
        }
        process
    }

    async fn spawn_detached(
        &self,
        request: ExecRequest,
        output: &Path,
    ) -> Result<Box<dyn Process>, ExecError> {
        // Refuses: nothing outlives the sandbox.
        self.exec.spawn_detached(request, output).await
    }
}

/// Sets the read-only sandbox up before a command is judged, where a mode needs it and it does not stand.
struct SetUp(Arc<Reads>);

impl Handler<ToolPrepare> for SetUp {
    async fn call(&self, event: &ToolPrepare, _: &Cx) -> Answer<ToolPrepare> {
        let reads = &self.0;
        if event.call.name == "shell" && (reads.sandbox.is_wanted)() && reads.is_to_be_tried() {
            reads.set_up().await;
        }
        Ok(None)
    }
}
