use std::time::Duration;

use tokio::time::Instant;
use zk_permission::ModeSwitch;
use zk_tui::ModelFacts;

use super::host_messages::OpenConversation;
use super::inline::InlineScreen;
use crate::commands::backends::{OWN_PERMISSIONS, active_foreign_backend, backend_title};
use crate::opening::person_exec::PersonExec;
use crate::opening::setup::ExecutionPlace;
use crate::opening::workplace::{Workplace, short_model_title};

/// Interval between checks of the working directory, while there is activity.
const PLACE_CHECK_INTERVAL: Duration = Duration::from_secs(1);

impl InlineScreen {
    /// Facts about model and conversation for the status row.
    pub(super) fn model_facts(&mut self) -> ModelFacts {
        let Some(OpenConversation { agent, .. }) = self.opened.get() else { return ModelFacts::default() };
        let bus = agent.bus();
        let cwd = self.setup.cwd_now(&bus.cx());
        let now = Instant::now();
        // Any command may change the branch, so it is checked regularly while there is activity.
        if self.place.as_ref().is_none_or(|(seen, at, _)| *seen != cwd || now - *at >= PLACE_CHECK_INTERVAL) {
            let place = Workplace::of(&cwd, self.setup.home.as_deref(), &*self.setup.host_files);
            self.place = Some((cwd, now, place));
        }
        let place = self.place.as_ref().map(|(_, _, place)| place.clone()).unwrap_or_default();
        let model = agent.model();
        let backend = active_foreign_backend(agent);
        let mode = match backend.as_ref().filter(|backend| backend.has_own_permissions()) {
            Some(_) => Some(OWN_PERMISSIONS.to_owned()),
            None => bus.service::<ModeSwitch>().map(|modes| modes.name().to_owned()),
        };
        let walls = match self.setup.execution_place {
            ExecutionPlace::ThisMachine if bus.service::<PersonExec>().is_some() => "sandbox",
            ExecutionPlace::ThisMachine => "",
            ExecutionPlace::Container => "container",
            ExecutionPlace::OtherMachine => "other machine",
        };
        let (name, walls) = match &backend {
            Some(backend) => (backend_title(&model), backend.walls()),
            None => (short_model_title(&model.id), walls),
        };
        ModelFacts {
            name,
            window: model.window,
            mode: mode.unwrap_or_default(),
            walls: walls.to_owned(),
            directory: place.directory,
            branch: place.branch,
        }
    }
}
