//! SOCKS requests, version 5 (RFC 1928), without authentication.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Version number, the first byte of every message.
pub(super) const VERSION: u8 = 5;
const NO_AUTHENTICATION: u8 = 0;
const NO_METHOD: u8 = 0xff;
const CONNECT: u8 = 1;

/// Reply codes of SOCKS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    Connected = 0,
    Failed = 1,
    Refused = 2,
    Unreachable = 4,
    UnknownCommand = 7,
    UnknownAddress = 8,
}

/// Agrees on a method and reads the host and port of a `CONNECT` request. Other requests get an error reply.
///
/// # Errors
/// The stream's error, or the reason why the request is invalid.
pub(super) fn read_target(stream: &mut (impl Read + Write)) -> io::Result<(String, u16)> {
    let [_, methods] = read(stream)?;
    let mut offered = vec![0; usize::from(methods)];
    stream.read_exact(&mut offered)?;
    if !offered.contains(&NO_AUTHENTICATION) {
        stream.write_all(&[VERSION, NO_METHOD])?;
        return Err(invalid("SOCKS is spoken here without authentication"));
    }
    stream.write_all(&[VERSION, NO_AUTHENTICATION])?;
    let [version, command, _, kind] = read(stream)?;
    if version != VERSION {
        return Err(invalid("the request is none of SOCKS 5"));
    }
    let host = match kind {
        1 => Ipv4Addr::from(read::<4>(stream)?).to_string(),
        3 => {
            let [length] = read(stream)?;
            let mut name = vec![0; usize::from(length)];
            stream.read_exact(&mut name)?;
            // Invalid UTF-8 becomes characters that no host name contains.
            String::from_utf8_lossy(&name).into_owned()
        }
        4 => format!("[{}]", Ipv6Addr::from(read::<16>(stream)?)),
        _ => {
            send_reply(stream, Reply::UnknownAddress)?;
            return Err(invalid("the kind of address is unknown"));
        }
    };
    let port = u16::from_be_bytes(read(stream)?);
    if command != CONNECT {
        send_reply(stream, Reply::UnknownCommand)?;
        return Err(invalid("connections go out from here, and nothing else"));
    }
    Ok((host, port))
}

/// Sends a reply.
pub(super) fn send_reply(stream: &mut impl Write, reply: Reply) -> io::Result<()> {
    // The bound address is left empty, since clients do not need it.
    stream.write_all(&[VERSION, reply as u8, 0, 1, 0, 0, 0, 0, 0, 0])
}

fn read<const N: usize>(stream: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn invalid(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.to_owned())
}
