use std::sync::Arc;

use async_trait::async_trait;
use zk_core::kernel::{BoxError, Cx};
use zk_core::service::{ContextMode, ContextProducer};

use super::Jobs;
use crate::text::one_line;

/// Maximum number of jobs that a request names.
const MAX_NAMED_JOBS: usize = 8;

/// Context producer that lists the running background commands in every request.
#[derive(Debug)]
pub(crate) struct RunningJobs(pub(crate) Arc<Jobs>);

#[async_trait]
impl ContextProducer for RunningJobs {
    fn mode(&self) -> ContextMode {
        ContextMode::PerRequest
    }

    async fn text(&self, _: &Cx) -> Result<Option<String>, BoxError> {
        let running: Vec<_> = self.0.list().into_iter().filter(|job| !job.phase.is_over()).collect();
        if running.is_empty() {
            return Ok(None);
        }
        // Replaces angle brackets, so that a model reads a command as text and not as a tag.
        let name = |command: &str| one_line(command, 80).replace('<', "‹").replace('>', "›");
        let named =
            running.iter().take(MAX_NAMED_JOBS).map(|job| format!("{}: {}", job.id, name(&job.command)));
        let mut text = format!("running in the background: {}", named.collect::<Vec<_>>().join("; "));
        if let Some(more) = running.len().checked_sub(MAX_NAMED_JOBS).filter(|more| *more > 0) {
            text.push_str(&format!("; and {more} more"));
        }
        Ok(Some(text))
    }
}
