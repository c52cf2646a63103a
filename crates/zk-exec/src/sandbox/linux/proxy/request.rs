use std::io::{self, Read};

use crate::sandbox::hosts::split_port;

/// Longest accepted request head, in bytes.
const MAX_REQUEST_BYTES: usize = 64 << 10;

/// HTTP request of a command to the proxy.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Request {
    /// Host as it was written.
    pub(super) target: String,
    pub(super) port: u16,
    /// Bytes that are forwarded to the host first.
    pub(super) forward: Vec<u8>,
    pub(super) protocol: Protocol,
}

/// Protocol between a command and the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    /// `CONNECT`: the command waits for a response before it sends more.
    Tunnel,
    /// Plain HTTP request, which the host answers.
    Forward,
    Socks,
}

/// Reads the head of a request: `CONNECT host:port`, or a method with an absolute `http://` address.
pub(super) fn read_request(from: &mut impl Read) -> io::Result<Request> {
    let invalid = |why: &str| io::Error::new(io::ErrorKind::InvalidData, why.to_owned());
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end;
        }
        if bytes.len() > MAX_REQUEST_BYTES {
            return Err(invalid("the head of the request is too long"));
        }
        match from.read(&mut piece)? {
            0 => return Err(invalid("the request ended before its head did")),
            read => bytes.extend_from_slice(piece.get(..read).unwrap_or_default()),
        }
    };
    let rest = bytes.split_off(end + 4);
    bytes.truncate(end);
    let head = String::from_utf8(bytes).map_err(|_| invalid("the head of the request is no text"))?;
    let mut lines = head.split("\r\n");
    let line = lines.next().unwrap_or_default();
    let [method, target, version] = line.split(' ').collect::<Vec<_>>()[..] else {
        return Err(invalid("the first line of the request is none"));
    };
    if method == "CONNECT" {
        let (host, port) = split_port(target).ok_or_else(|| invalid("CONNECT needs host:port"))?;
        let port = port.ok_or_else(|| invalid("CONNECT needs a port"))?;
        return Ok(Request { target: host.to_owned(), port, forward: rest, protocol: Protocol::Tunnel });
    }
    let address = target.strip_prefix("http://").ok_or_else(|| {
        invalid("this is a proxy: ask with CONNECT, or with a whole address that begins with http://")
    })?;
    let at = address.find(['/', '?', '#']).unwrap_or(address.len());
    let (authority, path) = address.split_at(at);
    if authority.contains('@') {
        return Err(invalid("a host may have no name and password before it"));
    }
    let (host, port) = split_port(authority).ok_or_else(|| invalid("the address names no host"))?;
    let slash = if path.starts_with('/') { "" } else { "/" };
    let mut forward =
        format!("{method} {slash}{path} {version}\r\nHost: {authority}\r\nConnection: close\r\n");
    for line in lines {
        let name = line.split(':').next().unwrap_or_default().to_ascii_lowercase();
        let own = ["host", "connection", "keep-alive", "proxy-connection", "proxy-authorization"];
        if !own.contains(&name.as_str()) {
            forward.push_str(line);
            forward.push_str("\r\n");
        }
    }
    forward.push_str("\r\n");
    let forward = [forward.as_bytes(), &rest].concat();
    Ok(Request { target: host.to_owned(), port: port.unwrap_or(80), forward, protocol: Protocol::Forward })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Request, String> {
        read_request(&mut text.as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn tunnels_and_whole_addresses_are_read() {
        let request = read("CONNECT crates.io:443 HTTP/1.1\r\nHost: crates.io:443\r\n\r\nhello").unwrap();
        assert_eq!(
            (request.target.as_str(), request.port, request.protocol),
            ("crates.io", 443, Protocol::Tunnel)
        );
        assert_eq!(request.forward, b"hello");
        let text = "GET http://a.b:8080/x?y HTTP/1.1\r\nHost: other\r\nProxy-Connection: keep-alive\r\nA: b\r\n\r\nbody";
        let request = read(text).unwrap();
        assert_eq!(
            (request.target.as_str(), request.port, request.protocol),
            ("a.b", 8080, Protocol::Forward)
        );
        let forward = String::from_utf8(request.forward).unwrap();
        assert_eq!(forward, "GET /x?y HTTP/1.1\r\nHost: a.b:8080\r\nConnection: close\r\nA: b\r\n\r\nbody");
    }

    #[test]
    fn everything_else_is_refused() {
        for text in [
            "",
            "GET / HTTP/1.1\r\n\r\n",
            "GET https://a.b/ HTTP/1.1\r\n\r\n",
            "GET http://a.b@c.d/ HTTP/1.1\r\n\r\n",
            "GET http://a.b:x/ HTTP/1.1\r\n\r\n",
            "CONNECT a.b HTTP/1.1\r\n\r\n",
            "CONNECT a.b:0 HTTP/1.1\r\n\r\n",
            "CONNECT  a.b:443 HTTP/1.1\r\n\r\n",
            "\u{5}\u{1}\u{0}",
            "CONNECT a.b:443 HTTP/1.1\r\n",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
        assert!(read(&"x".repeat(MAX_REQUEST_BYTES + 1)).is_err());
    }
}
