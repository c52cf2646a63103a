//! HTTP request for a page, with redirects within its host.

use reqwest::header::{
    ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, LOCATION,
};
use reqwest::{Response, Url};
use zk_auth::http::{Received, pinned_client, read_up_to_limit, root_cause};
use zk_core::model::{ToolError, ToolErrorKind};

use super::address::{Guard, check};
use super::named;
use crate::text::{head, one_line};

/// Preferred content types, for the header `Accept`.
const WANTED: &str = "text/markdown, text/html;q=0.9, text/plain;q=0.8, application/json;q=0.8, */*;q=0.5";

/// HTTP client for pages.
pub(super) struct Getter {
    pub(super) guard: Guard,
    pub(super) max_bytes: usize,
    pub(super) redirects: usize,
}

/// Result of a request.
pub(super) enum Fetched {
    Page(Page),
    /// The page redirects to a host without a permission.
    Elsewhere {
        from: Url,
        to: Url,
    },
}

/// Page as received.
pub(super) struct Page {
    pub(super) url: Url,
    pub(super) status: u16,
    /// Content type in lower case; empty if the server sent none.
    pub(super) content_type: String,
    pub(super) bytes: Vec<u8>,
    /// Whether the page exceeded the size limit.
    pub(super) is_cut: bool,
}

impl Getter {
    /// Fetches the page at `url`. Each address is checked before a connection is made.
    pub(super) async fn get(&self, url: Url) -> Result<Fetched, ToolError> {
        let mut at = url;
        for _ in 0..=self.redirects {
            let response = self.send_request(&at).await?;
            if !response.status().is_redirection() {
                return Ok(Fetched::Page(self.read_page(at, response).await?));
            }
            let to = location(&at, response.headers())?;
            check(&to)?;
            if at.scheme() == "https" && to.scheme() != "https" {
                let text =
                    format!("`{}` redirects to a page without encryption, which is not followed", named(&at));
                return Err(ToolError::new(ToolErrorKind::Denied, text));
            }
            if !is_same_host(&at, &to) {
                return Ok(Fetched::Elsewhere { from: at, to });
            }
            at = to;
        }
        let text = format!(
            "`{}` redirects more than {} times; it is not followed further; look for the address it ends at",
            named(&at),
            self.redirects
        );
        Err(ToolError::failed(text))
    }

    async fn send_request(&self, url: &Url) -> Result<Response, ToolError> {
        let addresses = self.guard.addresses(url).await?;
        let client = pinned_client(&addresses, url).map_err(|error| ToolError::failed(error.to_string()))?;
        let request = client.get(url.clone()).header(ACCEPT, WANTED).header(ACCEPT_ENCODING, "identity");
        request.send().await.map_err(|error| request_error(url, &error))
    }

    async fn read_page(&self, url: Url, response: Response) -> Result<Page, ToolError> {
        let status = response.status();
        let content_type = text_of(response.headers(), &CONTENT_TYPE).to_ascii_lowercase();
        let encoding = text_of(response.headers(), &CONTENT_ENCODING);
        if !matches!(encoding.trim(), "" | "identity") {
            let text = format!(
                "`{}` is sent in an encoding that nobody asked for ({encoding}); look for the same elsewhere",
                named(&url)
            );
            return Err(ToolError::failed(text));
        }
        let mut body = Received::default();
        read_up_to_limit(response, self.max_bytes + 1, &mut body).await;
        let is_cut = body.bytes.len() > self.max_bytes;
        if !body.is_whole && !is_cut {
            return Err(ToolError::failed(format!(
                "`{}` broke off while it was sent; try again",
                named(&url)
            )));
        }
        body.bytes.truncate(self.max_bytes);
        if !status.is_success() {
            let said = String::from_utf8_lossy(&body.bytes);
            let is_text = !content_type.contains("html") && !said.contains('\0');
            let said = if is_text { format!(": {}", head(said.trim(), 500)) } else { String::new() };
            let text = format!("`{}` answers {status}{said}", named(&url));
            let kind = if status.as_u16() == 404 { ToolErrorKind::NotFound } else { ToolErrorKind::Failed };
            return Err(ToolError::new(kind, text));
        }
        Ok(Page { url, status: status.as_u16(), content_type, bytes: body.bytes, is_cut })
    }
}

fn location(at: &Url, headers: &HeaderMap) -> Result<Url, ToolError> {
    let to = text_of(headers, &LOCATION);
    at.join(&to).ok().filter(|_| !to.is_empty()).ok_or_else(|| {
        ToolError::failed(format!(
            "`{}` redirects to no address: {}; look for the same elsewhere",
            named(at),
            one_line(&to, 200)
        ))
    })
}

/// Whether a redirect stays within the permission: same host and port, or same host by HTTPS.
fn is_same_host(from: &Url, to: &Url) -> bool {
    let is_upgrade =
        from.scheme() == "http" && to.scheme() == "https" && from.port().is_none() && to.port().is_none();
    from.host_str() == to.host_str()
        && (is_upgrade || from.port_or_known_default() == to.port_or_known_default())
}

fn text_of(headers: &HeaderMap, name: &HeaderName) -> String {
    headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).unwrap_or_default()
}

fn request_error(url: &Url, error: &reqwest::Error) -> ToolError {
    let what = if error.is_connect() { "cannot be reached" } else { "did not answer as it should" };
    ToolError::failed(format!(
        "`{}` {what}: {}; check the address, or try again",
        named(url),
        root_cause(error)
    ))
}
