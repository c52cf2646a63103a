use std::sync::Arc;

use rmcp::model::ServerPeerInfo;
use rmcp::service::{Peer, RoleClient, RunningService};
use tokio::sync::Mutex;

use super::handler::Handler;

/// Access to the state of a connection in `rmcp` behind a trait. Otherwise the compiler proves for each
/// future that holds a server that all message types are `Send`, which doubles the compile time of this
/// crate.
pub(super) trait Library: Send + Sync {
    fn state(&self) -> &LibraryState;
}

pub(super) struct LibraryState {
    pub(super) peer: Peer<RoleClient>,
    pub(super) info: Option<Arc<ServerPeerInfo>>,
    pub(super) service: Mutex<Option<RunningService<RoleClient, Handler>>>,
}

impl Library for LibraryState {
    fn state(&self) -> &LibraryState {
        self
    }
}
