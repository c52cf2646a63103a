//! The commands of the settings as hooks on the bus.

use std::sync::Arc;

use zk_core::kernel::Plugin;
use zk_core::service::Exec;
use zk_hooks::CommandHooks;
use zk_permission::{Mode, ModeSwitch};

use crate::app::Workplace;
use crate::settings::Settings;

/// Returns the plugin of the hooks, if there are any. They run with `own` on this machine, outside of the
/// sandbox of the model's commands.
pub(crate) fn plugin(
    work: &Workplace,
    settings: &Settings,
    own: Arc<dyn Exec>,
    modes: ModeSwitch,
) -> Option<Arc<dyn Plugin>> {
    let set = settings.hooks();
    if set.is_empty() {
        return None;
    }
    let notices = work.machine.notices.clone();
    let hooks = CommandHooks::new(set.clone(), &work.project)
        .exec(own)
        .cwd(&work.cwd)
        .on_notice(move |text| notices.show(text))
        .permission_mode(move || mode_name(modes.chosen()).to_owned());
    Some(Arc::new(if settings.context().is_on_another_machine() { hooks.staying() } else { hooks }))
}

/// Returns the name of a permission mode that hooks get, as in Claude Code.
fn mode_name(mode: Mode) -> &'static str {
    match mode {
        Mode::ReadOnly => "plan",
        Mode::Ask => "default",
        Mode::AcceptEdits => "acceptEdits",
        Mode::Auto => "auto",
        Mode::All => "bypassPermissions",
    }
}
