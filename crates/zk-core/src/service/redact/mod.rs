//! Redaction of secrets in everything that is written.

mod history;
mod open;
mod pieces;
mod shapes;
mod starts;

use std::borrow::Cow;
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::sync::{OnceLock, PoisonError, RwLock};

use serde_json::Value;

pub use pieces::RedactedPieces;
use shapes::find_secret_forms;
pub use shapes::looks_like_key;
use starts::Starts;

/// Placeholder that replaces a redacted secret.
pub const REDACTED: &str = "[redacted]";

/// Minimum length of a redacted value in bytes; anything shorter may be part of ordinary text.
const MIN_SECRET_BYTES: usize = 8;

/// Minimum length of a redacted key, and of a redacted prefix of one, in bytes.
const MIN_KEY_BYTES: usize = 4;

/// Maximum length of a key's prefix that is searched for, in bytes; error messages quote no more.
const MAX_KEY_PREFIX_BYTES: usize = 256;

/// Redacts secrets in everything that is written: the store, streams, logs, errors, requests.
/// `cx.service::<Redactor>()`.
///
/// The redactor finds values that it has learned, of which it stores the first bytes and a keyed hash, and
/// texts in the form of a well-known kind of key. Every writer redacts text that it did not produce itself.
///
/// ```
/// use zk_core::service::Redactor;
///
/// let redactor = Redactor::new();
/// redactor.learn("correct-horse-battery");
/// assert_eq!(redactor.redact("key=correct-horse-battery!"), "key=[redacted]!");
/// assert_eq!(redactor.redact("https://me:hunter2@host/v1"), "https://me:[redacted]@host/v1");
/// assert!(matches!(redactor.redact("nothing here"), std::borrow::Cow::Borrowed(_)));
/// ```
#[derive(Debug, Default)]
pub struct Redactor {
    known: RwLock<AllKnown>,
    hashes: RandomState,
}

/// All learned values, with indexes of their first bytes.
#[derive(Debug, Default)]
struct AllKnown {
    values: Vec<Known>,
    /// Index of the values' first bytes; built by the first search after a value was learned.
    starts: OnceLock<Starts>,
    /// Index of the values' first bytes and of the marker strings of all known key forms, built like
    /// `starts`.
    markers: OnceLock<Starts>,
}

impl AllKnown {
    fn value_starts(&self) -> &Starts {
        self.starts.get_or_init(|| Starts::new(self.values.iter().map(|known| &known.start[..])))
    }

    /// Returns the first position, `at` or later, of a learned value's first bytes or of a key form's marker.
    fn next_marker(&self, text: &[u8], at: usize) -> Option<usize> {
        let markers = self.markers.get_or_init(|| {
            let markers = shapes::markers().map(|marker| -> &[u8] { marker });
            Starts::new(self.values.iter().map(|known| &known.start[..]).chain(markers))
        });
        markers.next(text, at)
    }
}

/// A learned value in a form that does not reveal it.
#[derive(Debug, PartialEq, Eq)]
struct Known {
    /// First bytes of the value, as a cheap filter; too few to reveal a key.
    start: [u8; 4],
    len: usize,
    hash: u64,
    /// Lengths and hashes of the value's prefixes, to find the value where a text was cut off; empty if only
    /// whole values are searched for.
    prefixes: Vec<(usize, u64)>,
}

impl Redactor {
    /// Creates a redactor that knows the forms of keys and no values.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Redacts this value from now on, without surrounding blanks. A value of less than 8 bytes is ignored.
    pub fn learn(&self, secret: &str) {
        if secret.trim().len() >= MIN_SECRET_BYTES {
            self.add(secret.trim(), Vec::new());
        }
    }

    /// Redacts this key from now on like [`Redactor::learn`], from 4 bytes on, and also a beginning of it
    /// where a text was cut, followed by `…`. For the program's own keys.
    pub fn learn_key(&self, key: &str) {
        let key = key.trim();
        let ends = key.char_indices().map(|(at, _)| at);
        let ends = ends.skip_while(|at| *at < MIN_KEY_BYTES).take_while(|at| *at <= MAX_KEY_PREFIX_BYTES);
        let beginning = |end| Some((end, self.hashes.hash_one(key.as_bytes().get(..end)?)));
        if !self.has_learned_key(key) {
            self.add(key, ends.filter_map(beginning).collect());
        }
    }

