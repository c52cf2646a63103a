//! Questions for a provider before a conversation, and between two screens of one.

use std::ops::ControlFlow;

use zk_tui::ScreenKind;

use super::host_messages::HostRequest;
use super::pending_input::PendingInput;
use super::terminal_session::{ScreenStart, TerminalSession};
use crate::conversation::chat::Chat;
use crate::conversation::wanted_screen::WantedSignIn;
use crate::opening::error::ChatError;
use crate::opening::start::ChatEnd;
use crate::sign_in::{Choice, Purpose, TerminalDialog, choose};

/// Has the person choose a provider where nothing says which one to use, and goes on with the settings as they are then.
pub(crate) fn run(session: &mut TerminalSession) -> Result<ControlFlow<ChatEnd>, ChatError> {
    let Some(access) = session.factory.provider_access() else { return Ok(ControlFlow::Continue(())) };
    if !session.runtime.block_on(access.is_missing()) {
        return Ok(ControlFlow::Continue(()));
    }
    match ask(session, Purpose::FirstStart)? {
        Choice::Provider { .. } => {
            let read = session.factory.reread().map_err(ChatError::Factory)?;
            session.factory = read.factory;
            Ok(ControlFlow::Continue(()))
        }
        Choice::Demo => Ok(ControlFlow::Break(ChatEnd::Demo)),
        // Opening says what is missing.
        Choice::Left => Ok(ControlFlow::Continue(())),
    }
}

/// Has the person choose a provider while nobody draws the conversation, which goes on with it.
pub(crate) fn log_in(
    session: &mut TerminalSession,
    wanted: WantedSignIn,
    chat: Box<Chat>,
    mut pending: PendingInput,
    kind: ScreenKind,
) -> Result<ScreenStart, ChatError> {
    if kind == ScreenKind::Plain {
        *chat.lines() = None;
    }
    let said = match ask(session, Purpose::LogIn(wanted.provider))? {
        Choice::Provider { name, model } => {
            let reopened = session.runtime.block_on(session.factory.reopen_provider(&name, &chat.agent));
            match reopened {
                Ok(()) => {
                    let model = model.map_or(String::new(), |model| format!(" {model}"));
                    pending.work.insert(0, HostRequest::Line(format!("/provider {name}{model}")));
                    None
                }
                Err(why) => Some(format!("{name} cannot be used: {why}")),
            }
        }
        Choice::Demo | Choice::Left => Some("the provider stays as it is".to_owned()),
    };
    let said = said.or_else(|| Some(String::new()).filter(|_| kind == ScreenKind::Plain));
    Ok(ScreenStart::GoOn { chat, pending, said })
}

fn ask(session: &TerminalSession, purpose: Purpose) -> Result<Choice, ChatError> {
    let Some(access) = session.factory.provider_access() else { return Ok(Choice::Left) };
    let setup = session.factory.setup();
    let is_drawn = setup.screen_kind() != ScreenKind::Plain;
    session.runtime.block_on(async {
        let (abilities, screen) = (setup.drawn_abilities(), setup.plain_screen());
        let mut dialog = TerminalDialog::begin(&session.guard, is_drawn, abilities, screen)?;
        let choice = choose(&mut dialog, &*access, purpose).await;
        dialog.end();
        choice
    })
}
