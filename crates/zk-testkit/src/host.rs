use std::io;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// TCP server on a free port of 127.0.0.1 that counts its connections, for tests of network restrictions.
///
/// The server runs until the process ends; a connection is counted before any bytes are read.
///
/// ```
/// use std::io::{Read, Write};
/// use std::net::TcpStream;
///
/// let host = zk_testkit::CountingHost::start(|mut stream: TcpStream| {
///     let _ = stream.write_all(b"hello");
/// })?;
/// let mut said = String::new();
/// TcpStream::connect(("127.0.0.1", host.port()))?.read_to_string(&mut said)?;
/// assert_eq!((said.as_str(), host.connections()), ("hello", 1));
/// # std::io::Result::Ok(())
/// ```
#[derive(Clone, Debug)]
pub struct CountingHost {
    port: u16,
    connections: Arc<AtomicUsize>,
}

impl CountingHost {
    /// Starts a server that passes each connection to `serve`, in its own thread.
    ///
    /// # Errors
    /// The system's error when no port or thread is available.
    pub fn start(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let host = Self { port: listener.local_addr()?.port(), connections: Arc::default() };
        let (connections, serve) = (host.connections.clone(), Arc::new(serve));
        std::thread::Builder::new().name("counting-host".into()).spawn(move || {
            for stream in listener.incoming().flatten() {
                connections.fetch_add(1, Ordering::SeqCst);
                let serve = serve.clone();
                std::thread::spawn(move || serve(stream));
            }
        })?;
        Ok(host)
    }

    /// Port of the server.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Address of the server, `127.0.0.1:PORT`.
    #[must_use]
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Number of connections so far.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}
