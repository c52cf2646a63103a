use std::sync::Arc;

use async_trait::async_trait;
use zk_core::kernel::{Bus, Plugin};
use zk_core::model::SessionId;
use zk_session::{SessionPlace, SwitchHost};

use crate::app::{AppContext, Workplace};
use crate::args::Resume;
use crate::exit::{Failure, Outcome};
use crate::sessions::{self, Session};
use crate::{compose, place};

/// Switch between the sessions of a conversation of this program.
pub(crate) type SessionSwitch = zk_session::SessionSwitch<SwitchSettings>;

/// Places and plugins of the sessions, as the settings say.
pub(crate) struct SwitchSettings {
    pub(crate) app: AppContext,
    pub(crate) bus: Bus,
}

impl SwitchSettings {
    /// The working directories at present: a new session belongs to them, and a turn may have changed them.
    fn work(&self) -> Workplace {
        let cwd = place::current_dir(&self.app.work, &self.app.settings, &self.bus.cx());
        Workplace { cwd, ..self.app.work.clone() }
    }
}

#[async_trait]
impl SwitchHost for SwitchSettings {
    type Error = Failure;

    fn place(&self) -> SessionPlace {
        sessions::place(&self.work(), &self.app.settings)
    }

    async fn begin(&self, id: Option<&SessionId>) -> Outcome<Session> {
        let resume = id.map(|id| Resume::Id(id.to_string()));
        sessions::begin(&self.work(), &self.app.settings, resume.as_ref()).await
    }

    fn parts(&self, session: &Session) -> Outcome<Vec<Arc<dyn Plugin>>> {
        sessions::parts::session_parts(&self.app, session)
    }

    fn overrides_model(&self) -> bool {
        self.app.settings.program.model.is_some()
    }

    fn overrides_thinking(&self) -> bool {
        compose::thinking_is_overridden(&self.app.settings)
    }
}