    /// Whether this key and its prefixes are already learned.
    fn has_learned_key(&self, key: &str) -> bool {
        let hash = self.hashes.hash_one(key.as_bytes());
        let all = self.known.read().unwrap_or_else(PoisonError::into_inner);
        all.values
            .iter()
            .any(|known| known.hash == hash && known.len == key.len() && !known.prefixes.is_empty())
    }

    fn add(&self, secret: &str, prefixes: Vec<(usize, u64)>) {
        let secret = secret.as_bytes();
        let Some(start) = secret.first_chunk() else { return };
        let hash = self.hashes.hash_one(secret);
        let known = Known { start: *start, len: secret.len(), hash, prefixes };
        let mut all = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if !all.values.contains(&known) {
            all.values.push(known);
            (all.starts, all.markers) = Default::default();
        }
    }

    /// Whether a secret may begin in these bytes. A fast check, negative for ordinary text.
    #[must_use]
    pub fn has_candidate(&self, text: &[u8]) -> bool {
        self.known.read().unwrap_or_else(PoisonError::into_inner).next_marker(text, 0).is_some()
    }

    /// Whether any text in `value`, including keys of objects, may hold a secret.
    #[must_use]
    pub fn has_candidate_in(&self, value: &Value) -> bool {
        match value {
            Value::String(text) => self.has_candidate(text.as_bytes()),
            Value::Array(items) => items.iter().any(|item| self.has_candidate_in(item)),
            Value::Object(fields) => fields
                .iter()
                .any(|(key, field)| self.has_candidate(key.as_bytes()) || self.has_candidate_in(field)),
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }

    /// Returns the text with its secrets redacted; unchanged if it has none.
    #[must_use]
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if !self.has_candidate(text.as_bytes()) {
            return Cow::Borrowed(text);
        }
        self.redact_with(text, find_secret_forms(text))
    }

