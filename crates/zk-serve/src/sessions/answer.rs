use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use serde::Serialize;

use crate::http::Body;
use zk_stores::wire::{PROTOCOL_VERSION, VERSION_HEADER, WireError};

/// Answer with a JSON value.
pub(super) fn json(value: &impl Serialize) -> Result<Response<Body>, WireError> {
    let bytes = serde_json::to_vec(value).map_err(|error| WireError::Failed { why: error.to_string() })?;
    Ok(answer(StatusCode::OK, Full::new(bytes.into()).boxed_unsync()))
}

/// Answer with an error.
pub(super) fn refusal(error: &WireError) -> Response<Body> {
    let status = match error {
        WireError::Unauthorised => StatusCode::UNAUTHORIZED,
        WireError::Version { .. } | WireError::Invalid { .. } => StatusCode::BAD_REQUEST,
        WireError::NotFound { .. } | WireError::NoEntry { .. } => StatusCode::NOT_FOUND,
        WireError::NoHandle | WireError::InUse { .. } | WireError::Fenced { .. } => StatusCode::CONFLICT,
        WireError::Damaged { .. } | WireError::TooNew { .. } | WireError::Failed { .. } => {
            StatusCode::UNPROCESSABLE_ENTITY
        }
    };
    answer(status, Full::new(serde_json::to_vec(error).unwrap_or_default().into()).boxed_unsync())
}

pub(super) fn answer(status: StatusCode, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(VERSION_HEADER, PROTOCOL_VERSION.into());
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
