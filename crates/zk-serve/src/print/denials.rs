use std::sync::{Arc, Mutex, PoisonError};

use zk_core::events::PermissionDecided;
use zk_core::kernel::{Bus, Cx};

use super::PermissionDenial;

/// The calls of a run that the permission gate refused, in their order.
#[derive(Clone, Debug, Default)]
pub struct Denials(Arc<Mutex<Vec<PermissionDenial>>>);

impl Denials {
    /// Records the refused calls on a bus; `flag` names the flag that chooses a mode.
    pub fn listen(&self, bus: &Bus, flag: fn(&str) -> String) {
        let denials = self.0.clone();
        bus.scope("permission-denials").on_sync(move |decided: &PermissionDecided, _: &Cx| {
            if !decided.allowed {
                denials
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(PermissionDenial::of(decided, flag));
            }
        });
    }

    /// Takes the refused calls out.
    #[must_use]
    pub fn take(&self) -> Vec<PermissionDenial> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
