use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, HeaderValue};
use reqwest::Url;
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::common::client_side_sse::ExponentialBackoff;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use zk_auth::Http;

use super::authorised_client::Authorised;
use crate::auth::ServerAuth;
use crate::config::secret_values::SecretValues;
use crate::transport::value_limits::MAX_ANSWER_BYTES;

/// Longest pause before a broken stream is reopened.
const MAX_REOPEN_PAUSE: Duration = Duration::from_secs(60);

/// Address of a server, with the common parts of every request.
pub(crate) struct HttpEndpoint {
    pub(crate) url: Url,
    pub(crate) headers: HashMap<HeaderName, HeaderValue>,
    pub(crate) client: Authorised,
}

impl HttpEndpoint {
    /// Creates the endpoint at `url`, with `headers` in every request, and the token of a sign-in if there is
    /// one.
    pub(crate) fn new(
        http: &Http,
        url: &str,
        headers: &SecretValues,
        auth: Option<Arc<ServerAuth>>,
    ) -> Result<Self, String> {
        let parsed = Url::parse(url).map_err(|error| format!("`{url}` is no address: {error}"))?;
        if !matches!(parsed.scheme(), "http" | "https") {
            return Err(format!("`{url}` is no address of a server: it must begin with https:// or http://"));
        }
        let client = http.client(&parsed).map_err(|error| error.to_string())?;
        let mut custom = HashMap::new();
        for (name, value) in headers.iter() {
            let known = HeaderName::from_bytes(name.as_bytes());
            let known = known.map_err(|_| format!("`{name}` cannot be the name of a header"))?;
            let mut value = HeaderValue::from_str(value)
                .map_err(|_| format!("the header `{name}` has a character it cannot have"))?;
            value.set_sensitive(true);
            custom.insert(known, value);
        }
        Ok(Self { url: parsed, headers: custom, client: Authorised::new(client, auth) })
    }

    /// Creates the streamable HTTP transport.
    pub(crate) fn transport(self) -> StreamableHttpClientTransport<Authorised> {
        let mut backoff = ExponentialBackoff::default();
        backoff.max_delay = Some(MAX_REOPEN_PAUSE);
        let mut config = StreamableHttpClientTransportConfig::with_uri(self.url.as_str())
            .custom_headers(self.headers)
            .max_json_response_size(MAX_ANSWER_BYTES)
            .max_sse_event_size(MAX_ANSWER_BYTES)
            // A restarted server may have other tools, so it is reconnected and they are compared.
            .reinit_on_expired_session(false);
        config.retry_config = Arc::new(backoff);
        StreamableHttpClientTransport::with_client(self.client, config)
    }
}
