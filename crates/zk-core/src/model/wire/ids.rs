use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use crate::model::CallId;

/// Rule for tool-call ids that a provider accepts. Ids that the provider assigned itself go back unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdRule {
    /// Length limit in characters.
    pub max_len: usize,
    /// Whether ids must have exactly `max_len` characters.
    pub exact: bool,
    /// Whether only letters and digits are allowed; otherwise also `_` and `-`.
    pub alphanumeric: bool,
}

impl IdRule {
    /// Anthropic, Responses, Gemini 3, Bedrock: `[a-zA-Z0-9_-]{1,64}`.
    pub const UP_TO_64: Self = Self { max_len: 64, exact: false, alphanumeric: false };
    /// OpenAI Chat Completions: `[a-zA-Z0-9_-]{1,40}`.
    pub const UP_TO_40: Self = Self { max_len: 40, exact: false, alphanumeric: false };
    /// Mistral: `[a-zA-Z0-9]{9}`.
    pub const NINE: Self = Self { max_len: 9, exact: true, alphanumeric: true };

    /// Whether `id` is legal.
    #[must_use]
    pub fn allows(&self, id: &str) -> bool {
        let long_enough = if self.exact { id.len() == self.max_len } else { !id.is_empty() };
        long_enough
            && id.len() <= self.max_len
            && id
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || (!self.alphanumeric && matches!(b, b'_' | b'-')))
    }
}

/// Assigns call ids within one request. An assigned id depends only on the calls before it.
#[derive(Default)]
pub(super) struct Ids {
    used: HashSet<CallId>,
}

impl Ids {
    /// Returns the id of a call in this request; `is_own` says that the requested model made the call itself.
    pub(super) fn assign_id(&mut self, stored: &CallId, rule: IdRule, is_own: bool) -> CallId {
        let stays = rule.allows(stored.as_str()) || (is_own && is_provider_assigned(stored));
        if stays && self.used.insert(stored.clone()) {
            return stored.clone();
        }
        for attempt in 0_u64.. {
            let id = CallId::from(derive_id(stored.as_str(), attempt, rule));
            if self.used.insert(id.clone()) {
                return id;
            }
        }
        stored.clone()
    }
}

/// Whether a provider assigned the id, so that the provider accepts it back whatever its rule for foreign
/// ids: Kimi numbers its calls (`functions.read:0`) and expects the same numbers again.
fn is_provider_assigned(id: &CallId) -> bool {
    !id.as_str().is_empty() && !id.as_str().contains(char::is_control) && !id.is_made_here()
}

/// Derives a legal id from the stored one.
pub(super) fn derive_id(stored: &str, attempt: u64, rule: IdRule) -> String {
    const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
    let mut hash = fnv_hash(stored.bytes().chain(attempt.to_le_bytes()));
    let len = if rule.exact { rule.max_len } else { rule.max_len.min(16) };
    (0..len)
        .map(|place| {
            if place == 12 {
                hash = fnv_hash(hash.to_le_bytes().into_iter());
            }
            let digit = DIGITS.get((hash % 36) as usize).copied().unwrap_or(b'0');
            hash /= 36;
            char::from(digit)
        })
        .collect()
}

fn fnv_hash(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
