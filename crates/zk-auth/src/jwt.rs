//! Reads claims of a token without verifying its signature: the token came over TLS from its issuer, and the
//! claims (account, expiry) only affect later requests to that issuer.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;

/// Claims of a token, if it is a JSON web token.
pub(crate) fn claims(token: &str) -> Option<Value> {
    let mut parts = token.split('.');
    let (_, claims, _, None) = (parts.next()?, parts.next()?, parts.next()?, parts.next()) else {
        return None;
    };
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims.trim_end_matches('=')).ok()?).ok()
}

/// Text at `path` in the claims.
pub(crate) fn text_at(claims: &Value, path: &[String]) -> Option<String> {
    if path.is_empty() {
        return None;
    }
    let found = path.iter().try_fold(claims, |value, name| value.get(name))?;
    found.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}
