//! Meaning of the names, phrases and statuses of provider errors: a new wording is a new row.

use zk_core::model::ErrorKind;

use super::advice::*;

/// Sign of an error, with the error's class and hint.
pub(crate) type Row<K> = (K, ErrorKind, Advice);

/// Meaning of error names: codes, types and statuses.
pub(crate) const NAMES: &[Row<&str>] = &[
    ("authentication_error", ErrorKind::Auth, KEY),
    ("invalid_api_key", ErrorKind::Auth, KEY),
    ("api_key_invalid", ErrorKind::Auth, KEY),
    ("permission_error", ErrorKind::Auth, RIGHTS),
    ("permission_denied", ErrorKind::Auth, RIGHTS),
    ("unauthenticated", ErrorKind::Auth, KEY),
    ("unauthorized", ErrorKind::Auth, KEY),
    ("billing_error", ErrorKind::Quota, PAYMENT),
    ("insufficient_quota", ErrorKind::Quota, CREDIT),
    ("insufficient_balance", ErrorKind::Quota, CREDIT),
    ("billing_hard_limit_reached", ErrorKind::Quota, SPENDING),
    ("billing_not_active", ErrorKind::Quota, PAYMENT),
    ("enforced_spend_limit_reached", ErrorKind::Quota, SPENDING),
    ("contract_spend_limit_reached", ErrorKind::Quota, CONTRACT),
    ("usage_limit_reached", ErrorKind::Quota, PLAN),
    ("usage_not_included", ErrorKind::Quota, NOT_IN_PLAN),
    ("rate_limit_error", ErrorKind::Rate, RATE),
    ("rate_limit_exceeded", ErrorKind::Rate, RATE),
    ("rate_limited", ErrorKind::Rate, RATE),
    ("ramp_limit_exceeded", ErrorKind::Rate, RAMP),
    ("too_many_requests", ErrorKind::Rate, RATE),
    ("resource_exhausted", ErrorKind::Rate, RATE),
    ("queue_exceeded", ErrorKind::Rate, QUEUE),
    ("overloaded_error", ErrorKind::Overloaded, BUSY),
    ("api_error", ErrorKind::Overloaded, FAILED),
    ("server_error", ErrorKind::Overloaded, FAILED),
    ("timeout_error", ErrorKind::Overloaded, SLOW),
    ("unavailable", ErrorKind::Overloaded, AWAY),
    ("unavailable_error", ErrorKind::Overloaded, AWAY),
    ("service_unavailable", ErrorKind::Overloaded, AWAY),
    ("engine_overloaded", ErrorKind::Overloaded, BUSY),
    ("server_is_overloaded", ErrorKind::Overloaded, BUSY),
    ("slow_down", ErrorKind::Overloaded, BUSY),
    ("vector_store_timeout", ErrorKind::Overloaded, SLOW),
    ("content_policy_violation", ErrorKind::Refused, POLICY),
    ("content_filter", ErrorKind::Refused, POLICY),
    ("image_content_policy_violation", ErrorKind::Refused, POLICY),
    ("bio_policy", ErrorKind::Refused, POLICY),
    ("cyber_policy", ErrorKind::Refused, POLICY),
    ("moderation", ErrorKind::Refused, POLICY),
    // Groq, for a malformed call of the model; also in `RETRYABLE_NAMES`.
    ("tool_use_failed", ErrorKind::Rejected, CALL),
    ("unsupported_parameter", ErrorKind::Rejected, SETTING),
    ("unsupported_value", ErrorKind::Rejected, SETTING),
    // In a stream of the Responses API, no type tells whether the client or the server is at fault.
    ("invalid_prompt", ErrorKind::Rejected, PROMPT),
    ("invalid_image", ErrorKind::Rejected, IMAGE),
    ("invalid_image_format", ErrorKind::Rejected, IMAGE),
    ("invalid_base64_image", ErrorKind::Rejected, IMAGE),
    ("invalid_image_url", ErrorKind::Rejected, IMAGE),
    ("invalid_image_mode", ErrorKind::Rejected, IMAGE),
    ("image_too_large", ErrorKind::Rejected, IMAGE),
    ("image_too_small", ErrorKind::Rejected, IMAGE),
    ("image_file_too_large", ErrorKind::Rejected, IMAGE),
    ("image_parse_error", ErrorKind::Rejected, IMAGE),
    ("image_file_not_found", ErrorKind::Rejected, IMAGE),
    ("empty_image_file", ErrorKind::Rejected, IMAGE),
    ("failed_to_download_image", ErrorKind::Rejected, IMAGE),
    ("unsupported_image_media_type", ErrorKind::Rejected, IMAGE),
    ("previous_response_not_found", ErrorKind::Rejected, FORGOTTEN),
    // z.ai, for a prompt that exceeds the window.
    ("1261", ErrorKind::ContextExceeded, WINDOW),
    ("model_not_found", ErrorKind::Rejected, NEAR),
    ("not_found_error", ErrorKind::Rejected, NEAR),
];

