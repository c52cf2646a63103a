use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use zk_core::events::ToolPrepare;
use zk_core::kernel::{Answer, Bus, Cx, Handler, Scope};
use zk_core::service::{Exec, ExecError, ExecRequest, Process, ReadExec};

use crate::SandboxExec;

/// Longest wait of a command for the set-up of the read-only sandbox.
const SET_UP_TIMEOUT: Duration = Duration::from_secs(10);

type Make = dyn Fn() -> Result<SandboxExec, String> + Send + Sync;
type OnMade = dyn Fn(&Arc<SandboxExec>) + Send + Sync;
type OnNotice = dyn Fn(ReadSandboxNotice<'_>) + Send + Sync;

/// Sandbox of read-only calls that run without approval. It provides the service [`ReadExec`] while it is set
/// up, which happens before the first command that needs it, and again after a loss.
pub struct ReadSandbox {
    make: Arc<Make>,
    tested: Option<SandboxExec>,
    on_made: Box<OnMade>,
    on_change: Box<dyn Fn(bool) + Send + Sync>,
    on_notice: Box<OnNotice>,
    is_wanted: Box<dyn Fn() -> bool + Send + Sync>,
    appeared: Box<dyn Fn() -> Vec<PathBuf> + Send + Sync>,
}

/// Notice to a person about the read-only sandbox.
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
    /// Read-only sandbox that `make` tests and builds, on a thread that may block.
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

    /// Uses this sandbox, which was already tested.
    #[must_use]
    pub fn tested(self, exec: SandboxExec) -> Self {
        Self { tested: Some(exec), ..self }
    }

    /// Calls `tell` with the sandbox once it is built.
    #[must_use]
    pub fn on_made(self, tell: impl Fn(&Arc<SandboxExec>) + Send + Sync + 'static) -> Self {
        Self { on_made: Box::new(tell), ..self }
    }

    /// Calls `tell` when the sandbox becomes available or is lost; the judge of read-only calls listens to
    /// this.
    #[must_use]
    pub fn on_change(self, tell: impl Fn(bool) + Send + Sync + 'static) -> Self {
        Self { on_change: Box::new(tell), ..self }
    }

    /// Calls `tell` with notices for the person.
    #[must_use]
    pub fn on_notice(self, tell: impl Fn(ReadSandboxNotice<'_>) + Send + Sync + 'static) -> Self {
        Self { on_notice: Box::new(tell), ..self }
    }

    /// Asks `is_wanted` before each attempt to set the sandbox up.
    #[must_use]
    pub fn wanted_if(self, is_wanted: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self { is_wanted: Box::new(is_wanted), ..self }
    }

    /// Asks `appeared` before each command for more files to hide, as absolute physical paths.
    #[must_use]
    pub fn hide_appeared(self, appeared: impl Fn() -> Vec<PathBuf> + Send + Sync + 'static) -> Self {
        Self { appeared: Box::new(appeared), ..self }
    }

    /// Provides the sandbox to the tools of `bus`, and closes it with the bus.
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
            reads.provide_sandbox(Arc::new(exec));
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
    /// The sandbox is available; tools find it through this scope.
    Holds(Scope),
    /// The sandbox was available, and cannot be set up any more.
    Lost,
    /// The first attempt to set the sandbox up failed.
    Refused,
}

impl Reads {
    /// Changes the stage, and tells the judge in the same step whether the sandbox is available.
    fn set_stage(&self, stage: Stage) -> Stage {
        let mut now = self.stage.lock().unwrap_or_else(PoisonError::into_inner);
        (self.sandbox.on_change)(matches!(stage, Stage::Holds(_)));
        std::mem::replace(&mut *now, stage)
    }

    /// Whether another attempt to set it up may succeed.
    fn may_retry(&self) -> bool {
        let stage = self.stage.lock().unwrap_or_else(PoisonError::into_inner);
        matches!(*stage, Stage::Untried | Stage::Lost)
    }

    fn provide_sandbox(self: &Arc<Self>, exec: Arc<SandboxExec>) {
        let exec = self.exec.get_or_init(|| {
            (self.sandbox.on_made)(&exec);
            exec
        });
        let exec = exec.clone();
        let Some(bus) = self.scope.bus() else { return };
        let scope = bus.scope("reads-held");
        // Provided before the stage changes, so that calls judged as reads from here on find the sandbox.
        scope.provide_service(Arc::new(ReadExec(Arc::new(Held { exec, reads: self.clone() }))));
        self.set_stage(Stage::Holds(scope));
    }

    /// Hides newly appeared files; no command starts between the check and the hiding.
    fn hide_appeared(&self, exec: &SandboxExec) {
        let _alone = self.hiding.lock().unwrap_or_else(PoisonError::into_inner);
        let appeared = (self.sandbox.appeared)();
        if !appeared.is_empty() {
            // A sandbox that fails here is set up anew, with these files hidden.
            let _ = exec.hide(&appeared);
        }
    }

    async fn withdraw_sandbox(&self, reason: &str) {
        // The stage changes first, so that calls that were already judged as reads fail.
        let Stage::Holds(scope) = self.set_stage(Stage::Lost) else { return };
        scope.close().await;
        (self.sandbox.on_notice)(ReadSandboxNotice::Lost { reason });
    }

    async fn set_up(self: &Arc<Self>) {
        let _alone = self.attempt.lock().await;
        if !self.may_retry() {
            return;
        }
        let (known, make) = (self.exec.get().cloned(), self.sandbox.make.clone());
        let is_first = known.is_none();
        // Blocks until the sandbox's process is set up.
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
                self.provide_sandbox(exec);
                if !is_first {
                    (self.sandbox.on_notice)(ReadSandboxNotice::Restored);
                }
            }
            Err(reason) if is_first => {
                self.set_stage(Stage::Refused);
                (self.sandbox.on_notice)(ReadSandboxNotice::Lost { reason: &reason });
            }
            Err(_) => {}
        }
    }
}

/// Executor of read-only calls. A call that finds the sandbox lost fails: it never runs outside.
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
                self.reads.withdraw_sandbox(&error.to_string()).await;
            }
        }
        process
    }

    async fn spawn_detached(
        &self,
        request: ExecRequest,
        output: &Path,
    ) -> Result<Box<dyn Process>, ExecError> {
        // Always refused: no process may outlive the sandbox.
        self.exec.spawn_detached(request, output).await
    }
}

/// Handler that sets the read-only sandbox up before a call is judged, if the mode needs it and it is not
/// available.
struct SetUp(Arc<Reads>);

impl Handler<ToolPrepare> for SetUp {
    async fn call(&self, event: &ToolPrepare, _: &Cx) -> Answer<ToolPrepare> {
        let reads = &self.0;
        if event.call.name == "shell" && (reads.sandbox.is_wanted)() && reads.may_retry() {
            reads.set_up().await;
        }
        Ok(None)
    }
}
