//! Requests with a short JSON response.

use std::time::Duration;

use reqwest::Method;
use reqwest::header::CONTENT_TYPE;
use serde_json::Value;
use tokio::time::timeout;
use zk_auth::http::{Received, read_up_to_limit};
use zk_core::kernel::Cx;
use zk_core::model::{ErrorKind, Phase, ProviderError};

use crate::wire::endpoint::Endpoint;
use crate::wire::error::{ErrorBody, RequestContext, WireError, of_stream};
use crate::wire::request::WireRequest;
use crate::wire::response::limits::{DOCUMENT, exceeded};

/// Time limit of a JSON response.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);

/// Sends a request and reads its JSON response.
pub(crate) async fn fetch(
    endpoint: &Endpoint,
    mut context: RequestContext,
    request: WireRequest,
    cx: &Cx,
) -> Result<Value, ProviderError> {
    let answer = tokio::select! {
        biased;
        () = cx.stop_token().cancelled() => Err(WireError::aborted()),
        answer = timeout(RESPONSE_TIMEOUT, send(endpoint, &mut context, request, cx)) => answer.unwrap_or_else(|_| {
            Err(WireError::new(ErrorKind::Stalled, format!("no answer within {} s", RESPONSE_TIMEOUT.as_secs())))
        }),
    };
    answer.map_err(|error| context.error(endpoint.without_secrets(error)))
}

async fn send(
    endpoint: &Endpoint,
    context: &mut RequestContext,
    wire_request: WireRequest,
    cx: &Cx,
) -> Result<Value, WireError> {
    let method = if wire_request.body.is_some() { Method::POST } else { Method::GET };
    let mut request = endpoint.request(method, &wire_request.path)?.header("accept", "application/json");
    for (name, value) in endpoint.without_refused(wire_request.headers).into_pairs() {
        request = request.header(name, value);
    }
    if let Some(body) = wire_request.body {
        request = request.header(CONTENT_TYPE, "application/json").body(body);
    }
    context.phase = Phase::Response;
    let response = endpoint.send(request, cx).await?;
    context.request_id = endpoint.request_id(response.headers());
    let (status, headers) = (response.status(), response.headers().clone());
    let mut body = Received::default();
    read_up_to_limit(response, DOCUMENT, &mut body).await;
    if !status.is_success() {
        return Err(endpoint.response_error(status, &headers, &body));
    }
    match serde_json::from_slice(&body.bytes) {
        Ok(answer) => Ok(answer),
        Err(_) if body.bytes.len() >= DOCUMENT => Err(exceeded("the answer is longer", DOCUMENT)),
        Err(error) => {
            let redacted = endpoint.redacted(&String::from_utf8_lossy(&body.bytes));
            let body = ErrorBody::parse(redacted.as_bytes());
            if body.is_html {
                return Err(of_stream(body));
            }
            Err(WireError::malformed(format!("the answer is not JSON ({error})"))
                .hint(format!("Is the base URL {} right?", endpoint.base_url_for_display())))
        }
    }
}
