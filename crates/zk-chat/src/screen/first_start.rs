//! Provider dialog before the first conversation, and between two screens of a conversation.

use std::ops::ControlFlow;
use std::sync::Arc;

use zk_core::service::Provider;
use zk_tui::ScreenKind;

use super::host_messages::HostRequest;
use super::pending_input::PendingInput;
use super::terminal_session::{ScreenStart, TerminalSession};
use crate::conversation::chat::Chat;
use crate::conversation::wanted_screen::WantedSignIn;
use crate::opening::error::ChatError;
use crate::opening::factory::ConversationFactory;
use crate::opening::start::ChatEnd;
use crate::sign_in::{Choice, Purpose, TerminalDialog, choose};

/// Runs the provider dialog if no provider is configured, then rereads the settings.
pub(crate) fn run_if_needed(session: &mut TerminalSession) -> Result<ControlFlow<ChatEnd>, ChatError> {
    let Some(access) = session.factory.provider_access() else { return Ok(ControlFlow::Continue(())) };
    if !session.runtime.block_on(access.is_missing()) {
        return Ok(ControlFlow::Continue(()));
    }
    match run_dialog(session, Purpose::FirstStart)? {
        Choice::Provider { .. } => {
            let read = session.factory.reread().map_err(ChatError::Factory)?;
            session.factory = read.factory;
            Ok(ControlFlow::Continue(()))
        }
        Choice::Demo => Ok(ControlFlow::Break(ChatEnd::Demo)),
        // Opening the conversation reports the missing provider.
        Choice::Left => Ok(ControlFlow::Continue(())),
    }
}

/// Next step after a sign-in in a conversation.
pub(crate) enum SignedIn {
    /// Continue the conversation.
    GoOn(ScreenStart),
    /// Reopen the conversation, since its provider used another credential.
    Reload { factory: Arc<dyn ConversationFactory>, chat: Box<Chat>, pending: PendingInput },
}

/// Runs the provider dialog while the conversation is not drawn.
pub(crate) fn log_in(
    session: &mut TerminalSession,
    wanted: WantedSignIn,
    chat: Box<Chat>,
    mut pending: PendingInput,
    kind: ScreenKind,
) -> Result<SignedIn, ChatError> {
    if kind == ScreenKind::Plain {
        *chat.lines() = None;
    }
    let mut said = None;
    if let Choice::Provider { name, model } = run_dialog(session, Purpose::LogIn(wanted.provider))? {
        let is_open = chat.agent.bus().item::<dyn Provider>(&name).is_some();
        let model = model.map_or(String::new(), |model| format!(" {model}"));
        let line = HostRequest::Line(format!("/provider {name}{model}"));
        match is_open.then(|| chat.reread()) {
            None => pending.work.insert(0, line),
            Some(Ok(factory)) => {
                pending.work.insert(0, line);
                return Ok(SignedIn::Reload { factory, chat, pending });
            }
            Some(Err(why)) => said = Some(format!("{name} goes on with the key of before: {why}")),
        }
    }
    // A switch to plain lines is announced, unless there is another message.
    let said = said.or_else(|| (kind == ScreenKind::Plain).then(String::new));
    Ok(SignedIn::GoOn(ScreenStart::GoOn { chat, pending, said }))
}

fn run_dialog(session: &TerminalSession, purpose: Purpose) -> Result<Choice, ChatError> {
    let Some(access) = session.factory.provider_access() else { return Ok(Choice::Left) };
    let setup = session.factory.setup();
    let is_drawn = setup.screen_kind() != ScreenKind::Plain;
    session.runtime.block_on(async {
        let (abilities, screen) = (setup.drawn_abilities(), setup.plain_screen());
        let mut dialog = TerminalDialog::begin(&session.guard, is_drawn, abilities, screen)?;
        let choice = choose(&mut dialog, &*access, purpose).await;
        dialog.end().await;
        choice
    })
}
