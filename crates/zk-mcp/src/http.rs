use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use http::{HeaderName, HeaderValue};
use reqwest::Url;
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use zk_auth::Http;

use crate::auth::{Authorised, ServerAuth};

/// The largest answer, in bytes.
const LARGEST: usize = 16 << 20;

/// Streamable HTTP to `url`, with `headers` in every request, and the token of a sign-in where there is one.
pub(crate) fn transport(
    http: &Http,
    url: &str,
    headers: &BTreeMap<String, String>,
    auth: Option<Arc<ServerAuth>>,
) -> Result<StreamableHttpClientTransport<Authorised>, String> {
    let parsed = Url::parse(url).map_err(|error| format!("`{url}` is no address: {error}"))?;
    if !matches!(parsed.scheme(), "http" | "https") {
        return Err(format!("`{url}` is no address of a server: it must begin with https:// or http://"));
    }
    let client = http.client(&parsed).map_err(|error| error.to_string())?;
    let mut custom = HashMap::new();
    for (name, value) in headers {
        let known = HeaderName::from_bytes(name.as_bytes());
        let known = known.map_err(|_| format!("`{name}` cannot be the name of a header"))?;
        let mut value = HeaderValue::from_str(value)
            .map_err(|_| format!("the header `{name}` has a character it cannot have"))?;
        value.set_sensitive(true);
        custom.insert(known, value);
    }
    let config = StreamableHttpClientTransportConfig::with_uri(url)
        .custom_headers(custom)
        .max_json_response_size(LARGEST)
        .max_sse_event_size(LARGEST)
        .reinit_on_expired_session(true);
    Ok(StreamableHttpClientTransport::with_client(Authorised::new(client, auth), config))
}
