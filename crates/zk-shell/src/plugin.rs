use std::fmt;

use zk_chat::TerminalLoans;
use zk_core::kernel::{BoxError, Plugin, Scope};
use zk_core::service::{Command, ContextProducer, Tool};

use crate::pump::SharedState;
use crate::shell_access::ShellAccess;
use crate::tools::{ReadShell, RunInShell};
use crate::{commands, context};

/// Plugin of a conversation in the person's shell: context about new commands before a prompt, the command `/shell`,
/// and the tools for the shell.
#[derive(Clone)]
pub(crate) struct ShellPlugin {
    pub(crate) shared: SharedState,
    pub(crate) access: ShellAccess,
    pub(crate) loans: TerminalLoans,
}

impl fmt::Debug for ShellPlugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShellPlugin").finish_non_exhaustive()
    }
}

impl ShellPlugin {
    /// Working directory of the shell.
    pub(crate) fn dir(&self) -> Option<String> {
        self.shared.recorder().dir().map(str::to_owned)
    }
}

impl Plugin for ShellPlugin {
    fn name(&self) -> &'static str {
        "shell-mode"
    }

    fn register(&self, scope: &Scope) -> Result<(), BoxError> {
        scope.provide::<dyn ContextProducer>("shell_events", context::producer(self.shared.clone()))?;
        scope.provide::<dyn Command>("shell", commands::command(self.shared.clone()))?;
        let run = RunInShell::new(self.shared.clone(), self.access.clone(), self.loans.clone());
        scope.provide::<dyn Tool>("run_in_shell", std::sync::Arc::new(run))?;
        scope.provide::<dyn Tool>("read_shell", std::sync::Arc::new(ReadShell::new(self.shared.clone())))?;
        Ok(())
    }
}
