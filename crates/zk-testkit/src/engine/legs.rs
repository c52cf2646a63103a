use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use zk_core::model::RunId;
use zk_core::service::{Job, Lease, LegEnd, Legs, RunStatus};

type LegFuture = Pin<Box<dyn Future<Output = LegEnd> + Send>>;

/// Run and lease token of a leg that began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BegunLeg {
    pub(super) run: RunId,
    pub(super) token: u64,
}

/// Legs that a function runs; the begun ones are recorded.
pub(super) struct FnLegs {
    play: Box<dyn Fn(Job, Lease) -> LegFuture + Send + Sync>,
    begun: Mutex<Vec<BegunLeg>>,
}

impl FnLegs {
    pub(super) fn new<F>(play: impl Fn(Job, Lease) -> F + Send + Sync + 'static) -> Arc<Self>
    where
        F: Future<Output = LegEnd> + Send + 'static,
    {
        Arc::new(Self {
            play: Box::new(move |job, lease| Box::pin(play(job, lease))),
            begun: Mutex::default(),
        })
    }

    /// Legs that complete at once.
    pub(super) fn completing() -> Arc<Self> {
        Self::new(|_, _| async { LegEnd::Done(RunStatus::Completed) })
    }

    /// Legs that end as listed, one after another, and complete afterwards.
    pub(super) fn ending_with(ends: impl IntoIterator<Item = LegEnd>) -> Arc<Self> {
        let ends = Mutex::new(ends.into_iter().collect::<std::collections::VecDeque<_>>());
        Self::new(move |_, _| {
            let next = ends.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            async { next.unwrap_or(LegEnd::Done(RunStatus::Completed)) }
        })
    }

    /// Legs that never end by themselves.
    pub(super) fn endless() -> Arc<Self> {
        Self::new(|_, _| std::future::pending())
    }

    pub(super) fn begun(&self) -> Vec<BegunLeg> {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[async_trait]
impl Legs for FnLegs {
    async fn leg(&self, job: &Job, lease: Lease) -> LegEnd {
        let begun = BegunLeg { run: job.run().clone(), token: lease.token() };
        self.begun.lock().unwrap_or_else(PoisonError::into_inner).push(begun);
        (self.play)(job.clone(), lease).await
    }
}
