use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use zk_core::events::ToolPrepare;
use zk_core::kernel::{Answer, Bus, Cx, Handler, Scope};
use zk_core::service::{Exec, ExecError, ExecRequest, Process, ReadExec};
use zk_exec::{Environment, SandboxExec};
use zk_permission::{Mode, PermissionJudge, PrivateFiles};

use crate::app::AppContext;
use crate::containment::ForReads;
use crate::held::DeniedFiles;
use crate::sandbox;

/// Longest wait of a command for the read-only sandbox to be set up.
const SET_UP_TIMEOUT: Duration = Duration::from_secs(10);

/// Files that no read sees, whenever they appear.
pub(crate) struct Unseen {
    pub(crate) denied: Arc<DeniedFiles>,
    /// Credentials of the project that a command judged as a read would pass.
    pub(crate) private: PrivateFiles,
}

/// Provides the read-only sandbox to tools for as long as it stands, and ends it with the bus.
pub(crate) fn provide(
    bus: &Bus,
    app: &AppContext,
    judge: PermissionJudge,
    unseen: Unseen,
    found: ForReads,
    is_in_sandbox: bool,
) {
    let tested = match found {
        ForReads::Tested(exec) => Some(*exec),
        ForReads::Later => None,
        ForReads::Absent => return,
    };
    let scope = bus.scope("reads");
    let reads = Arc::new(Reads {
        app: app.clone(),
        judge,
        unseen,
        scope: scope.clone(),
        is_in_sandbox,
        exec: OnceLock::new(),
        stage: Mutex::new(Stage::Untried),
        attempt: tokio::sync::Mutex::default(),
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

struct Reads {
    app: AppContext,
    judge: PermissionJudge,
    unseen: Unseen,
    scope: Scope,
    /// Whether all commands run in a sandbox.
    is_in_sandbox: bool,
    exec: OnceLock<Arc<SandboxExec>>,
    stage: Mutex<Stage>,
    attempt: tokio::sync::Mutex<()>,
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
        match &stage {
            Stage::Holds(_) => self.judge.hold_reads(),
            Stage::Untried | Stage::Lost | Stage::Refused => self.judge.restrict_reads(),
        }
        std::mem::replace(&mut *now, stage)
    }

    /// Whether another attempt to set it up may find it possible.
    fn is_to_be_tried(&self) -> bool {
        let stage = self.stage.lock().unwrap_or_else(PoisonError::into_inner);
        matches!(*stage, Stage::Untried | Stage::Lost)
    }

    fn hold(self: &Arc<Self>, exec: Arc<SandboxExec>) {
        let exec = self.exec.get_or_init(|| {
            self.unseen.denied.hide_in(&exec);
            exec
        });
        let exec = exec.clone();
        let Some(bus) = self.scope.bus() else { return };
        let scope = bus.scope("reads-held");
        // First: what is judged as a read from here on finds the sandbox.
        scope.provide_service(Arc::new(ReadExec(Arc::new(Held { exec, reads: self.clone() }))));
        self.change(Stage::Holds(scope));
    }

    async fn lose(&self, why: &str) {
        // First: what was judged as a read before finds out that it is none any more.
        let Stage::Holds(scope) = self.change(Stage::Lost) else { return };
        scope.close().await;
        self.warn(why);
    }

    fn warn(&self, why: &str) {
        let then = if self.is_in_sandbox && self.judge.mode() == Mode::Auto {
            "commands that only read run in the sandbox that can write to the project"
        } else {
            "commands that only read are asked about, but for programs without configuration of their own"
        };
        self.app
            .notices
            .show(&format!("warning: {then}, until the read-only sandbox can be set up again: {why}"));
    }

    async fn set_up(self: &Arc<Self>) {
        let _alone = self.attempt.lock().await;
        if !self.is_to_be_tried() {
            return;
        }
        let (known, app) = (self.exec.get().cloned(), self.app.clone());
        let is_first = known.is_none();
        // Waits for a process that sets it up.
        let attempt = tokio::task::spawn_blocking(move || match known {
            Some(exec) => exec.start().map(|_| exec).map_err(|error| error.to_string()),
            None => {
                let environment = Environment::filtered(app.env.without_secrets());
                sandbox::start_for_reads(&app, environment).map(Arc::new).map_err(|failure| failure.message)
            }
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
                    self.app
                        .notices
                        .show("the read-only sandbox is set up again: commands that only read run in it");
                }
            }
            Err(why) if is_first => {
                self.change(Stage::Refused);
                self.warn(&why);
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
        let appeared = self.reads.unseen.private.take_new();
        if !appeared.is_empty() {
            // One that cannot be told is set up anew, with them hidden.
            let _ = self.exec.hide(&appeared);
        }
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
        if event.call.name == "shell" && reads.judge.mode() != Mode::All && reads.is_to_be_tried() {
            reads.set_up().await;
        }
        Ok(None)
    }
}
