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
    /// A new one.
    #[default]
    New,
    /// A new one with this id.
    Named(String),
    /// The newest of the directory.
    Latest,
    /// The stored one whose id begins so.
    Stored(String),
}

/// Decorator of the providers of a conversation.
pub type ProviderLayer = Arc<dyn Fn(Arc<dyn Provider>) -> Arc<dyn Provider> + Send + Sync>;

/// Conversation that another program asks for.
#[derive(Clone, Default)]
pub struct LaunchRequest {
    /// Directory to work in; the program's own where none is named.
    pub cwd: Option<PathBuf>,
    /// Directories to work in beside it.
    pub add_dirs: Vec<PathBuf>,
    /// Session to begin with.
    pub session: LaunchSession,
    /// Settings by their dotted keys, such as `permissions.mode`, over those of files and of the command line.
    pub settings: Map<String, Value>,
    /// Plugins of this conversation alone, installed after the program's own.
    pub plugins: Vec<Arc<dyn Plugin>>,
    /// Sub-agents in JSON, such as `{"reviewer": {"description": "…", "prompt": "…"}}`, in place of those of the command line.
    pub agents: Option<String>,
    /// Decorator of each provider that the conversation opens.
    pub provider_layer: Option<ProviderLayer>,
    /// Directories of bundles that it uses beside those of the person.
    pub bundle_dirs: Vec<PathBuf>,
    /// Whether no MCP server of settings, projects and bundles is started beside those of this request.
    pub only_its_servers: bool,
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

/// Opens conversations for other programs, each in a directory, with settings and plugins of its own.
#[async_trait]
pub trait ConversationLauncher: Send + Sync {
    /// Reads what is set for such a conversation, and gives the factory that opens it.
    ///
    /// # Errors
    /// When the directory or a setting cannot be used.
    fn launch(&self, request: &LaunchRequest) -> Result<Arc<dyn ConversationFactory>, BoxError>;

    /// The store of all sessions.
    ///
    /// # Errors
    /// When sessions are not stored.
    fn store(&self) -> Result<Arc<dyn SessionStore>, BoxError>;

    /// Copies a stored session, up to `entry` where one is named, and gives the id of the copy.
    ///
    /// # Errors
    /// When there is no such session or entry, or the copy cannot be written.
    async fn copy(&self, id: &SessionId, entry: Option<&EntryId>) -> Result<SessionId, BoxError>;
}
