use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use zk_core::kernel::Bus;
use zk_core::service::Questions;
use zk_tui::plain::Keyboard;

use super::error::ChatError;
use super::factory::ConversationFactory;
use super::interrupts::{Interruption, Interrupts};

/// Asks the person to approve parts of the project, such as its hooks; returns the factory with the approved
/// parts. The caller cancels `stop` on an interrupt; without `stop`, this function watches for interrupts
/// itself.
pub(crate) async fn ask_for_approval(
    factory: &Arc<dyn ConversationFactory>,
    questions: &Questions,
    keyboard: &Keyboard,
    interrupts: &dyn Interrupts,
    stop: Option<&CancellationToken>,
) -> Result<Arc<dyn ConversationFactory>, ChatError> {
    let Some(unapproved) = factory.unapproved() else { return Ok(factory.clone()) };
    let (stop, is_listened_for) = (stop.cloned().unwrap_or_default(), stop.is_some());
    let watching = (!is_listened_for).then(|| {
        interrupts.arm(stop.clone());
        keyboard.watch(stop.clone())
    });
    let cx = Bus::new().cx().with_stop(stop);
    let approved = unapproved.ask(questions, &cx).await.map_err(ChatError::Factory)?;
    drop(watching);
    if is_listened_for {
        return Ok(approved);
    }
    let seen = interrupts.seen();
    interrupts.disarm();
    match seen {
        Some(Interruption::Terminated) => Err(ChatError::Terminated),
        Some(Interruption::Interrupted) | None => Ok(approved),
    }
}
