//! The commands of the settings as hooks on the bus.

use std::sync::Arc;

use zk_core::kernel::{BoxError, Plugin, plugin_fn};
use zk_exec::{Environment, ProcessExec, Supervision};
use zk_hooks::CommandHooks;

use crate::app::AppContext;

/// The plugins of the hooks, if there are any.
pub(crate) fn plugins(app: &AppContext, children: &Environment, allow_all: bool) -> Vec<Arc<dyn Plugin>> {
    let set = app.settings.hooks();
    if set.is_empty() {
        return Vec::new();
    }
    let notices = app.notices.clone();
    let mode = if allow_all { "bypassPermissions" } else { "default" };
    let mut hooks = CommandHooks::new(set.clone(), &app.project)
        .cwd(&app.cwd)
        .telling(move |text| notices.show(text))
        .permission_mode(move || mode.to_owned());
    let mut plugins: Vec<Arc<dyn Plugin>> = Vec::new();
    // The person's own programs are not held in what holds those of the model.
    if app.settings.text("context") == Some("sandbox") {
        let exec = Arc::new(ProcessExec::supervised(children.clone(), Supervision::of_this_program()));
        hooks = hooks.exec(exec.clone());
        plugins.push(Arc::new(plugin_fn("hooks-exec", move |scope| {
            let exec = exec.clone();
            scope.on_close(async move || exec.close().await);
            Ok::<(), BoxError>(())
        })));
    }
    plugins.push(Arc::new(hooks));
    plugins
}
