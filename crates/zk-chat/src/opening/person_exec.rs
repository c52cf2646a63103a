use std::fmt;
use std::sync::Arc;

use zk_core::service::Exec;

/// Unsandboxed executor for the person's own commands: `cx.service::<PersonExec>()`. Absent if they run like
/// the model's commands.
pub struct PersonExec(pub Arc<dyn Exec>);

impl fmt::Debug for PersonExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PersonExec").finish_non_exhaustive()
    }
}
