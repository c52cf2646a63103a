use serde_json::{Map, Value};
use zk_core::kernel::Bus;
use zk_core::model::AgentError;
use zk_core::service::{CallGuard, CallPlace, Tool};

use super::catch::catch_panic;
use crate::ToolSet;

/// Whether a gate decides about calls on this bus ([`CallGuard`]).
pub(crate) fn is_guarded(bus: &Bus) -> bool {
    bus.service::<CallGuard>().is_some()
}

/// Checks that no registered tool of `set` may do more than read, unless a gate decides about calls.
///
/// # Errors
/// [`AgentError::Unguarded`] for the first such tool, by name.
pub(crate) fn check_guarded(bus: &Bus, set: &ToolSet) -> Result<(), AgentError> {
    if is_guarded(bus) {
        return Ok(());
    }
    let place = CallPlace { cx: bus.cx(), cwd: ".".into() };
    let items = bus.items::<dyn Tool>();
    let is_offered = |name: &str, tool: &dyn Tool| set.offers(name, tool, &place);
    let tools = items.iter().map(|item| (&*item.name, &*item.value));
    check_reading(tools.filter(|(name, tool)| is_offered(name, *tool)), &place)
}

/// Checks that none of the tools may do more than read.
///
/// # Errors
/// [`AgentError::Unguarded`] for the first tool that may, or that cannot declare its effects.
pub(super) fn check_reading<'a>(
    mut tools: impl Iterator<Item = (&'a str, &'a dyn Tool)>,
    place: &CallPlace,
) -> Result<(), AgentError> {
    // Effects declared for empty arguments hold for all calls. A call with further effects is refused when it
    // is made.
    let arguments = Value::Object(Map::new());
    let only_reads =
        |tool: &dyn Tool| catch_panic(|| tool.effects(&arguments, place).is_read_only()).unwrap_or(false);
    match tools.find(|(_, tool)| !only_reads(*tool)) {
        Some((name, _)) => Err(AgentError::Unguarded { tool: name.to_owned() }),
        None => Ok(()),
    }
}
