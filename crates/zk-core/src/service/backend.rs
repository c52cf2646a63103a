use std::sync::Arc;

use async_trait::async_trait;

use super::Provider;

/// Name of the built-in agent among the backends.
pub const BUILT_IN_BACKEND: &str = "zk";

/// An agent that answers prompts of a conversation: a registry item under its name.
///
/// Turns of a backend reach the conversation as responses of its [`Provider`], so sessions, cards and screens are the
/// same for every backend. The built-in agent is the one without a provider of its own: models of any provider answer,
/// and all tools are zk's.
///
/// ```
/// use std::sync::Arc;
///
/// use zk_core::kernel::Bus;
/// use zk_core::service::{BUILT_IN_BACKEND, Backend, BuiltInBackend};
///
/// let bus = Bus::new();
/// bus.scope("backends").provide::<dyn Backend>(BUILT_IN_BACKEND, Arc::new(BuiltInBackend)).unwrap();
/// assert!(bus.item::<dyn Backend>("zk").unwrap().unenforced().is_empty());
/// ```
#[async_trait]
pub trait Backend: Send + Sync {
    /// Returns the name, which is also the name of its provider.
    fn name(&self) -> &str;

    /// Describes the backend in one line for a person.
    fn describe(&self) -> String;

    /// Returns the provider whose responses are the turns of this backend; `None` for the built-in agent.
    fn provider(&self) -> Option<Arc<dyn Provider>> {
        None
    }

    /// Whether the backend runs its own tools, beyond zk's modes and rules; false if all its calls are calls
    /// of zk's tools.
    fn has_own_permissions(&self) -> bool {
        self.provider().is_some()
    }

    /// Lists the limits that zk cannot enforce here, one per entry. Empty if every call passes zk's own
    /// gates.
    fn unenforced(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns the name of the confinement of the backend's process, such as `sandbox`; empty without one.
    fn walls(&self) -> &str {
        ""
    }

    /// Ends the backend's processes. The next prompt starts them again.
    async fn stop(&self) {}
}

/// The agent of zk itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct BuiltInBackend;

impl Backend for BuiltInBackend {
    fn name(&self) -> &str {
        BUILT_IN_BACKEND
    }

    fn describe(&self) -> String {
        "the agent of zk, with the models of any provider".to_owned()
    }
}
