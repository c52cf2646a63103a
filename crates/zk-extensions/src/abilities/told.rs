use std::sync::Arc;
use std::time::UNIX_EPOCH;

use zk_core::kernel::{Reach, Scope};

use crate::extension::Shared;
use crate::protocol::EventTold;

/// Sends events of this name to the extension, without waiting. Events that it does not read in time are
/// dropped.
pub(crate) fn observe(scope: &Scope, shared: &Arc<Shared>, name: String) {
    let shared = shared.clone();
    scope.observe_stamped(Reach::Own, move |event, stamp, cx| {
        if event.name() != name {
            return;
        }
        let (Some(link), Ok(data)) = (shared.link(), event.to_json()) else { return };
        let at = stamp.at.duration_since(UNIX_EPOCH).unwrap_or_default();
        link.send_event(EventTold {
            event: event.name(),
            run: cx.run_id(),
            number: stamp.number,
            at_ms: u64::try_from(at.as_millis()).unwrap_or(u64::MAX),
            data,
        });
    });
}
