//! Addresses to which `fetch` may connect.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use async_trait::async_trait;
use reqwest::Url;
use zk_core::model::{ToolError, ToolErrorKind, is_public_address};

use super::named;

/// Longest address of a page, in bytes.
const MAX_ADDRESS_BYTES: usize = 8_000;

/// Advice for a refused address.
const NEXT: &str = "only pages of the public network can be fetched; for one inside, ask the user";

/// Parses the address of a page: HTTP or HTTPS, with a host and without a password.
pub(super) fn parse(text: &str) -> Result<Url, ToolError> {
    let text = text.trim();
    if text.len() > MAX_ADDRESS_BYTES {
        return Err(ToolError::invalid(format!(
            "an address may have {MAX_ADDRESS_BYTES} bytes, this has {}; leave out what the page does not need",
            text.len()
        )));
    }
    let url = Url::parse(text).map_err(|error| {
        ToolError::invalid(format!(
            "this is no address of a page ({error}); it must begin with https:// or http://"
        ))
    })?;
    check(&url)?;
    Ok(url)
}

/// Checks an address before its host is resolved.
pub(super) fn check(url: &Url) -> Result<(), ToolError> {
    if !matches!(url.scheme(), "http" | "https") {
        let text =
            format!("`{}:` cannot be fetched, only https: and http:; give an address of those", url.scheme());
        return Err(ToolError::new(ToolErrorKind::Denied, text));
    }
    if !url.username().is_empty() || url.password().is_some() {
        let text = "an address with a user name or password in it is not fetched; leave them out";
        return Err(ToolError::new(ToolErrorKind::Denied, text));
    }
    if url.host_str().is_none_or(str::is_empty) {
        return Err(ToolError::invalid("the address has no host; write it as https://HOST/PATH"));
    }
    Ok(())
}

/// Host of a page, with the port if it is not the default.
pub(super) fn host(url: &Url) -> Option<String> {
    let host = url.host_str()?;
    Some(url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}")))
}

/// Resolver of host names.
#[async_trait]
pub(super) trait Lookup: Send + Sync {
    /// All addresses of a host.
    async fn lookup(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>>;
}

/// System's resolver.
pub(super) struct SystemLookup;

#[async_trait]
impl Lookup for SystemLookup {
    async fn lookup(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        Ok(tokio::net::lookup_host((host, port)).await?.collect())
    }
}

/// Rule for the addresses of pages.
pub(super) struct Guard {
    pub(super) lookup: Arc<dyn Lookup>,
    /// Private addresses that are allowed nevertheless.
    pub(super) also: Vec<SocketAddr>,
}

impl Guard {
    /// Resolves the host of a page once and checks all its addresses. A host with any private address is
    /// refused, since mixed answers are typical of DNS rebinding.
    pub(super) async fn addresses(&self, url: &Url) -> Result<Vec<SocketAddr>, ToolError> {
        check(url)?;
        let port = url.port_or_known_default().unwrap_or(443);
        let host = url.host_str().unwrap_or_default();
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let found = match bare.parse::<IpAddr>() {
            Ok(address) => vec![SocketAddr::new(address, port)],
            Err(_) => self.lookup.lookup(bare, port).await.map_err(|error| {
                let text = format!("`{}` is not fetched: {bare} cannot be looked up ({error}); check the address, or try again", named(url));
                ToolError::new(ToolErrorKind::NotFound, text)
            })?,
        };
        if found.is_empty() {
            let text =
                format!("`{}` is not fetched: {bare} has no address; check how it is spelled", named(url));
            return Err(ToolError::new(ToolErrorKind::NotFound, text));
        }
        // The port is the page's, whatever the resolver returns.
        let found: Vec<_> = found.into_iter().map(|address| SocketAddr::new(address.ip(), port)).collect();
        match found.iter().find(|address| !self.allows(**address)) {
            None => Ok(found),
            Some(inside) => {
                let what = format!("it leads to {}, which is not a public address", inside.ip());
                Err(ToolError::new(
                    ToolErrorKind::Denied,
                    format!("`{}` is not fetched: {what}; {NEXT}", named(url)),
                ))
            }
        }
    }

    fn allows(&self, address: SocketAddr) -> bool {
        is_public_address(address.ip()) || self.also.contains(&address)
    }
}
