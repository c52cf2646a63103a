//! Classifies Google's quota errors, whose details alone name the exceeded quota.

use serde_json::Value;
use zk_core::model::ErrorKind;

use super::advice::{Advice, DAY, MONTH, RATE};
use super::table::Row;

/// Meaning of the time spans in a quota's id.
const SPANS: &[Row<&str>] = &[
    ("PerDay", ErrorKind::Quota, DAY),
    ("PerMonth", ErrorKind::Quota, MONTH),
    ("PerMinute", ErrorKind::Rate, RATE),
];

/// Returns the class of an error whose details name an exceeded quota or a retry delay.
pub(crate) fn class(json: &Value) -> Option<(ErrorKind, Advice)> {
    let body = json.as_array().and_then(|items| items.first()).unwrap_or(json);
    let details = body.pointer("/error/details")?.as_array()?;
    let violations = details.iter().filter_map(|detail| detail.get("violations")?.as_array()).flatten();
    let ids: Vec<&str> = violations.filter_map(|violation| violation.get("quotaId")?.as_str()).collect();
    let named = SPANS.iter().find(|(span, ..)| ids.iter().any(|id| id.contains(span)));
    let may_wait = || details.iter().any(|detail| detail.get("retryDelay").is_some());
    named.map(|(_, kind, advice)| (*kind, *advice)).or_else(|| may_wait().then_some((ErrorKind::Rate, RATE)))
}
