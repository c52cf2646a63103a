//! Hooks that are commands in settings, with the JSON and the exit codes of Claude Code.

mod batches;
mod calls;
mod claude_file;
mod config;
mod ends;
mod event;
mod failure;
mod matcher;
mod names;
mod process;
mod prompts;
mod reply;
mod runner;
mod session;
mod settings_schema;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use zk_core::kernel::{BoxError, Plugin, Scope};
use zk_core::service::Exec;

use calls::Calls;
use runner::Runner;
use session::Session;

pub use config::{CommandHook, HookConfigError, HookSet, HookSource};
pub use event::HookEvent;
pub use failure::HookFailure;
pub use matcher::Matcher;
pub use names::Vocabulary;
pub use settings_schema::settings_schema;

/// Most of a command or of its output that a message quotes, in characters.
const QUOTED: usize = 120;

/// Runs the commands of a [`HookSet`] at the events they are for.
///
/// A hook reads one JSON object from standard input and answers with its exit code and standard output. One that guards
/// something ([`HookEvent::is_gate`]) says *no* by failing in any way: by an error, a time-out, a signal, an answer that is
/// none. Hooks of one event run beside each other, each command once; the strictest answer counts.
///
/// ```no_run
/// use serde_json::json;
/// use zk_core::kernel::Bus;
/// use zk_hooks::{CommandHooks, HookSet, HookSource};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let source = HookSource { place: "settings.toml".into(), is_claude: false, may_allow: true };
/// let hooks = json!({"PreToolUse": [{"matcher": "shell", "command": "/usr/local/bin/guard"}]});
/// let bus = Bus::new();
/// bus.install(&CommandHooks::new(HookSet::read(&hooks, source)?, "/home/me/project"))?;
/// # Ok(())
/// # }
/// ```
#[must_use = "hooks do nothing until they are installed"]
pub struct CommandHooks {
    set: HookSet,
    project: PathBuf,
    cwd: PathBuf,
    stays: bool,
    exec: Option<Arc<dyn Exec>>,
    tell: Arc<dyn Fn(&str) + Send + Sync>,
    permission_mode: Option<Arc<dyn Fn() -> String + Send + Sync>>,
}

impl fmt::Debug for CommandHooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommandHooks").field("set", &self.set).field("cwd", &self.cwd).finish_non_exhaustive()
    }
}

impl CommandHooks {
    /// The hooks of a project, by its root, where they run too. They are started with the `Exec` of the bus.
    pub fn new(set: HookSet, project: impl Into<PathBuf>) -> Self {
        let project = project.into();
        Self {
            set,
            cwd: project.clone(),
            project,
            stays: false,
            exec: None,
            tell: Arc::new(|_| ()),
            permission_mode: None,
        }
    }

    /// Runs hooks outside of turns in another directory of the project; in a turn they run where that works
    /// ([`TurnCwd`](zk_core::service::TurnCwd)).
    pub fn cwd(mut self, cwd: impl Into<PathBuf>) -> Self {
        self.cwd = cwd.into();
        self
    }

    /// Runs hooks in the same directory also during turns, which work on another machine than the hooks.
    pub fn staying(mut self) -> Self {
        self.stays = true;
        self
    }

    /// Starts hooks with `exec`, such as one outside of the sandbox that the bus has for the model's commands.
    pub fn exec(mut self, exec: Arc<dyn Exec>) -> Self {
        self.exec = Some(exec);
        self
    }

    /// Hands words of hooks to the person to `tell`. They are text of any origin.
    pub fn on_notice(mut self, tell: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.tell = Arc::new(tell);
        self
    }

    /// Sets the source of the permission mode that hooks are told: `default`, `acceptEdits`, `auto`, `plan`
    /// or `bypassPermissions`.
    pub fn permission_mode(mut self, mode: impl Fn() -> String + Send + Sync + 'static) -> Self {
        self.permission_mode = Some(Arc::new(mode));
        self
    }
}

impl Plugin for CommandHooks {
    fn name(&self) -> &'static str {
        "command-hooks"
    }

    fn register(&self, scope: &Scope) -> Result<(), BoxError> {
        let runner = Arc::new(Runner {
            set: self.set.clone(),
            project: self.project.clone(),
            cwd: self.cwd.clone(),
            stays: self.stays,
            exec: self.exec.clone(),
            tell: self.tell.clone(),
            permission_mode: self.permission_mode.clone(),
            session: Session::default(),
        });
        let has = |events: &[HookEvent]| self.set.hooks.iter().any(|hook| events.contains(&hook.event));
        use HookEvent as E;
        if has(&[E::PreToolUse, E::PermissionRequest, E::PostToolUse, E::Notification]) {
            Calls::register(scope, &runner);
        }
        batches::register(scope, &runner);
        prompts::register(scope, &runner);
        ends::register(scope, &runner);
        Ok(())
    }
}

/// A text in one line, short enough to quote.
fn shown(text: &str) -> String {
    let mut line: String =
        text.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).take(QUOTED).collect();
    if text.trim().chars().nth(QUOTED).is_some() {
        line.push('…');
    }
    line
}
