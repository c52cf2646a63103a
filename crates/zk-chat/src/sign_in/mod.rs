//! Set-up of a provider: choice, and key or sign-in.

mod dialog;
mod flow;
mod messages;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use zk_tui::plain::Screen;
use zk_tui::term::{self, Restored, TerminalGuard, Tty};
use zk_tui::{ScreenKind, TerminalEnv};

use crate::opening::error::ChatError;
use crate::opening::provider_access::ProviderAccess;
use crate::screen::runtime::Runtime;

pub(crate) use dialog::TerminalDialog;
pub(crate) use flow::{Choice, Purpose, choose};

/// Runs the provider dialog on the terminal, outside of a conversation, and stores the key or sign-in.
/// Returns the name of the provider; `None` if cancelled.
///
/// # Errors
/// [`ChatError`] when the terminal cannot be used.
pub fn sign_in(access: &Arc<dyn ProviderAccess>, env: &TerminalEnv) -> Result<Option<String>, ChatError> {
    chosen_on_terminal(&**access, env, Purpose::LogIn(None))
}

/// Lets the person choose the provider that answers from now on, as [`sign_in`] does, and keeps the choice.
///
/// # Errors
/// [`ChatError`] when the terminal cannot be used.
pub fn set_up(access: &Arc<dyn ProviderAccess>, env: &TerminalEnv) -> Result<Option<String>, ChatError> {
    chosen_on_terminal(&**access, env, Purpose::SetUp)
}

fn chosen_on_terminal(
    access: &dyn ProviderAccess,
    env: &TerminalEnv,
    purpose: Purpose,
) -> Result<Option<String>, ChatError> {
    let tty = Tty::of_stdin(Screen::stdout(env).is_capable()).map_err(ChatError::Terminal)?;
    let guard = TerminalGuard::of_stdin(tty).map_err(ChatError::Terminal)?;
    let _restored = Restored(guard.clone());
    let is_drawn = ScreenKind::chosen(None, env) != ScreenKind::Plain;
    let abilities = term::abilities(env, None, None);
    let chosen = Runtime::new()?.block_on(async {
        let mut dialog = TerminalDialog::begin(&guard, is_drawn, abilities, Screen::stdout(env))?;
        let chosen = choose(&mut dialog, access, purpose).await;
        dialog.end().await;
        chosen
    })?;
    Ok(match chosen {
        Choice::Provider { name, .. } => Some(name),
        Choice::Demo | Choice::Left => None,
    })
}
