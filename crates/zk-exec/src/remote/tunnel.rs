//! Many connections over one pair of pipes, such as those of an `ssh` process.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;

/// Window of a connection: most bytes in flight that the peer has not read.
const WINDOW: usize = 256 << 10;
/// Maximum number of bytes in one frame.
const MAX_FRAME_BYTES: usize = 32 << 10;

/// Kinds of frames. Each frame starts with the number of its connection, its kind and the length of its
/// bytes.
mod kind {
    pub(super) const OPEN: u8 = 1;
    pub(super) const DATA: u8 = 2;
    /// The sender sends no more on this connection.
    pub(super) const END: u8 = 3;
    /// The sender reads no more from this connection.
    pub(super) const CLOSED: u8 = 4;
    /// Credit: the peer may send this many more bytes, given as a four-byte number.
    pub(super) const CREDIT: u8 = 5;
}

/// Outgoing frame: connection, kind and bytes.
type Frame = (u32, u8, Vec<u8>);
type Frames = mpsc::UnboundedSender<Frame>;

/// State of one connection for the reader of frames.
struct Channel {
    incoming: Option<mpsc::UnboundedSender<Vec<u8>>>,
    credit: Arc<Semaphore>,
}

type Channels = Arc<Mutex<HashMap<u32, Channel>>>;

/// Forwards the connections of `listener` to the other end of a tunnel, until the tunnel ends.
///
/// # Errors
/// The system's error when frames cannot be read or written.
pub async fn open_tunnel(
    listener: UnixListener,
    from: impl AsyncRead + Unpin,
    to: impl AsyncWrite + Unpin + Send + 'static,
) -> io::Result<()> {
    let (mut tunnel, out) = Tunnel::new(to);
    let channels = tunnel.channels.clone();
    let accepting = async {
        for number in 1_u32.. {
            let (stream, _) = listener.accept().await?;
            let is_own = stream.peer_cred()?.uid() == rustix::process::geteuid().as_raw();
            if is_own && out.send((number, kind::OPEN, Vec::new())).is_ok() {
                carry(number, stream, &channels, &out);
            }
        }
        Ok(())
    };
    tokio::select! {
        done = accepting => done,
        done = read_frames(from, &channels, &out, None) => done,
        done = tunnel.finish_writing() => done,
    }
}

/// Forwards the connections of a tunnel to the socket of a server, until the tunnel ends.
///
/// # Errors
/// The system's error when frames cannot be read or written.
pub async fn serve_tunnel(
    socket: &Path,
    from: impl AsyncRead + Unpin,
    to: impl AsyncWrite + Unpin + Send + 'static,
) -> io::Result<()> {
    let (mut tunnel, out) = Tunnel::new(to);
    let channels = tunnel.channels.clone();
    tokio::select! {
        done = read_frames(from, &channels, &out, Some(socket)) => done,
        done = tunnel.finish_writing() => done,
    }
}

/// State that all connections of a tunnel share.
struct Tunnel {
    channels: Channels,
    writer: JoinSet<io::Result<()>>,
}

impl Tunnel {
    fn new(mut to: impl AsyncWrite + Unpin + Send + 'static) -> (Self, Frames) {
        let (out, mut frames) = mpsc::unbounded_channel::<Frame>();
        let mut writer = JoinSet::new();
        writer.spawn(async move {
            while let Some((number, what, bytes)) = frames.recv().await {
                let mut head = Vec::with_capacity(9 + bytes.len());
                head.extend(number.to_le_bytes());
                head.push(what);
                head.extend(u32::try_from(bytes.len()).unwrap_or_default().to_le_bytes());
                head.extend(bytes);
                to.write_all(&head).await?;
                if frames.is_empty() {
                    to.flush().await?;
                }
            }
            Ok(())
        });
        (Self { channels: Channels::default(), writer }, out)
    }

    async fn finish_writing(&mut self) -> io::Result<()> {
        self.writer.join_next().await.map_or(Ok(()), |done| done.map_err(io::Error::other)?)
    }
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        // Ends all connections, since no more frames arrive for them.
        for (_, channel) in lock(&self.channels).drain() {
            channel.credit.close();
        }
    }
}

