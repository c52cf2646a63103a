use std::sync::Arc;

use zk_core::kernel::Cx;

/// The runs that a run was started by, directly or not: a service of the context of a sub-agent's run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lineage(Vec<Arc<str>>);

impl Lineage {
    pub(crate) fn of(cx: &Cx) -> Option<Arc<Self>> {
        cx.service::<Self>()
    }

    /// The lineage of a run that is started in `cx`.
    pub(crate) fn below(cx: &Cx) -> Self {
        let mut runs = Self::of(cx).map(|above| above.0.clone()).unwrap_or_default();
        runs.push(cx.run_id().into());
        Self(runs)
    }

    pub(crate) fn contains(&self, run: &Arc<str>) -> bool {
        self.0.contains(run)
    }
}
