use std::fmt;
use std::sync::Arc;

use zk_core::service::Exec;

/// Executor of the person's commands that the sandbox would bound: `cx.service::<PersonExec>()`. Absent where
/// they run as the model's do.
pub struct PersonExec(pub Arc<dyn Exec>);

impl fmt::Debug for PersonExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PersonExec").finish_non_exhaustive()
    }
}
