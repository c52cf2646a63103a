use std::sync::Arc;

use zk_agent::Agent;
use zk_view::ViewDriver;

use crate::conversation::wanted_screen::WantedScreen;
use crate::opening::factory::ConversationFactory;
use crate::opening::sessions::ConversationSessions;

/// Parts of a conversation that the informational commands read.
pub(crate) struct InfoContext {
    pub(crate) agent: Agent,
    pub(crate) sessions: Arc<dyn ConversationSessions>,
    pub(crate) factory: Arc<dyn ConversationFactory>,
    pub(crate) view: ViewDriver,
    pub(crate) wanted: WantedScreen,
}
