use std::fmt;

use temporalio_client::Url;

/// Location of a Temporal namespace: `temporal://host:port/namespace`, with `?tls` for TLS.
///
/// ```
/// use zk_fleet::TemporalLocation;
///
/// let location: TemporalLocation = "temporal://127.0.0.1:7233/team".parse().unwrap();
/// assert_eq!(location.namespace(), "team");
/// let location: TemporalLocation = "temporal://temporal.example?tls".parse().unwrap();
/// assert_eq!(location.to_string(), "temporal://temporal.example:7233/default?tls");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemporalLocation {
    host: String,
    port: u16,
    namespace: String,
    has_tls: bool,
}

/// Error of a text that is no [`TemporalLocation`]. It does not repeat the text, which may hold a password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LocationError {
    /// The text is no address.
    #[error("the engine's location is no address: write temporal://HOST:PORT/NAMESPACE")]
    Invalid,
    /// The scheme is another one.
    #[error("`{0}://` is no location of Temporal: write temporal://HOST:PORT/NAMESPACE, with ?tls for TLS")]
    Scheme(String),
    /// The location has a part that locations do not have.
    #[error("the location of Temporal has {0}: leave it out, and give a key in ZK_TEMPORAL_API_KEY")]
    Extra(&'static str),
    /// The name of the namespace is not valid.
    #[error("the namespace in the location of Temporal is no name: use letters, digits, `-`, `_` and `.`")]
    Namespace,
}

impl TemporalLocation {
    /// Port of a server, unless given.
    pub const DEFAULT_PORT: u16 = 7233;

    /// Namespace, unless given.
    pub const DEFAULT_NAMESPACE: &'static str = "default";

    /// Returns the namespace.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Whether the connection is encrypted.
    #[must_use]
    pub fn has_tls(&self) -> bool {
        self.has_tls
    }

    /// Returns the address of the server.
    pub(super) fn server(&self) -> Result<Url, LocationError> {
        let scheme = if self.has_tls { "https" } else { "http" };
        Url::parse(&format!("{scheme}://{}:{}", self.host, self.port)).map_err(|_| LocationError::Invalid)
    }
}

impl std::str::FromStr for TemporalLocation {
    type Err = LocationError;

    fn from_str(text: &str) -> Result<Self, LocationError> {
        let url = Url::parse(text.trim()).map_err(|_| LocationError::Invalid)?;
        if url.scheme() != "temporal" {
            return Err(LocationError::Scheme(url.scheme().to_owned()));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(LocationError::Extra("a user or password"));
        }
        let has_tls = match url.query() {
            None => false,
            Some("tls") => true,
            Some(_) => return Err(LocationError::Extra("a query other than `tls`")),
        };
        if url.fragment().is_some() {
            return Err(LocationError::Extra("a fragment"));
        }
        let host = url.host_str().filter(|host| !host.is_empty()).ok_or(LocationError::Invalid)?.to_owned();
        let namespace = match url.path().trim_matches('/') {
            "" => Self::DEFAULT_NAMESPACE,
            path => path,
        };
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if !namespace.bytes().all(allowed) {
            return Err(LocationError::Namespace);
        }
        let port = url.port().unwrap_or(Self::DEFAULT_PORT);
        Ok(Self { host, port, namespace: namespace.to_owned(), has_tls })
    }
}

impl fmt::Display for TemporalLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port, namespace, has_tls } = self;
        write!(f, "temporal://{host}:{port}/{namespace}{}", if *has_tls { "?tls" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_is_read_and_written() {
        let table = [
            ("temporal://127.0.0.1:7233/zk", Ok("temporal://127.0.0.1:7233/zk")),
            (" temporal://localhost ", Ok("temporal://localhost:7233/default")),
            (
                "temporal://a.b.tmprl.cloud:7233/team.x1/?tls",
                Ok("temporal://a.b.tmprl.cloud:7233/team.x1?tls"),
            ),
            ("temporal://[::1]:99/n", Ok("temporal://[::1]:99/n")),
            ("127.0.0.1:7233", Err(LocationError::Invalid)),
            ("temporal://", Err(LocationError::Invalid)),
            ("postgres://h/n", Err(LocationError::Scheme("postgres".to_owned()))),
            ("temporal://u:p@h/n", Err(LocationError::Extra("a user or password"))),
            ("temporal://h/n?key=x", Err(LocationError::Extra("a query other than `tls`"))),
            ("temporal://h/a/b", Err(LocationError::Namespace)),
        ];
        for (text, expected) in table {
            let found = text.parse::<TemporalLocation>().map(|location| location.to_string());
            assert_eq!(found, expected.map(str::to_owned), "{text}");
        }
    }
}
