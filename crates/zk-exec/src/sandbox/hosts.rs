use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Ports of a host rule without a port.
const USUAL_PORTS: [u16; 2] = [80, 443];

/// Host rules: hosts that commands may reach through the proxy of a sandbox.
///
/// | rule | hosts |
/// |---|---|
/// | `crates.io` | this host, at the ports 80 and 443 |
/// | `*.npmjs.org` | all its subdomains at any depth, but not `npmjs.org` itself |
/// | `example.org:8080` | this host at this port |
/// | `10.0.0.7:3000`, `[fd00::7]:3000` | this address, also if a host name resolves to it |
///
/// An address of this machine or of a private network is allowed only if a rule names the address.
///
/// ```
/// use zk_exec::HostRules;
///
/// let rules = HostRules::parse(["crates.io", "*.npmjs.org"])?;
/// assert!(rules.allows("registry.npmjs.org", 443) && !rules.allows("npmjs.org.example.com", 443));
/// assert!(!rules.allows("crates.io", 22));
/// # Ok::<(), zk_exec::HostRuleError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostRules(Vec<HostRule>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct HostRule {
    host: Pattern,
    port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Pattern {
    Name(String),
    /// All names that end with this suffix, which begins with a dot.
    Below(String),
    Address(IpAddr),
}

/// Reason why a text is no host rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no host: {why}; write a name such as crates.io, *.npmjs.org or 127.0.0.1:8080")]
pub struct HostRuleError {
    text: String,
    why: &'static str,
}

/// Requested host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::sandbox) enum Host {
    Name(String),
    Address(IpAddr),
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(address) => write!(f, "{address}"),
        }
    }
}

impl Host {
    /// Parses an ASCII name, or an address in its usual form; other forms of addresses that resolvers accept
    /// are refused.
    pub(in crate::sandbox) fn parse(text: &str) -> Result<Self, &'static str> {
        if let Some(inner) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            let address = inner.parse::<Ipv6Addr>().map_err(|_| "that is no address")?;
            return Ok(Self::Address(IpAddr::V6(address)));
        }
        let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        if name.is_empty() || name.len() > 253 {
            return Err("a name has between 1 and 253 characters");
        }
        let is_label = |label: &str| {
            let inner =
                label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
            inner && (1..=63).contains(&label.len()) && !label.starts_with('-') && !label.ends_with('-')
        };
        if !name.split('.').all(is_label) {
            return Err("a name consists of letters, digits, hyphens and dots");
        }
        let last = name.rsplit('.').next().unwrap_or_default();
        // Resolvers take a name that ends in a number for an address, such as 0x7f.1 or 2130706433.
        if last.bytes().all(|byte| byte.is_ascii_digit()) || last.starts_with("0x") {
            let address = name.parse::<Ipv4Addr>().map_err(|_| "an address is written with four numbers")?;
            return Ok(Self::Address(IpAddr::V4(address)));
        }
        Ok(Self::Name(name))
    }
}

/// Splits a host from the port after it, if there is one.
pub(in crate::sandbox) fn split_port(text: &str) -> Option<(&str, Option<u16>)> {
    let after = match text.rfind(']') {
        Some(end) => text.get(end + 1..)?,
        None => text.find(':').and_then(|at| text.get(at..)).unwrap_or_default(),
    };
    let host = text.get(..text.len() - after.len())?;
    match after.strip_prefix(':') {
        None if after.is_empty() => Some((host, None)),
        // Refuses a sign or a blank, which `parse` would accept.
        Some(digits) if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            Some((host, Some(digits.parse().ok().filter(|port| *port > 0)?)))
        }
        Some(_) | None => None,
    }
}

impl HostRules {
    /// Parses a list of rules.
    ///
    /// # Errors
    /// [`HostRuleError`] for the first text that is no rule.
    pub fn parse<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> Result<Self, HostRuleError> {
        texts.into_iter().map(|text| HostRule::parse(text.as_ref())).collect::<Result<_, _>>().map(Self)
    }

    /// Whether a name, or an address as text, may be requested at this port. The addresses that it resolves
    /// to are checked later.
    #[must_use]
    pub fn allows(&self, host: &str, port: u16) -> bool {
        Host::parse(host).is_ok_and(|host| self.allow(&host, port))
    }

    pub(in crate::sandbox) fn allow(&self, host: &Host, port: u16) -> bool {
        self.0.iter().any(|rule| rule.is_at(port) && rule.host.matches(host))
    }

