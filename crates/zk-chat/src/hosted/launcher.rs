use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Map, Value};
use zk_core::kernel::{BoxError, Plugin};
use zk_core::model::{EntryId, SessionId};
use zk_core::service::{Provider, SessionStore};

use crate::opening::factory::ConversationFactory;

/// Session that a launched conversation begins with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LaunchSession {
    /// New session.
    #[default]
    New,
    /// New session with this id.
    Named(String),
    /// The newest of the directory.
    Latest,
    /// Stored session with this id prefix.
    Stored(String),
}

/// Decorator of the providers of a conversation.
pub type ProviderLayer = Arc<dyn Fn(Arc<dyn Provider>) -> Arc<dyn Provider> + Send + Sync>;

/// Request of another program for a conversation.
#[derive(Clone, Default)]
pub struct LaunchRequest {
    /// Working directory; by default the program's own.
    pub cwd: Option<PathBuf>,
    /// Additional working directories.
    pub add_dirs: Vec<PathBuf>,
    /// Session to begin with.
    pub session: LaunchSession,
    /// Settings by dotted key, such as `permissions.mode`; they override files and the command line.
    pub settings: Map<String, Value>,
    /// Plugins of this conversation alone, installed after the program's own.
    pub plugins: Vec<Arc<dyn Plugin>>,
    /// Sub-agents in JSON, such as `{"reviewer": {"description": "…", "prompt": "…"}}`; they replace those of
    /// the command line.
    pub agents: Option<String>,
    /// Decorator of each provider that the conversation opens.
    pub provider_layer: Option<ProviderLayer>,
    /// Directories of additional bundles.
    pub bundle_dirs: Vec<PathBuf>,
    /// Whether only the MCP servers in `settings` are started, and none of files, projects and bundles.
    pub only_its_servers: bool,
    /// Whether no hook of settings, projects and bundles runs, but those of the machine's manager.
    pub only_managed_hooks: bool,
    /// Whether commands run in the sandbox of this machine; without one there is no conversation.
    pub needs_sandbox: bool,
}

impl fmt::Debug for LaunchRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LaunchRequest")
            .field("cwd", &self.cwd)
            .field("session", &self.session)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

/// Opens conversations for other programs, each with its own directory, settings and plugins.
#[async_trait]
pub trait ConversationLauncher: Send + Sync {
    /// Reads the settings for a conversation and returns its factory.
    ///
    /// # Errors
    /// When the directory or a setting cannot be used.
    fn launch(&self, request: &LaunchRequest) -> Result<Arc<dyn ConversationFactory>, BoxError>;

    /// The store of all sessions.
    ///
    /// # Errors
    /// When sessions are not stored.
    fn store(&self) -> Result<Arc<dyn SessionStore>, BoxError>;

    /// Copies a stored session, optionally only up to `entry`, and returns the copy's id.
    ///
    /// # Errors
    /// When there is no such session or entry, or the copy cannot be written.
    async fn copy(&self, id: &SessionId, entry: Option<&EntryId>) -> Result<SessionId, BoxError>;
}
