use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether an address belongs to the public internet: no address of this machine, a private network, a
/// translation prefix into either, or a reserved range.
///
/// ```
/// use zk_core::model::is_public_address;
///
/// assert!(is_public_address("1.1.1.1".parse().unwrap()));
/// assert!(!is_public_address("::ffff:169.254.169.254".parse().unwrap()));
/// ```
#[must_use]
pub fn is_public_address(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

/// Returns an address of the form `scheme://user:password@host/path?query` without the parts that may be secret: user,
/// password and query. Shows the scheme alone if it is not clear where the password ends.
///
/// ```
/// use zk_core::model::public_parts;
///
/// assert_eq!(public_parts("postgres://zk:secret@db/zk?password=secret"), "postgres://db/zk");
/// assert_eq!(public_parts("postgresql:///zk?host=/run"), "postgresql:///zk");
/// assert_eq!(public_parts("postgres://zk:se/cret@db/zk"), "postgres://…");
/// ```
#[must_use]
pub fn public_parts(address: &str) -> String {
    let (scheme, rest) = address.split_once("//").unwrap_or(("", address));
    let without_query = |text: &str| text.split('?').next().unwrap_or_default().to_owned();
    let shown = match rest.split_once('@') {
        None => without_query(rest),
        // A password with such a character, or a path or a query with an `@`: readers of addresses differ.
        Some((before, _)) if before.contains(['/', '?']) => "…".to_owned(),
        Some((_, behind)) if without_query(behind).contains('@') => "…".to_owned(),
        Some((_, behind)) => without_query(behind),
    };
    format!("{scheme}//{shown}")
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    !(address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_documentation()
        || a == 0
        || a >= 240
        || (a, b & 0xc0) == (100, 64)
        || (a, b, c) == (192, 0, 0)
        || (a, b, c) == (192, 88, 99)
        || (a, b & 0xfe) == (198, 18))
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let [a, b, c, d, e, f, g, h] = address.segments();
    let v4 = |high: u16, low: u16| {
        let ([w, x], [y, z]) = (high.to_be_bytes(), low.to_be_bytes());
        is_public_v4(Ipv4Addr::new(w, x, y, z))
    };
    match (a, b, c, d, e, f) {
        (0, 0, 0, 0, 0, 0xffff) | (0x64, 0xff9b, 0, 0, 0, 0) => v4(g, h),
        // The global unicast range is `2000::/3`. 6to4 embeds an IPv4 address, which is checked; Teredo may
        // embed any.
        (0x2002, high, low, ..) => v4(high, low),
        (0x2001, 0..=0x1ff | 0xdb8, ..) | (0x3fff, 0..=0xfff, ..) => false,
        _ => a & 0xe000 == 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_machines_and_private_networks_are_not_public() {
        for text in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.9.9.9",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.1",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::7f00:1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "64:ff9b::a00:1",
            "64:ff9b:1::1",
            "100::1",
            "2001::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "2002:a9fe:a9fe::",
            "3fff::1",
            "fc00::1",
            "fd00::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ] {
            assert!(!is_public_address(text.parse().unwrap()), "{text}");
        }
        for text in [
            "1.1.1.1",
            "8.8.8.8",
            "100.63.0.1",
            "100.128.0.1",
            "172.32.0.1",
            "192.0.1.1",
            "198.20.0.1",
            "2606:4700::1111",
            "2a00:1450::1",
            "::ffff:8.8.8.8",
            "64:ff9b::808:808",
            "2002:808:808::1",
        ] {
            assert!(is_public_address(text.parse().unwrap()), "{text}");
        }
    }
}
