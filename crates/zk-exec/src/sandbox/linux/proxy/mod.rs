//! Proxy for a sandbox whose commands may reach named hosts.
//!
//! The listener was made in the sandbox's network namespace and handed to this process, which accepts the
//! commands' connections and connects to the hosts itself. No network bridge is needed.

mod grants;
mod request;
mod socks;

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use zk_core::service::Connections;

use super::hosts::{Host, HostRules, is_localhost};
pub(super) use grants::Granted;
use grants::{Grants, Reach};
use request::{Protocol, Request, read_request};
use socks::Reply;

/// Port of the proxy, in the sandbox's own network.
pub(super) const PORT: u16 = 3128;
/// Maximum number of connections at a time.
const MAX_CONNECTIONS: usize = 256;
/// Time limit for a host to accept a connection, and for a command to send its request.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(15);
/// Maximum number of refusals that are kept.
const MAX_KEPT_REFUSALS: usize = 64;

/// Resolver of host names.
type Resolve = Arc<dyn Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync>;

/// Proxy that connects commands to allowed hosts; clones share their state.
#[derive(Clone)]
pub(crate) struct Proxy {
    grants: Arc<Grants>,
    resolve: Resolve,
    refused: Arc<Mutex<VecDeque<Refusal>>>,
    open: Arc<AtomicUsize>,
}

/// Host to which a connection was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) at: Instant,
    pub(super) target: String,
    pub(super) why: String,
}

impl std::fmt::Debug for Proxy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Proxy").field("grants", &self.grants).finish_non_exhaustive()
    }
}

impl Proxy {
    pub(super) fn new(rules: HostRules) -> Self {
        let resolve = |name: &str| {
            // Resolvers that do not know `localhost` ask the network, against RFC 6761.
            let name = if is_localhost(name) { "localhost" } else { name };
            Ok((name, 0).to_socket_addrs()?.map(|address| address.ip()).collect())
        };
        Self {
            grants: Arc::new(Grants::new(rules)),
            resolve: Arc::new(resolve),
            refused: Arc::default(),
            open: Arc::default(),
        }
    }

    /// Grants one command more hosts, until the returned value is dropped.
    pub(super) fn grant(&self, connections: &Connections) -> io::Result<Granted> {
        Grants::add(&self.grants, connections)
    }

    /// Serves a listener until it is shut down.
    pub(crate) fn serve(&self, listener: TcpListener) -> io::Result<()> {
        let this = self.clone();
        std::thread::Builder::new().name("sandbox-proxy".into()).stack_size(128 << 10).spawn(move || {
            loop {
                match listener.accept() {
                    Ok((stream, _)) => this.start_connection(stream),
                    Err(error) if error.raw_os_error() == Some(libc::EINVAL) => return,
                    // Out of descriptors for the moment, or the client gave up.
                    Err(_) => std::thread::sleep(Duration::from_millis(20)),
                }
            }
        })?;
        Ok(())
    }

    fn start_connection(&self, stream: TcpStream) {
        if self.open.fetch_add(1, Ordering::SeqCst) >= MAX_CONNECTIONS {
            self.open.fetch_sub(1, Ordering::SeqCst);
            return send_refusal(stream, "there are too many connections at a time");
        }
        let stream = Arc::new(stream);
        // Thread creation may fail for a moment on a busy machine.
        for pause in [0, 20, 80, 300] {
            std::thread::sleep(Duration::from_millis(pause));
            let (this, own) = (self.clone(), stream.clone());
            let started = std::thread::Builder::new()
                .name("sandbox-proxy".into())
                .stack_size(256 << 10)
                .spawn(move || {
                    // The command sees the failure as a closed connection.
                    let _ = own.try_clone().and_then(|stream| this.answer(stream));
                    this.open.fetch_sub(1, Ordering::SeqCst);
                });
            if started.is_ok() {
                return;
            }
        }
        self.open.fetch_sub(1, Ordering::SeqCst);
        if let Ok(stream) = stream.try_clone() {
            send_refusal(stream, "the machine has no thread to give");
        }
    }