/// Names of errors that may not recur, although the provider calls the request invalid.
pub(crate) const RETRYABLE_NAMES: &[&str] = &["tool_use_failed"];

/// Lower-case phrases that identify an error without a specific status or name. A phrase for an invalid
/// request counts only against a status that blames the server.
pub(crate) const PHRASES: &[Row<&str>] = &[
    ("incorrect api key", ErrorKind::Auth, KEY),
    ("invalid api key", ErrorKind::Auth, KEY),
    ("api key not valid", ErrorKind::Auth, KEY),
    ("missing authentication", ErrorKind::Auth, NO_KEY),
    ("no auth credentials", ErrorKind::Auth, NO_KEY),
    ("specified api usage limits", ErrorKind::Quota, OWN_LIMIT),
    ("credit balance is too low", ErrorKind::Quota, CREDIT),
    ("exceeded your current quota", ErrorKind::Quota, CREDIT),
    ("insufficient credits", ErrorKind::Quota, CREDIT),
    ("insufficient balance", ErrorKind::Quota, CREDIT),
    ("monthly limit", ErrorKind::Quota, MONTH),
    // Ollama, for a model that does not fit into the machine's memory.
    ("requires more system memory", ErrorKind::Rejected, MEMORY),
    // llama.cpp answers these requests with status 500, although a retry cannot succeed.
    ("requires --jinja", ErrorKind::Rejected, JINJA),
    ("image input is not supported", ErrorKind::Rejected, BLIND),
    ("param requires", ErrorKind::Rejected, OPTION),
    ("failed to parse", ErrorKind::Rejected, UNREAD),
    ("parse error", ErrorKind::Rejected, UNREAD),
];

/// Meaning of HTTP statuses, for errors without a known name or phrase.
pub(crate) const STATUSES: &[Row<u16>] = &[
    (400, ErrorKind::Rejected, REQUEST),
    (401, ErrorKind::Auth, KEY),
    (402, ErrorKind::Quota, CREDIT),
    (403, ErrorKind::Auth, RIGHTS),
    (404, ErrorKind::Rejected, NEAR),
    (405, ErrorKind::Rejected, DIALECT),
    (408, ErrorKind::Overloaded, TIMED_OUT),
    (409, ErrorKind::Overloaded, CONFLICT),
    (413, ErrorKind::ContextExceeded, TOO_LARGE),
    (422, ErrorKind::Rejected, FIELD),
    (429, ErrorKind::Rate, RATE),
    (500, ErrorKind::Overloaded, FAILED),
    (502, ErrorKind::Overloaded, GATEWAY),
    (503, ErrorKind::Overloaded, AWAY),
    (504, ErrorKind::Overloaded, SLOW),
    (529, ErrorKind::Overloaded, BUSY),
];