    /// Redacts the learned values and the ranges in `found`.
    fn redact_with<'a>(&self, text: &'a str, mut found: Vec<Range<usize>>) -> Cow<'a, str> {
        self.find_learned_values(text.as_bytes(), &mut found);
        if found.is_empty() {
            return Cow::Borrowed(text);
        }
        found.sort_unstable_by_key(|range| (range.start, range.end));
        let mut out = String::with_capacity(text.len());
        let mut at = 0;
        for range in found {
            if range.end <= at {
                continue;
            }
            if range.start >= at {
                out.push_str(text.get(at..range.start).unwrap_or_default());
                out.push_str(REDACTED);
            }
            at = range.end;
        }
        // A value that ends inside a character is cut at the next boundary.
        while !text.is_char_boundary(at) {
            at += 1;
        }
        out.push_str(text.get(at..).unwrap_or_default());
        Cow::Owned(out)
    }

    /// Redacts all texts in `value`, including keys of objects; returns whether there were secrets.
    pub fn redact_value(&self, value: &mut Value) -> bool {
        self.has_candidate_in(value) && self.redact_texts(value, &|text| self.redact(text))
    }

    /// Redacts learned values only in the texts of `value`: opaque data may match the form of a key by
    /// chance.
    fn redact_opaque(&self, value: &mut Value) -> bool {
        self.redact_texts(value, &|text| self.redact_with(text, Vec::new()))
    }

    fn redact_texts(&self, value: &mut Value, redact: &dyn Fn(&str) -> Cow<'_, str>) -> bool {
        match value {
            Value::String(text) => {
                let clean = match redact(text) {
                    Cow::Owned(clean) => clean,
                    Cow::Borrowed(_) => return false,
                };
                *text = clean;
                true
            }
            // `any` would stop at the first item with a secret.
            Value::Array(items) => {
                items.iter_mut().fold(false, |found, item| found | self.redact_texts(item, redact))
            }
            Value::Object(fields) => {
                let found =
                    fields.values_mut().fold(false, |found, field| found | self.redact_texts(field, redact));
                if !fields.keys().any(|key| matches!(redact(key), Cow::Owned(_))) {
                    return found;
                }
                let taken = std::mem::take(fields);
                fields.extend(taken.into_iter().map(|(key, field)| (redact(&key).into_owned(), field)));
                true
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }

    /// Redacts `text`; returns whether it had secrets.
    pub fn redact_string(&self, text: &mut String) -> bool {
        match self.redact(text) {
            Cow::Owned(clean) => {
                *text = clean;
                true
            }
            Cow::Borrowed(_) => false,
        }
    }

    fn find_learned_values(&self, text: &[u8], found: &mut Vec<Range<usize>>) {
        let all = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let mut next = 0;
        while let Some(at) = all.value_starts().next(text, next) {
            next = at + 1;
            let begins = |known: &&Known| text.get(at..).is_some_and(|rest| rest.starts_with(&known.start));
            for known in all.values.iter().filter(begins) {
                let value = text.get(at..at + known.len);
                if value.is_some_and(|value| self.hashes.hash_one(value) == known.hash) {
                    found.push(at..at + known.len);
                    continue;
                }
                let cut = known.prefixes.iter().rev().find_map(|(len, hash)| {
                    let end = at + len;
                    let is_cut = text.get(end..).is_some_and(|rest| rest.starts_with("…".as_bytes()));
                    (is_cut && self.hashes.hash_one(text.get(at..end)?) == *hash).then_some(end)
                });
                found.extend(cut.map(|end| at..end));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn known_kinds_of_keys_are_found_and_ordinary_text_is_left_alone() {
        let key = "a1".repeat(30);
        for (text, clean) in [
            (format!("x sk-ant-{key} y"), "x [redacted] y".to_owned()),
            (format!("\"ghp_{key}\""), "\"[redacted]\"".to_owned()),
            ("AKIAIOSFODNN7EXAMPLE".to_owned(), "[redacted]".to_owned()),
            ("task-list-of-the-next-thirty-days-and-more-words".to_owned(), String::new()),
            ("risk-sk-small".to_owned(), String::new()),
            ("https://example.com:8080/path@x".to_owned(), String::new()),
            ("user:name@host".to_owned(), String::new()),
            (
                "a -----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY----- b".to_owned(),
                "a [redacted] b".to_owned(),
            ),
            (format!("eyJhbGciOiJIUzI1NiJ9.{key}.{key}"), "[redacted]".to_owned()),
        ] {
            let clean = if clean.is_empty() { text.clone() } else { clean };
            assert_eq!(Redactor::new().redact(&text), clean);
        }
    }

    #[test]
    fn keys_and_values_of_json_are_redacted() {
        let redactor = Redactor::new();
        redactor.learn(" correct-horse \n");
        redactor.learn("short");
        let mut value = json!({"correct-horse": ["is correct-horse", 7, {"a": "short"}]});
        redactor.redact_value(&mut value);
        assert_eq!(value, json!({"[redacted]": ["is [redacted]", 7, {"a": "short"}]}));
        assert!(!format!("{redactor:?}").contains("correct"));
    }

    #[test]
    fn a_learned_key_is_redacted_within_another_key_and_where_cut() {
        let redactor = Redactor::new();
        ["sk-ab", "sk-abcdef", " sk-ab\n", "no"].iter().for_each(|key| redactor.learn_key(key));
        let redact = |text: &'static str| redactor.redact(text);
        assert_eq!(redact("a sk-abcdef, sk-ab, no"), "a [redacted], [redacted], no");
        assert_eq!(redact("it was sk-abc…"), "it was [redacted]…");
        assert_eq!(redact("it was sk-…"), "it was sk-…", "too little to be one");
        let one = Redactor::new();
        one.learn_key("sk-abcdef");
        assert_eq!(one.redact("sk-abc… and sk-a… and sk-"), "[redacted]… and [redacted]… and sk-");
    }

    proptest! {
        #[test]
        fn a_learned_value_is_found_at_any_position(
            secrets in prop::collection::vec("[a-z0-9é]{8,40}", 1..4),
            around in prop::collection::vec("[ -~é]{0,30}", 4),
        ) {
            let redactor = Redactor::new();
            secrets.iter().for_each(|secret| redactor.learn(secret));
            let text: String = around.iter().zip(secrets.iter().cycle()).map(|(a, s)| format!("{a}{s}")).collect();
            let clean = redactor.redact(&text);
            for secret in &secrets {
                prop_assert!(!clean.contains(secret.trim()), "{secret} in {clean}");
                prop_assert!(redactor.has_candidate(text.as_bytes()));
            }
        }
    }
}
