use std::io::{self, Read, Write};

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

fn encode(head: &impl Serialize, bytes: &[u8]) -> io::Result<Vec<u8>> {
    let head = serde_json::to_vec(head)?;
    let mut frame = Vec::with_capacity(head.len() + bytes.len() + 8);
    for part in [&head[..], bytes] {
        frame.extend_from_slice(&u32::try_from(part.len()).map_err(io::Error::other)?.to_le_bytes());
    }
    frame.extend_from_slice(&head);
    frame.extend_from_slice(bytes);
    Ok(frame)
}

fn lengths(head: [u8; 8]) -> (usize, usize) {
    let [a, b, c, d, e, f, g, h] = head;
    (u32::from_le_bytes([a, b, c, d]) as usize, u32::from_le_bytes([e, f, g, h]) as usize)
}

pub(crate) fn send(to: &mut impl Write, head: &impl Serialize, bytes: &[u8]) -> io::Result<()> {
    to.write_all(&encode(head, bytes)?)
}

pub(crate) fn receive<T: DeserializeOwned>(from: &mut impl Read) -> io::Result<(T, Vec<u8>)> {
    let mut start = [0; 8];
    from.read_exact(&mut start)?;
    let (head, len) = lengths(start);
    let (mut json, mut bytes) = (vec![0; head], vec![0; len]);
    from.read_exact(&mut json)?;
    from.read_exact(&mut bytes)?;
    Ok((serde_json::from_slice(&json)?, bytes))
}

pub(crate) async fn send_to(
    to: &mut (impl AsyncWrite + Unpin),
    head: &impl Serialize,
    bytes: &[u8],
) -> io::Result<()> {
    to.write_all(&encode(head, bytes)?).await
}

pub(crate) async fn receive_from<T: DeserializeOwned>(
    from: &mut (impl AsyncRead + Unpin),
) -> io::Result<(T, Vec<u8>)> {
    let mut start = [0; 8];
    from.read_exact(&mut start).await?;
    let (head, len) = lengths(start);
    let (mut json, mut bytes) = (vec![0; head], vec![0; len]);
    from.read_exact(&mut json).await?;
    from.read_exact(&mut bytes).await?;
    Ok((serde_json::from_slice(&json)?, bytes))
}