async fn read_frames(
    mut from: impl AsyncRead + Unpin,
    channels: &Channels,
    out: &Frames,
    server: Option<&Path>,
) -> io::Result<()> {
    loop {
        let mut head = [0; 9];
        match from.read_exact(&mut head).await {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(error),
        }
        let [a, b, c, d, what, length @ ..] = head;
        let (number, length) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes(length) as usize);
        if length > MAX_FRAME_BYTES {
            let why = "what comes is no tunnel of zk; does the other side print something of its own?";
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        let mut bytes = vec![0; length];
        from.read_exact(&mut bytes).await?;
        match (what, server) {
            (kind::OPEN, Some(socket)) => match UnixStream::connect(socket).await {
                Ok(stream) => carry(number, stream, channels, out),
                Err(_) => {
                    let _ = out.send((number, kind::END, Vec::new()));
                    let _ = out.send((number, kind::CLOSED, Vec::new()));
                }
            },
            (kind::DATA, _) => {
                if let Some(incoming) = lock(channels).get(&number).and_then(|one| one.incoming.as_ref()) {
                    let _ = incoming.send(bytes);
                }
            }
            (kind::END, _) => {
                if let Some(channel) = lock(channels).get_mut(&number) {
                    channel.incoming = None;
                }
            }
            (kind::CLOSED, _) => {
                if let Some(channel) = lock(channels).get(&number) {
                    channel.credit.close();
                }
            }
            (kind::CREDIT, _) => {
                let more = bytes.first_chunk().map_or(0, |number| u32::from_le_bytes(*number));
                if let Some(channel) = lock(channels).get(&number) {
                    channel.credit.add_permits((more as usize).min(WINDOW));
                }
            }
            _ => return Err(io::Error::from(io::ErrorKind::InvalidData)),
        }
    }
}

/// Copies the bytes of one connection in both directions.
fn carry(number: u32, stream: UnixStream, channels: &Channels, out: &Frames) {
    let (incoming, queue) = mpsc::unbounded_channel();
    let credit = Arc::new(Semaphore::new(WINDOW));
    lock(channels).insert(number, Channel { incoming: Some(incoming), credit: credit.clone() });
    let (from, to) = stream.into_split();
    let (channels, out) = (channels.clone(), out.clone());
    tokio::spawn(async move {
        tokio::join!(send_bytes(number, from, &credit, &out), receive_bytes(number, to, queue, &out));
        lock(&channels).remove(&number);
    });
}

async fn send_bytes(number: u32, mut from: OwnedReadHalf, credit: &Semaphore, out: &Frames) {
    let mut bytes = vec![0; MAX_FRAME_BYTES];
    while let Ok(length @ 1..) = from.read(&mut bytes).await {
        let Ok(permits) = credit.acquire_many(u32::try_from(length).unwrap_or(u32::MAX)).await else { break };
        permits.forget();
        let piece = bytes.get(..length).unwrap_or_default().to_vec();
        if out.send((number, kind::DATA, piece)).is_err() {
            break;
        }
    }
    let _ = out.send((number, kind::END, Vec::new()));
}

async fn receive_bytes(
    number: u32,
    mut to: OwnedWriteHalf,
    mut queue: mpsc::UnboundedReceiver<Vec<u8>>,
    out: &Frames,
) {
    while let Some(bytes) = queue.recv().await {
        let taken = u32::try_from(bytes.len()).unwrap_or_default();
        if to.write_all(&bytes).await.is_err() {
            break;
        }
        let _ = out.send((number, kind::CREDIT, taken.to_le_bytes().to_vec()));
    }
    let _ = to.shutdown().await;
    let _ = out.send((number, kind::CLOSED, Vec::new()));
}

fn lock(channels: &Channels) -> std::sync::MutexGuard<'_, HashMap<u32, Channel>> {
    channels.lock().unwrap_or_else(PoisonError::into_inner)
}
