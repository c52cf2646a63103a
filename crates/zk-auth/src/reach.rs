//! Addresses to which untrusted servers may direct zk.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;

use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use zk_core::model::is_public_address;

type Found = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>>;

/// Resolver of host names.
type LookUp = Arc<dyn Fn(String) -> Found + Send + Sync>;

/// Filter for addresses that a server provides, against requests to internal networks: local and private
/// addresses are only allowed if the server itself has such an address.
#[derive(Clone)]
pub(crate) struct Reach {
    /// Host of the server.
    server: String,
    look_up: LookUp,
}

impl fmt::Debug for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reach").field("server", &self.server).finish_non_exhaustive()
    }
}

/// Address of a host that is written as an IP address.
fn parse_address(host: &str) -> Option<IpAddr> {
    host.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

fn host(url: &Url) -> String {
    url.host_str().unwrap_or_default().to_owned()
}

/// Resolves a host name with the resolver of the system.
fn look_up_with_system(host: String) -> Found {
    Box::pin(async move {
        let found = tokio::net::lookup_host((host, 0)).await?;
        Ok(found.map(|address| address.ip()).collect())
    })
}

impl Reach {
    /// Filter for addresses that the server at `server` provides.
    pub(crate) fn of(server: &Url) -> Self {
        Self { server: host(server), look_up: Arc::new(look_up_with_system) }
    }

    /// Reason to refuse `url` if its host is an IP address; host names are checked when they are resolved.
    pub(crate) fn refuse_literal(&self, url: &Url) -> Option<String> {
        let address = parse_address(&host(url)).filter(|address| !is_public_address(*address))?;
        match parse_address(&self.server) {
            Some(server) if !is_public_address(server) => None,
            Some(_) => Some(private_address_message(&host(url), address)),
            None if self.server == "localhost" => None,
            None => Some(private_address_message(&host(url), address)),
        }
    }

    /// Resolves a name and checks all its addresses. A mix of public and private ones is refused, since it is
    /// typical of DNS rebinding.
    async fn resolve_name(&self, name: String) -> io::Result<Vec<SocketAddr>> {
        let found = (self.look_up)(name.clone()).await?;
        if let Some(address) = found.iter().find(|address| !is_public_address(**address)) {
            let server = match parse_address(&self.server) {
                Some(address) => vec![address],
                None => (self.look_up)(self.server.clone()).await?,
            };
            if server.iter().copied().all(is_public_address) {
                return Err(io::Error::other(private_address_message(&name, *address)));
            }
        }
        Ok(found.into_iter().map(|address| SocketAddr::new(address, 0)).collect())
    }
}

fn private_address_message(host: &str, address: IpAddr) -> String {
    format!(
        "{host} leads to {address}, which only this machine or its network reaches, and the server that named it is \
         elsewhere"
    )
}

impl Resolve for Reach {
    fn resolve(&self, name: Name) -> Resolving {
        let (this, name) = (self.clone(), name.as_str().to_owned());
        Box::pin(async move {
            let addresses: Addrs = Box::new(this.resolve_name(name).await?.into_iter());
            Ok(addresses)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::net::TcpListener;

    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    /// Remote or local server, with fake name resolution.
    fn reach(server: &str, table: &'static [(&'static str, &'static [&'static str])]) -> Reach {
        let look_up: LookUp = Arc::new(move |host| {
            let found = table.iter().find(|(name, _)| *name == host);
            let found = found.map(|(_, all)| all.iter().map(|one| one.parse().unwrap()).collect());
            Box::pin(async move { found.ok_or_else(|| io::Error::other("no such host")) })
        });
        Reach { look_up, ..Reach::of(&url(server)) }
    }

    const NAMES: &[(&str, &[&str])] = &[
        ("far.example", &["93.184.216.34"]),
        ("corp.example", &["10.0.0.7"]),
        ("to-loopback.example", &["127.0.0.1"]),
        ("to-any.example", &["0.0.0.0"]),
        ("to-private.example", &["10.0.0.1"]),
        ("to-shared.example", &["100.64.0.1"]),
        ("to-metadata.example", &["169.254.169.254"]),
        ("to-mapped.example", &["::ffff:10.0.0.1"]),
        ("to-nat64.example", &["64:ff9b::a00:1"]),
        ("to-6to4.example", &["2002:a00:1::"]),
        ("to-unique.example", &["fd00::1"]),
        ("to-link.example", &["fe80::1"]),
        ("to-mixed.example", &["93.184.216.34", "192.168.0.1"]),
    ];

    #[tokio::test]
    async fn names_with_internal_addresses_are_reached_only_for_an_internal_server() {
        let far = reach("https://far.example/mcp", NAMES);
        let near = reach("https://corp.example/mcp", NAMES);
        for (name, addresses) in NAMES {
            let is_far = *name == "far.example";
            let found = far.resolve_name((*name).to_owned()).await;
            assert_eq!(found.is_ok(), is_far, "{name}: {found:?}");
            assert_eq!(near.resolve_name((*name).to_owned()).await.unwrap().len(), addresses.len());
        }
    }

    #[test]
    fn internal_addresses_are_reached_only_for_an_internal_server() {
        let (far, near) = (Reach::of(&url("https://1.1.1.1/")), Reach::of(&url("http://127.0.0.1:1/")));
        for host in [
            "127.0.0.1",
            "10.0.0.1",
            "100.64.0.1",
            "169.254.169.254",
            "0.0.0.0",
            "2130706433",
            "0x7f.1",
            "[::1]",
            "[::ffff:10.0.0.1]",
            "[64:ff9b::a00:1]",
            "[fd00::1]",
            "[::]",
        ] {
            let at = url(&format!("https://{host}/"));
            assert!(far.refuse_literal(&at).is_some(), "{host}");
            assert!(near.refuse_literal(&at).is_none(), "{host}");
        }
        assert!(far.refuse_literal(&url("https://8.8.8.8/")).is_none());
    }

    #[tokio::test]
    async fn a_client_for_a_public_server_opens_no_connection_to_the_internal_network() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let accepted = Arc::new(AtomicUsize::new(0));
        let count = accepted.clone();
        tokio::spawn(async move {
            while listener.accept().await.is_ok() {
                count.fetch_add(1, Ordering::SeqCst);
            }
        });
        let http = crate::Http::new().with_reach(reach("https://far.example/", NAMES));
        let at = url(&format!("http://to-loopback.example:{port}/"));
        let error = http.client(&at).unwrap().get(at).send().await.unwrap_err();
        assert!(crate::http::root_cause(&error).contains("leads to 127.0.0.1"), "{error:?}");
        assert!(http.client(&url(&format!("http://127.0.0.1:{port}/"))).is_err());
        assert_eq!(accepted.load(Ordering::SeqCst), 0);
        let http = crate::Http::new().with_reach(reach("https://corp.example/", NAMES));
        let at = url(&format!("http://to-loopback.example:{port}/"));
        // The listener hangs up without an answer; only the connection counts.
        let _ = http.client(&at).unwrap().get(at).send().await;
        assert!(accepted.load(Ordering::SeqCst) > 0);
    }
}
