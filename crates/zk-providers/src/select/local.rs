use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use zk_core::kernel::Bus;
use zk_core::model::ErrorKind;

use crate::catalogue::vendors::Vendor;

/// Time limit to connect to a local server, after which it counts as absent.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(25);
/// Time limit for a local server to list its models.
const LIST_TIMEOUT: Duration = Duration::from_secs(1);

/// Result of checking a model server's usual port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalServer {
    /// Name of its vendor.
    pub name: &'static str,
    /// Port on this machine.
    pub port: u16,
    /// State of the server.
    pub state: LocalServerState,
}

/// State of a local model server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalServerState {
    /// No connection is accepted.
    Absent,
    /// Another program, which does not list models like this server.
    Other,
    /// The program requires a key.
    Locked,
    /// The server does not answer now, perhaps because it is loading a model.
    Busy,
    /// The server is running without a model.
    Empty,
    /// The server is running and has models.
    Ready,
}

/// Checks a port of this machine, and requests the model list if a connection is accepted.
pub async fn probe_local_server(vendor: Vendor, port: u16) -> LocalServerState {
    probe_local_models(vendor, port).await.0
}

/// Probes a port of this machine; returns the ids of the listed models.
pub(super) async fn probe_local_models(vendor: Vendor, port: u16) -> (LocalServerState, Vec<String>) {
    let state = |state| (state, Vec::new());
    if TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)), CONNECT_TIMEOUT).is_err() {
        return state(LocalServerState::Absent);
    }
    let Ok(provider) = vendor.provider(vendor.connection()) else { return state(LocalServerState::Other) };
    match tokio::time::timeout(LIST_TIMEOUT, provider.list_models(&Bus::new().cx())).await {
        Ok(Ok(Some(models))) if models.is_empty() => state(LocalServerState::Empty),
        Ok(Ok(Some(models))) => (LocalServerState::Ready, models.into_iter().map(|model| model.id).collect()),
        Ok(Err(error)) if error.kind == ErrorKind::Auth => state(LocalServerState::Locked),
        Ok(Err(error)) if error.status == Some(503) => state(LocalServerState::Busy),
        Ok(Ok(None) | Err(_)) => state(LocalServerState::Other),
        Err(_) => state(LocalServerState::Busy),
    }
}
