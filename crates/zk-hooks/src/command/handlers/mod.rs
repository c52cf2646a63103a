//! Handlers of the harness's events, which run the hooks and apply their answers.

mod batches;
mod calls;
mod changes;
mod ends;
mod prompts;

use std::sync::Arc;

use zk_core::kernel::Scope;

use super::event::HookEvent;
use super::runner::Runner;

use calls::Calls;

/// Registers the handlers that the hooks of `runner` need.
pub(super) fn register(scope: &Scope, runner: &Arc<Runner>) {
    let has = |events: &[HookEvent]| runner.set.hooks.iter().any(|hook| events.contains(&hook.event));
    use HookEvent as E;
    let of_calls =
        [E::PreToolUse, E::PermissionRequest, E::PostToolUse, E::PostToolUseFailure, E::Notification];
    if has(&of_calls) {
        Calls::register(scope, runner);
    }
    batches::register(scope, runner);
    prompts::register(scope, runner);
    ends::register(scope, runner);
    changes::register(scope, runner);
}