    /// Rules for the hosts that a command names; invalid names are left out.
    #[cfg(feature = "sandbox")]
    pub(in crate::sandbox) fn of_command(hosts: &[String]) -> Self {
        Self(hosts.iter().filter_map(|host| HostRule::parse(host).ok()).collect())
    }

    /// Whether one of the hosts is this machine.
    #[cfg(feature = "sandbox")]
    pub(in crate::sandbox) fn names_this_machine(&self) -> bool {
        self.0.iter().any(|rule| match &rule.host {
            Pattern::Name(name) => is_localhost(name),
            Pattern::Below(_) => false,
            Pattern::Address(address) => address.is_loopback(),
        })
    }

    /// Whether a rule names this address.
    #[cfg(feature = "sandbox")]
    pub(in crate::sandbox) fn names_address(&self, address: IpAddr, port: u16) -> bool {
        self.0.iter().any(|rule| rule.is_at(port) && rule.host == Pattern::Address(address))
    }
}

/// Whether a name means this machine by convention, such as `localhost`.
#[cfg(feature = "sandbox")]
pub(in crate::sandbox) fn is_localhost(name: &str) -> bool {
    name == "localhost" || name.ends_with(".localhost")
}

impl HostRule {
    fn parse(text: &str) -> Result<Self, HostRuleError> {
        let fail = |why| HostRuleError { text: text.to_owned(), why };
        let (host, port) = split_port(text).ok_or_else(|| fail("its port is none"))?;
        let host = match host.strip_prefix("*.") {
            Some(rest) => match Host::parse(rest).map_err(fail)? {
                Host::Name(name) if name.contains('.') => Pattern::Below(format!(".{name}")),
                Host::Name(_) => return Err(fail("a whole top level is too much")),
                Host::Address(_) => return Err(fail("an address has no names below it")),
            },
            None => match Host::parse(host).map_err(fail)? {
                Host::Name(name) => Pattern::Name(name),
                Host::Address(address) => Pattern::Address(address),
            },
        };
        Ok(Self { host, port })
    }

    fn is_at(&self, port: u16) -> bool {
        self.port.map_or(USUAL_PORTS.contains(&port), |own| own == port)
    }
}

impl Pattern {
    fn matches(&self, host: &Host) -> bool {
        match (self, host) {
            (Self::Name(own), Host::Name(name)) => own == name,
            (Self::Below(end), Host::Name(name)) => name.len() > end.len() && name.ends_with(end.as_str()),
            (Self::Address(own), Host::Address(address)) => own == address,
            (Self::Name(_) | Self::Below(_), Host::Address(_)) | (Self::Address(_), Host::Name(_)) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_named_hosts_at_their_ports_are_allowed() {
        let rules =
            HostRules::parse(["crates.io", "*.npmjs.org", "example.org:8080", "127.0.0.1:3000"]).unwrap();
        for (host, port) in [
            ("crates.io", 443),
            ("CRATES.io.", 80),
            ("registry.npmjs.org", 443),
            ("a.b.npmjs.org", 443),
            ("example.org", 8080),
            ("127.0.0.1", 3000),
        ] {
            assert!(rules.allows(host, port), "{host}:{port}");
        }
        for (host, port) in [
            ("crates.io", 22),
            ("static.crates.io", 443),
            ("npmjs.org", 443),
            ("evilnpmjs.org", 443),
            ("crates.io.evil.org", 443),
            ("evil.org\0.npmjs.org", 443),
            ("evil.org .npmjs.org", 443),
            ("evil.org/.npmjs.org", 443),
            ("evil.org%00.npmjs.org", 443),
            ("crates.io..", 443),
            (".npmjs.org", 443),
            ("crätes.io", 443),
            ("cr\u{430}tes.io", 443),
            ("example.org", 443),
            ("0x7f.1", 3000),
            ("2130706433", 3000),
            ("127.1", 3000),
            ("0177.0.0.1", 3000),
            ("[::ffff:127.0.0.1]", 3000),
            ("", 443),
        ] {
            assert!(!rules.allows(host, port), "{host}:{port}");
        }
    }

    #[test]
    fn what_names_no_host_is_refused() {
        for text in [
            "",
            "*",
            "*.org",
            "*.1.2.3.4",
            "a b",
            "a:b",
            "a:0",
            "a:99999",
            "a:+1",
            "http://a.b",
            "[::1",
            "1.2.3",
        ] {
            assert!(HostRules::parse([text]).is_err(), "{text}");
        }
    }
}
