use std::sync::Arc;

use zk_core::service::Exec;

/// Executor of the person's commands that the sandbox would bound: `cx.service::<PersonExec>()`. Absent where
/// they run as the model's do.
pub(crate) struct PersonExec(pub(crate) Arc<dyn Exec>);
