//! Command hooks of settings, with the JSON and the exit codes of Claude Code.

mod claude_file;
mod config;
mod event;
mod failure;
mod file_watcher;
mod handlers;
mod matcher;
mod names;
mod process;
mod reply;
mod runner;
mod session;
mod settings_schema;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use zk_core::kernel::{BoxError, Plugin, Scope};
use zk_core::service::Exec;

use runner::Runner;
use session::Session;

pub use config::{CommandHook, HookConfigError, HookSet, HookSource};
pub use event::HookEvent;
pub use failure::HookFailure;
pub use file_watcher::{FilePatternError, FileWatcher};
pub use matcher::Matcher;
pub use names::{Vocabulary, claude_arguments, claude_name, zk_name};
pub use settings_schema::settings_schema;

/// Maximum number of characters of a command or of output that a message quotes.
const MAX_QUOTED_CHARS: usize = 120;

/// Plugin that runs the commands of a [`HookSet`] at their events.
///
/// A hook reads one JSON object from standard input and answers with its exit code and standard output. A
/// gate hook ([`HookEvent::is_gate`]) refuses if it fails in any way: by an error, a time-out, a signal or an
/// invalid answer. The hooks of an event run in parallel, each command once; the strictest answer wins.
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
    name: &'static str,
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
    /// Hooks that run in `project`, the root of the project. They are started with the bus's `Exec`.
    pub fn new(set: HookSet, project: impl Into<PathBuf>) -> Self {
        let project = project.into();
        Self {
            name: "command-hooks",
            set,
            cwd: project.clone(),
            project,
            stays: false,
            exec: None,
            tell: Arc::new(|_| ()),
            permission_mode: None,
        }
    }

    /// Sets the plugin's name, for a bus with several sets of hooks.
    pub fn named(mut self, name: &'static str) -> Self {
        self.name = name;
        self
    }

    /// Sets the directory of hooks outside of turns; during a turn they run in its directory
    /// ([`TurnCwd`](zk_core::service::TurnCwd)).
    pub fn cwd(mut self, cwd: impl Into<PathBuf>) -> Self {
        self.cwd = cwd.into();
        self
    }

    /// Runs hooks in the same directory during turns, too: for turns that work on another machine.
    pub fn staying(mut self) -> Self {
        self.stays = true;
        self
    }

    /// Starts hooks with `exec`, for example outside of the sandbox of the model's commands.
    pub fn exec(mut self, exec: Arc<dyn Exec>) -> Self {
        self.exec = Some(exec);
        self
    }

    /// Sets the receiver of hooks' messages to the person; they are untrusted text.
    pub fn on_notice(mut self, tell: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.tell = Arc::new(tell);
        self
    }

    /// Sets the source of the permission mode in hooks' input: `default`, `acceptEdits`, `auto`, `plan` or
    /// `bypassPermissions`.
    pub fn permission_mode(mut self, mode: impl Fn() -> String + Send + Sync + 'static) -> Self {
        self.permission_mode = Some(Arc::new(mode));
        self
    }
}

impl Plugin for CommandHooks {
    fn name(&self) -> &'static str {
        self.name
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
        handlers::register(scope, &runner);
        Ok(())
    }
}

/// Shortens a text to one line for quoting.
fn quote_line(text: &str) -> String {
    let mut line: String =
        text.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).take(MAX_QUOTED_CHARS).collect();
    if text.trim().chars().nth(MAX_QUOTED_CHARS).is_some() {
        line.push('…');
    }
    line
}
