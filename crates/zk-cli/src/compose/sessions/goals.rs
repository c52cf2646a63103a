//! The list of this machine's conversations.

use std::sync::Arc;

use zk_core::kernel::Plugin;
use zk_exec::LocalStateFiles;
use zk_goals::{FleetBeacon, FleetDir};

use crate::app::{Machine, Workplace};
use crate::settings::Settings;

/// Returns the list of this user's conversations; `None` without a directory for state.
pub(crate) fn fleet(machine: &Machine) -> Option<FleetDir> {
    Some(FleetDir::new(machine.dirs.fleet()?, Arc::new(LocalStateFiles::default())))
}

/// Returns the plugin that enters a conversation into the list; `None` if nothing of it may be stored on disk.
pub(in crate::compose) fn listing_plugin(work: &Workplace, settings: &Settings) -> Option<Arc<dyn Plugin>> {
    let dir = fleet(&work.machine).filter(|_| settings.program.sessions)?;
    let redactor = work.machine.redactor.clone();
    Some(Arc::new(FleetBeacon::new(dir, redactor, std::process::id(), work.cwd.clone())))
}
