use std::sync::Arc;

use rmcp::model::ServerPeerInfo;
use rmcp::service::{Peer, RoleClient, RunningService};
use tokio::sync::Mutex;

use super::handler::Handler;

/// State of a connection in `rmcp`, behind a trait: else the compiler proves for each future that holds a
/// server that every message of the protocol may go to another thread, which takes half of the time of this
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
