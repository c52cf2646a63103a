use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use zk_core::kernel::Bus;
use zk_core::model::ErrorKind;

use super::{NamedProvider, SelectError, SelectedEndpoint, SelectionReason};
use crate::facts::vendors::{Access, Vendor, Vendors};

/// Time limit of a local server to accept a connection before it counts as absent.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(25);
/// Time limit of a local server that accepted one to list its models.
const LIST_TIMEOUT: Duration = Duration::from_secs(1);

/// Model server that was looked for at its usual port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalServer {
    /// Name of its vendor.
    pub name: &'static str,
    /// Port of this machine.
    pub port: u16,
    /// Result of the look.
    pub state: LocalServerState,
}

/// Result of a look at a local server's usual port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalServerState {
    /// Nothing accepts connections.
    Absent,
    /// Something that does not list models the way this server does.
    Other,
    /// Something that answers nobody without a key.
    Locked,
    /// Something that does not answer now: the server may still load its model.
    Busy,
    /// The server, without a model.
    Empty,
    /// The server, with models.
    Ready,
}

/// The first model server of this machine that `probe` finds with a model; [`probe_local_server`] looks at the port.
///
/// # Errors
/// [`SelectError::NothingConfigured`] where none has one.
pub async fn first_local_server(
    vendors: &Vendors,
    probe: impl AsyncFn(Vendor, u16) -> LocalServerState,
) -> Result<SelectedEndpoint, SelectError> {
    let mut servers = Vec::new();
    for vendor in vendors.iter() {
        let Access::Local(port) = vendor.access else { continue };
        let state = probe(*vendor, port).await;
        if state == LocalServerState::Ready {
            return Ok(SelectedEndpoint {
                provider: NamedProvider::from(*vendor),
                base_url: vendor.base_url.unwrap_or_default().to_owned(),
                credential: None,
                reason: SelectionReason::LocalServer { port },
            });
        }
        servers.push(LocalServer { name: vendor.name, port, state });
    }
    let services = vendors.iter().filter(|vendor| vendor.default_model.is_some()).filter_map(key_variable);
    Err(SelectError::NothingConfigured { services: services.collect(), servers })
}

/// A service that is used with a key, and the variable for that.
fn key_variable(vendor: &Vendor) -> Option<(&'static str, &'static str)> {
    match vendor.access {
        Access::Key(variables) => variables.first().map(|variable| (vendor.name, *variable)),
        Access::SignIn | Access::Local(_) | Access::Open => None,
    }
}

/// Looks at a port of this machine. Only where something accepts connections is it asked for its models.
pub async fn probe_local_server(vendor: Vendor, port: u16) -> LocalServerState {
    if TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)), CONNECT_TIMEOUT).is_err() {
        return LocalServerState::Absent;
    }
    let Ok(provider) = vendor.provider(vendor.connection()) else { return LocalServerState::Other };
    match tokio::time::timeout(LIST_TIMEOUT, provider.list_models(&Bus::new().cx())).await {
        Ok(Ok(Some(models))) if models.is_empty() => LocalServerState::Empty,
        Ok(Ok(Some(_))) => LocalServerState::Ready,
        Ok(Err(error)) if error.kind == ErrorKind::Auth => LocalServerState::Locked,
        Ok(Err(error)) if error.status == Some(503) => LocalServerState::Busy,
        Ok(Ok(None) | Err(_)) => LocalServerState::Other,
        Err(_) => LocalServerState::Busy,
    }
}