    fn answer(&self, mut stream: TcpStream) -> io::Result<()> {
        stream.set_read_timeout(Some(CONNECTION_TIMEOUT))?;
        let mut first = [0];
        let speaks_socks = stream.peek(&mut first)? > 0 && first == [socks::VERSION];
        let request = if speaks_socks {
            // On an error the client was answered in its protocol.
            let (target, port) = socks::read_target(&mut stream)?;
            Request { target, port, forward: Vec::new(), protocol: Protocol::Socks }
        } else {
            match read_request(&mut stream) {
                Ok(request) => request,
                Err(error) => return send_status(&mut stream, "400 Bad Request", &error.to_string()),
            }
        };
        let Request { target, port, forward, protocol } = request;
        // The loopback address identifies the command: each grant has its own proxy address.
        let reach = self.grants.of(stream.local_addr()?.ip());
        let addresses = match self.addresses(&reach, &target, port) {
            Ok(addresses) => addresses,
            Err(Denied::Refused(why)) => {
                let target = target.escape_default().to_string();
                self.record_refusal(format!("{target}:{port}"), why.clone());
                return refuse(&mut stream, protocol, Reply::Refused, &format!("{target}:{port}: {why}"));
            }
            Err(Denied::Unknown(error)) => {
                let why = format!("cannot look up {target}: {error}");
                return refuse(&mut stream, protocol, Reply::Unreachable, &why);
            }
        };
        let mut host = match connect(&addresses, port) {
            Ok(host) => host,
            Err(error) => {
                let why = format!("cannot connect to {target}:{port}: {error}");
                return refuse(&mut stream, protocol, Reply::Failed, &why);
            }
        };
        match protocol {
            Protocol::Tunnel => stream.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")?,
            Protocol::Socks => socks::send_reply(&mut stream, Reply::Connected)?,
            Protocol::Forward => {}
        }
        host.write_all(&forward)?;
        stream.set_read_timeout(None)?;
        relay(stream, host)
    }

    /// Resolves a host once and checks all its addresses, which are then the ones to connect to.
    fn addresses(&self, reach: &Reach, target: &str, port: u16) -> Result<Vec<IpAddr>, Denied> {
        let refused = |why: String| Denied::Refused(why);
        let host = Host::parse(target).map_err(|why| refused(why.to_owned()))?;
        if !reach.allows(&host, port) {
            return Err(refused(reach.refusal().to_owned()));
        }
        let found = match &host {
            Host::Name(name) => (self.resolve)(name).map_err(Denied::Unknown)?,
            Host::Address(address) => vec![*address],
        };
        if found.is_empty() {
            return Err(Denied::Unknown(io::ErrorKind::NotFound.into()));
        }
        // One forbidden address refuses the host: mixed answers are typical of DNS rebinding.
        match found.iter().find(|address| !reach.allows_address(&host, **address, port)) {
            Some(address) => Err(refused(format!("it leads to {address}, which is not a public address"))),
            None => Ok(found),
        }
    }

    fn record_refusal(&self, target: String, why: String) {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.push_back(Refusal { at: Instant::now(), target, why });
        if refused.len() > MAX_KEPT_REFUSALS {
            refused.pop_front();
        }
    }

    /// Refusals since this time.
    pub(super) fn refused_since(&self, since: Instant) -> Vec<Refusal> {
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.iter().filter(|refusal| refusal.at >= since).cloned().collect()
    }
}

/// Reason why a host gave no usable address.
enum Denied {
    Refused(String),
    Unknown(io::Error),
}

fn connect(addresses: &[IpAddr], port: u16) -> io::Result<TcpStream> {
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for address in addresses {
        match TcpStream::connect_timeout(&SocketAddr::new(*address, port), CONNECTION_TIMEOUT) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Tells a client in its protocol why there is no connection.
fn refuse(stream: &mut TcpStream, protocol: Protocol, reply: Reply, why: &str) -> io::Result<()> {
    match (protocol, reply) {
        (Protocol::Socks, _) => socks::send_reply(stream, reply),
        (_, Reply::Refused) => send_status(stream, "403 Forbidden", why),
        _ => send_status(stream, "502 Bad Gateway", why),
    }
}

fn send_status(stream: &mut TcpStream, status: &str, why: &str) -> io::Result<()> {
    let body = format!("zk: {why}\n");
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all((head + &body).as_bytes())
}

/// Sends the reason for a refusal, and reads the rest of the request: closing with unread data would reset
/// the connection, and the client would not see the reason.
fn send_refusal(mut stream: TcpStream, why: &str) {
    let _ = stream.set_read_timeout(Some(Duration::from_millis(50)));
    if send_status(&mut stream, "503 Service Unavailable", why).is_ok()
        && stream.shutdown(Shutdown::Write).is_ok()
    {
        let _ = stream.read(&mut [0; 4096]);
    }
}

/// Copies bytes in both directions until both have ended.
fn relay(command: TcpStream, host: TcpStream) -> io::Result<()> {
    let (up_from, up_to) = (command.try_clone()?, host.try_clone()?);
    let up = std::thread::Builder::new()
        .name("sandbox-proxy".into())
        .stack_size(128 << 10)
        .spawn(move || copy_until_end(up_from, up_to))?;
    copy_until_end(host, command);
    let _ = up.join();
    Ok(())
}

fn copy_until_end(mut from: TcpStream, mut to: TcpStream) {
    let mut buffer = vec![0; 32 << 10];
    loop {
        match from.read(&mut buffer) {
            Ok(0) | Err(_) => break,
            Ok(read) => {
                if to.write_all(buffer.get(..read).unwrap_or_default()).is_err() {
                    // Ends the other direction too, since its reader is closed.
                    let _ = from.shutdown(Shutdown::Both);
                    break;
                }
            }
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

#[cfg(test)]
mod tests;
