use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Largest accepted head of a frame, in bytes.
const MAX_HEAD_BYTES: u64 = 64 << 20;

pub(super) fn connect(socket: &Path) -> io::Result<UnixStream> {
    UnixStream::connect(socket)
}

/// Largest content that is copied behind the head of its frame, in bytes, so that one write sends both.
const MAX_COPIED_BYTES: usize = 64 << 10;

pub(super) fn encode(head: &impl Serialize, bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut frame = encode_head(head, bytes)?;
    frame.extend_from_slice(bytes);
    Ok(frame)
}

/// Encodes the beginning of a frame, up to its bytes.
fn encode_head(head: &impl Serialize, bytes: &[u8]) -> io::Result<Vec<u8>> {
    let head = serde_json::to_vec(head)?;
    let mut frame = Vec::with_capacity(head.len() + bytes.len().min(MAX_COPIED_BYTES) + 8);
    for part in [&head[..], bytes] {
        frame.extend_from_slice(&u32::try_from(part.len()).map_err(io::Error::other)?.to_le_bytes());
    }
    frame.extend_from_slice(&head);
    Ok(frame)
}

fn lengths(head: [u8; 8]) -> io::Result<(u64, u64)> {
    let [a, b, c, d, e, f, g, h] = head;
    let (head, bytes) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]));
    if u64::from(head) > MAX_HEAD_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "this is no exec-server's answer"));
    }
    Ok((head.into(), bytes.into()))
}

pub(super) fn send(to: &mut impl Write, head: &impl Serialize, bytes: &[u8]) -> io::Result<()> {
    if bytes.len() <= MAX_COPIED_BYTES {
        return to.write_all(&encode(head, bytes)?);
    }
    to.write_all(&encode_head(head, bytes)?)?;
    to.write_all(bytes)
}

pub(super) fn receive<T: DeserializeOwned>(from: &mut impl Read) -> io::Result<(T, Vec<u8>)> {
    let mut start = [0; 8];
    from.read_exact(&mut start)?;
    let (head, len) = lengths(start)?;
    let mut part = |len: u64| {
        // Grows with the received bytes, regardless of the announced length.
        let mut bytes = Vec::new();
        from.by_ref().take(len).read_to_end(&mut bytes)?;
        if bytes.len() as u64 == len { Ok(bytes) } else { Err(io::Error::from(io::ErrorKind::UnexpectedEof)) }
    };
    let (json, bytes) = (part(head)?, part(len)?);
    Ok((serde_json::from_slice(&json)?, bytes))
}

pub(super) async fn send_to(
    to: &mut (impl AsyncWrite + Unpin),
    head: &impl Serialize,
    bytes: &[u8],
) -> io::Result<()> {
    if bytes.len() <= MAX_COPIED_BYTES {
        return to.write_all(&encode(head, bytes)?).await;
    }
    to.write_all(&encode_head(head, bytes)?).await?;
    to.write_all(bytes).await
}

pub(super) async fn receive_from<T: DeserializeOwned>(
    from: &mut (impl AsyncRead + Unpin),
) -> io::Result<(T, Vec<u8>)> {
    let mut start = [0; 8];
    from.read_exact(&mut start).await?;
    let (head, len) = lengths(start)?;
    let json = read_part(from, head).await?;
    let bytes = read_part(from, len).await?;
    Ok((serde_json::from_slice(&json)?, bytes))
}

async fn read_part(from: &mut (impl AsyncRead + Unpin), len: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(len).read_to_end(&mut bytes).await?;
    if bytes.len() as u64 == len { Ok(bytes) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_survives_its_encoding_and_a_truncated_or_huge_one_is_refused() {
        let frame = encode(&("head", 7), b"bytes").unwrap();
        let (head, bytes) = receive::<(String, u32)>(&mut &frame[..]).unwrap();
        assert_eq!((head, bytes), (("head".to_owned(), 7), b"bytes".to_vec()));
        for end in 0..frame.len() {
            assert!(receive::<(String, u32)>(&mut &frame[..end]).is_err(), "{end}");
        }
        let huge = [&u32::MAX.to_le_bytes()[..], &[0; 4]].concat();
        assert!(receive::<()>(&mut &huge[..]).is_err());
    }
}
