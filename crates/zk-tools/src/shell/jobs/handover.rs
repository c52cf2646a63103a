use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use super::{Job, Jobs, end_message};

/// Jobs of an ended conversation, for its successor.
#[derive(Clone, Debug, Default)]
pub struct JobHandover {
    jobs: Vec<Arc<Job>>,
    /// Number of started jobs, for the next id.
    started: u32,
    /// Messages about ended jobs that the model has not got yet.
    ends: Vec<String>,
}

impl Jobs {
    /// Hands over the jobs that outlive this conversation: detached and ended ones. The others stay and end
    /// with it.
    #[must_use]
    pub fn hand_over(&self) -> JobHandover {
        let mut jobs = self.jobs();
        let all = std::mem::take(&mut *jobs);
        let (leaving, staying) =
            all.into_iter().partition(|job| job.detached.is_some() || job.phase().is_over());
        *jobs = staying;
        drop(jobs);
        self.count_change();
        JobHandover { jobs: leaving, started: self.next.load(Ordering::Relaxed), ends: self.take_ends() }
    }

    /// Takes over the jobs of the earlier conversation: they keep their ids, and the model learns their ends
    /// with a prompt.
    pub fn take_over(&self, handover: &JobHandover) {
        self.next.fetch_max(handover.started, Ordering::Relaxed);
        self.ends.lock().unwrap_or_else(PoisonError::into_inner).extend(handover.ends.iter().cloned());
        for job in &handover.jobs {
            self.add(job.clone());
            let mut phase = job.phases();
            if phase.borrow_and_update().is_over() {
                continue;
            }
            let (job, changes, ends) = (job.clone(), self.changes.clone(), self.ends.clone());
            tokio::spawn(async move {
                while phase.changed().await.is_ok() {
                    changes.send_modify(|count| *count += 1);
                    if phase.borrow().is_over() {
                        break;
                    }
                }
                if let Some(text) = end_message(&job) {
                    ends.lock().unwrap_or_else(PoisonError::into_inner).push(text);
                }
            });
        }
        self.count_change();
    }
}
