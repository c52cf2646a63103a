//! How conversations are made smaller, as the settings say.

use std::sync::Arc;

use zk_compaction::{Rolling, Shorten, Summary, Tail, ToolPairs, Window};
use zk_core::kernel::Plugin;

use crate::exit::{Failure, Outcome};
use crate::settings::Settings;

/// The owner of the context window and its strategies; none where the settings say so.
pub(crate) fn plugins(settings: &Settings) -> Outcome<Vec<Arc<dyn Plugin>>> {
    let chosen = settings.text("compaction.strategy");
    if !settings.flag("shorten") {
        return match chosen {
            None => Ok(Vec::new()),
            Some(name) => Err(Failure::usage(format!(
                "`shorten = false` leaves every conversation as it is, and `compaction.strategy = \"{name}\"` makes it \
                 smaller: take one of them out of the settings"
            ))),
        };
    }
    let mut plugins: Vec<Arc<dyn Plugin>> = vec![Arc::new(Window::default())];
    if settings.flag("compaction.tail") {
        plugins.push(Arc::new(Tail::default()));
    }
    if settings.flag("compaction.tool_pairs") {
        plugins.push(Arc::new(ToolPairs));
    }
    match chosen {
        Some("shorten") => {}
        Some("rolling") => plugins.push(Arc::new(Rolling)),
        Some(_) | None => plugins.push(Arc::new(Summary)),
    }
    // What needs no model helps where the others cannot.
    plugins.push(Arc::new(Shorten));
    Ok(plugins)
}
