//! Vendors, providers, plugins and engines that a team's own program adds to zk.

use std::fmt;
use std::sync::Arc;

use zk_core::kernel::Plugin;
use zk_core::service::SessionStore;
use zk_engine::EngineKind;
use zk_providers::select::ProviderMap;

/// The vendors and providers that can be named, and the plugins beside zk's own.
#[derive(Clone, Default)]
pub(crate) struct Additions {
    pub(crate) providers: ProviderMap,
    pub(crate) plugins: Vec<Arc<dyn Plugin>>,
    /// Store of sessions in place of SQLite files.
    pub(crate) session_store: Option<Arc<dyn SessionStore>>,
    /// Kinds of engines beyond this machine.
    pub(crate) engines: Vec<Arc<dyn EngineKind>>,
}

impl fmt::Debug for Additions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Additions").field("providers", &self.providers).finish_non_exhaustive()
    }
}
