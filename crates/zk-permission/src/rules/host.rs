//! Hosts that a rule is about.

use std::fmt;

use super::Decision;

/// A host as rules name it: `docs.rs`, `*.rust-lang.org`, `localhost:8000`, `[::1]`, `*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostPattern {
    name: HostName,
    port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum HostName {
    Any,
    Exact(String),
    /// The names below this one.
    Below(String),
}

impl HostPattern {
    /// Parses a pattern; the error describes the fault.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim().to_ascii_lowercase();
        if text.is_empty() {
            return Err("it names no host".to_owned());
        }
        if text.contains("://") || text.contains('/') {
            return Err(
                "it is about hosts, not about pages; write the host alone, such as `docs.rs`".to_owned()
            );
        }
        if !text.is_ascii() {
            return Err(
                "a host is compared as it is looked up; write its form that begins with `xn--`".to_owned()
            );
        }
        let (name, port) = split_port(&text);
        let port = match port.map(str::parse::<u16>) {
            None => None,
            Some(Ok(80 | 443)) => {
                return Err("a host without a port means the usual ones, so leave 80 and 443 out".to_owned());
            }
            Some(Ok(port)) => Some(port),
            Some(Err(_)) => return Err("what follows the colon is no port".to_owned()),
        };
        let is_address = name.starts_with('[') && name.ends_with(']');
        let is_name = |name: &str| {
            !name.is_empty()
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
        };
        let name = name.strip_suffix('.').unwrap_or(name);
        let name = match name.strip_prefix("*.") {
            _ if name == "*" => HostName::Any,
            Some(below) if is_name(below) => HostName::Below(below.to_owned()),
            None if is_name(name) || is_address => HostName::Exact(name.to_owned()),
            Some(_) | None if name.contains('*') => {
                return Err("a star stands for all of a name or for what is before its first dot".to_owned());
            }
            Some(_) | None => return Err("it is no name of a host".to_owned()),
        };
        Ok(Self { name, port })
    }

    /// Whether a rule with `decision` matches a host with an optional unusual port. A denial or question
    /// matches more: every port, and a pattern for subdomains also the domain itself.
    pub(crate) fn matches(&self, host: &str, decision: Decision) -> bool {
        let host = host.to_ascii_lowercase();
        let (name, port) = split_port(&host);
        let name = name.strip_suffix('.').unwrap_or(name);
        let restricts = decision != Decision::Allow;
        let fits_name = match &self.name {
            HostName::Any => true,
            HostName::Exact(wanted) => name == wanted,
            HostName::Below(parent) => {
                let is_below = name
                    .strip_suffix(parent.as_str())
                    .is_some_and(|before| before.len() > 1 && before.ends_with('.'));
                is_below || (restricts && name == parent)
            }
        };
        let fits_port = match self.port {
            Some(wanted) => port.and_then(|port| port.parse().ok()) == Some(wanted),
            None => restricts || port.is_none(),
        };
        fits_name && fits_port
    }

    /// Host that matches the pattern, and a similar one that does not, with the reason.
    pub(crate) fn examples(&self) -> (String, Option<(String, &'static str)>) {
        let port = self.port.map(|port| format!(":{port}")).unwrap_or_default();
        match &self.name {
            HostName::Any => (format!("example.org{port}"), None),
            HostName::Exact(name) => {
                let other = if name.starts_with('[') { "[::2]".to_owned() } else { format!("www.{name}") };
                (format!("{name}{port}"), Some((format!("{other}{port}"), "it is another host")))
            }
            HostName::Below(parent) => (
                format!("www.{parent}{port}"),
                Some((format!("not{parent}{port}"), "its name ends alike and belongs to somebody else")),
            ),
        }
    }

    pub(crate) fn has_port(&self) -> bool {
        self.port.is_some()
    }

    /// Parent domain of a pattern for subdomains.
    pub(crate) fn parent(&self) -> Option<&str> {
        match &self.name {
            HostName::Below(parent) => Some(parent),
            HostName::Any | HostName::Exact(_) => None,
        }
    }
}

/// Splits host and port; an IPv6 address is in brackets.
fn split_port(host: &str) -> (&str, Option<&str>) {
    match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, Some(port)),
        Some(_) | None => (host, None),
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            HostName::Any => f.write_str("*")?,
            HostName::Exact(name) => f.write_str(name)?,
            HostName::Below(parent) => write!(f, "*.{parent}")?,
        }
        match self.port {
            Some(port) => write!(f, ":{port}"),
            None => Ok(()),
        }
    }
}
