//! The way out of a sandbox whose commands may reach named hosts.
//!
//! The listener belongs to the network namespace of the sandbox and was made there; it was handed out, so
//! that this process accepts what commands connect to it, and connects to the hosts itself. Nothing has to be
//! bridged.

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

/// Port of the proxy, in the network of the sandbox, where nobody else is.
pub(super) const PORT: u16 = 3128;
/// Most connections at a time.
const CONNECTIONS: usize = 256;
/// Time limit for a host to accept a connection, and for a command to say what it wants.
const PATIENCE: Duration = Duration::from_secs(15);
/// Most refusals that are remembered.
const REMEMBERED: usize = 64;

/// Looks names up.
type Resolve = Arc<dyn Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync>;

/// Lets commands reach hosts; clones are the same.
#[derive(Clone)]
pub(crate) struct Proxy {
    grants: Arc<Grants>,
    resolve: Resolve,
    refused: Arc<Mutex<VecDeque<Refusal>>>,
    open: Arc<AtomicUsize>,
}

/// A host that was not reached.
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
            // Resolvers that do not know it ask the network, against RFC 6761.
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

    /// Lets one command reach more than all others, for as long as what this gives lives.
    pub(super) fn grant(&self, connections: &Connections) -> io::Result<Granted> {
        Grants::add(&self.grants, connections)
    }

    /// Answers at a listener until that is shut down.
    pub(crate) fn serve(&self, listener: TcpListener) -> io::Result<()> {
        let this = self.clone();
        std::thread::Builder::new().name("sandbox-proxy".into()).stack_size(128 << 10).spawn(move || {
            loop {
                match listener.accept() {
                    Ok((stream, _)) => this.begin(stream),
                    Err(error) if error.raw_os_error() == Some(libc::EINVAL) => return,
                    // Too many descriptors for a moment, or a connection that was given up.
                    Err(_) => std::thread::sleep(Duration::from_millis(20)),
                }
            }
        })?;
        Ok(())
    }

    fn begin(&self, stream: TcpStream) {
        if self.open.fetch_add(1, Ordering::SeqCst) >= CONNECTIONS {
            self.open.fetch_sub(1, Ordering::SeqCst);
            return turn_away(stream, "there are too many connections at a time");
        }
        let stream = Arc::new(stream);
        // The machine may have no thread to give for a moment: somebody else starts many of them.
        for pause in [0, 20, 80, 300] {
            std::thread::sleep(Duration::from_millis(pause));
            let (this, own) = (self.clone(), stream.clone());
            let started = std::thread::Builder::new()
                .name("sandbox-proxy".into())
                .stack_size(256 << 10)
                .spawn(move || {
                    // A failure is seen by the command on its own side.
                    let _ = own.try_clone().and_then(|stream| this.answer(stream));
                    this.open.fetch_sub(1, Ordering::SeqCst);
                });
            if started.is_ok() {
                return;
            }
        }
        self.open.fetch_sub(1, Ordering::SeqCst);
        if let Ok(stream) = stream.try_clone() {
            turn_away(stream, "the machine has no thread to give");
        }
    }

    fn answer(&self, mut stream: TcpStream) -> io::Result<()> {
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut first = [0];
        let speaks_socks = stream.peek(&mut first)? > 0 && first == [socks::VERSION];
        let request = if speaks_socks {
            // An error was answered in the way of the protocol.
            let (target, port) = socks::read_target(&mut stream)?;
            Request { target, port, forward: Vec::new(), protocol: Protocol::Socks }
        } else {
            match read_request(&mut stream) {
                Ok(request) => request,
                Err(error) => return say(&mut stream, "400 Bad Request", &error.to_string()),
            }
        };
        let Request { target, port, forward, protocol } = request;
        // The loopback address identifies the command: each grant has a proxy address of its own.
        let reach = self.grants.of(stream.local_addr()?.ip());
        let addresses = match self.addresses(&reach, &target, port) {
            Ok(addresses) => addresses,
            Err(Denied::Refused(why)) => {
                let target = target.escape_default().to_string();
                self.note(format!("{target}:{port}"), why.clone());
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
            Protocol::Socks => socks::say(&mut stream, Reply::Connected)?,
            Protocol::Forward => {}
        }
        host.write_all(&forward)?;
        stream.set_read_timeout(None)?;
        relay(stream, host)
    }

    /// The addresses that may be connected to, looked up once: what is judged is what is used.
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
        // One address that is closed closes all: an answer that mixes them is made for that.
        match found.iter().find(|address| !reach.leads_to(&host, **address, port)) {
            Some(address) => Err(refused(format!("it leads to {address}, which is not a public address"))),
            None => Ok(found),
        }
    }

    fn note(&self, target: String, why: String) {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.push_back(Refusal { at: Instant::now(), target, why });
        if refused.len() > REMEMBERED {
            refused.pop_front();
        }
    }

    /// Returns the refusals since then.
    pub(super) fn refused_since(&self, since: Instant) -> Vec<Refusal> {
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.iter().filter(|refusal| refusal.at >= since).cloned().collect()
    }
}

/// Reason why there is no address.
enum Denied {
    Refused(String),
    Unknown(io::Error),
}

fn connect(addresses: &[IpAddr], port: u16) -> io::Result<TcpStream> {
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for address in addresses {
        match TcpStream::connect_timeout(&SocketAddr::new(*address, port), PATIENCE) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Tells a command why there is no connection, in its protocol.
fn refuse(stream: &mut TcpStream, protocol: Protocol, reply: Reply, why: &str) -> io::Result<()> {
    match (protocol, reply) {
        (Protocol::Socks, _) => socks::say(stream, reply),
        (_, Reply::Refused) => say(stream, "403 Forbidden", why),
        _ => say(stream, "502 Bad Gateway", why),
    }
}

fn say(stream: &mut TcpStream, status: &str, why: &str) -> io::Result<()> {
    let body = format!("zk: {why}\n");
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all((head + &body).as_bytes())
}

/// Says why there is no answer, and reads what was sent: a connection that ends with something unread is reset, and the
/// reason is lost.
fn turn_away(mut stream: TcpStream, why: &str) {
    let _ = stream.set_read_timeout(Some(Duration::from_millis(50)));
    if say(&mut stream, "503 Service Unavailable", why).is_ok() && stream.shutdown(Shutdown::Write).is_ok() {
        let _ = stream.read(&mut [0; 4096]);
    }
}

/// Hands on what comes from either side, until both are at their end.
fn relay(command: TcpStream, host: TcpStream) -> io::Result<()> {
    let (up_from, up_to) = (command.try_clone()?, host.try_clone()?);
    let up = std::thread::Builder::new()
        .name("sandbox-proxy".into())
        .stack_size(128 << 10)
        .spawn(move || pass(up_from, up_to))?;
    pass(host, command);
    let _ = up.join();
    Ok(())
}

fn pass(mut from: TcpStream, mut to: TcpStream) {
    let mut buffer = vec![0; 32 << 10];
    loop {
        match from.read(&mut buffer) {
            Ok(0) | Err(_) => break,
            Ok(read) => {
                if to.write_all(buffer.get(..read).unwrap_or_default()).is_err() {
                    // The other direction ends too: nobody takes what it brings.
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
