use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// State of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LinkState {
    Open,
    /// No byte passes, and nobody is told.
    Stalled,
    /// Connections are closed, and new ones too.
    Cut,
}

/// Proxy in front of a server on this machine, whose link a test stalls, cuts and restores.
///
/// ```no_run
/// # async fn try_out() -> std::io::Result<()> {
/// use zk_testkit::LinkProxy;
///
/// let link = LinkProxy::start("127.0.0.1:5432".parse().unwrap()).await?;
/// println!("clients connect to {}", link.address());
/// link.cut();
/// link.restore();
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct LinkProxy {
    address: SocketAddr,
    state: watch::Sender<LinkState>,
    task: JoinHandle<()>,
}

impl LinkProxy {
    /// Starts a proxy at a port of 127.0.0.1 that connects to `server`.
    ///
    /// # Errors
    /// When there is no free port.
    pub async fn start(server: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (state, seen) = watch::channel(LinkState::Open);
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let seen = seen.clone();
                tokio::spawn(async move {
                    // A client learns of a failed connection by the end of its own.
                    let _ = carry(client, server, seen).await;
                });
            }
        });
        Ok(Self { address, state, task })
    }

    /// Returns the address of the proxy.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Lets no more bytes pass, and tells nobody.
    pub fn stall(&self) {
        self.state.send_replace(LinkState::Stalled);
    }

    /// Closes all connections, and new ones at once.
    pub fn cut(&self) {
        self.state.send_replace(LinkState::Cut);
    }

    /// Lets bytes pass again.
    pub fn restore(&self) {
        self.state.send_replace(LinkState::Open);
    }
}

impl Drop for LinkProxy {
    fn drop(&mut self) {
        self.task.abort();
        self.cut();
    }
}

async fn carry(client: TcpStream, server: SocketAddr, state: watch::Receiver<LinkState>) -> io::Result<()> {
    let mut cut = state.clone();
    if *cut.borrow() == LinkState::Cut {
        return Ok(());
    }
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = TcpStream::connect(server).await?.into_split();
    tokio::select! {
        _ = cut.wait_for(|state| *state == LinkState::Cut) => Ok(()),
        ended = pump(from_client, to_server, state.clone()) => ended,
        ended = pump(from_server, to_client, state.clone()) => ended,
    }
}

async fn pump(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut state: watch::Receiver<LinkState>,
) -> io::Result<()> {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let count = from.read(&mut buffer).await?;
        let closed = state.wait_for(|state| *state == LinkState::Open).await.is_err();
        let bytes = buffer.get(..count).unwrap_or_default();
        if closed || bytes.is_empty() {
            return Ok(());
        }
        to.write_all(bytes).await?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_stalled_link_loses_nothing_and_a_cut_one_ends() {
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let link = LinkProxy::start(server.local_addr().unwrap()).await.unwrap();
        let mut client = TcpStream::connect(link.address()).await.unwrap();
        let (mut at_server, _) = server.accept().await.unwrap();
        link.stall();
        client.write_all(b"hello").await.unwrap();
        link.restore();
        let mut heard = [0; 5];
        at_server.read_exact(&mut heard).await.unwrap();
        assert_eq!(&heard, b"hello");
        link.cut();
        assert_eq!(client.read(&mut heard).await.unwrap_or_default(), 0);
    }
}
