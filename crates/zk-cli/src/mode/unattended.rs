//! Agent of a run without a person.

use zk_agent::Agent;
use zk_core::kernel::Bus;

use super::summary;
use crate::app::AppContext;
use crate::compose::backends::Answering;
use crate::compose::{self, HostOptions};
use crate::exit::Outcome;
use crate::sessions::Session;

/// Puts the agent together; everything that was opened is closed when that fails, but for the session.
pub(crate) async fn open(app: &AppContext, session: &Session, host: HostOptions) -> Outcome<(Agent, Bus)> {
    let used = session.loaded.model.as_ref().map(|model| &*model.provider);
    let answering = Answering::find(app, used, app.endpoint()).await?;
    let bus = compose::bus(app, session, host).await?;
    let built = async {
        let provider = answering.provider(&bus, &app.settings).await?;
        answering.tell_unenforced(&bus, &app.work.machine.notices);
        let model = answering.model(app, &*provider, session, false).await?;
        compose::agent(app, &bus, provider.clone(), model, session, summary::run_error)
    };
    match built.await {
        Ok(agent) => Ok((agent, bus)),
        Err(failure) => {
            bus.close().await;
            Err(failure)
        }
    }
}
