use std::borrow::Cow;
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::sync::{PoisonError, RwLock};

use serde_json::Value;

use crate::model::{Block, ToolContent};

/// What stands in the place of a secret.
pub const REDACTED: &str = "[redacted]";

/// The shortest value that is looked for: anything shorter is part of ordinary text.
const SHORTEST: usize = 8;

/// Keeps secrets out of everything that is written: the store, streams, logs, errors, requests.
/// `cx.service::<Redactor>()`.
///
/// It finds the values it was told, of which it keeps the first bytes and a keyed hash, and what has the shape of
/// a well-known kind of key. Every writer asks it for text that it did not make itself.
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
    known: RwLock<Vec<Known>>,
    hashes: RandomState,
}

/// A value to look for, without the value.
#[derive(Debug, PartialEq, Eq)]
struct Known {
    /// Its first bytes: what makes looking cheap, and little of a key.
    start: [u8; 4],
    len: usize,
    hash: u64,
}

impl Redactor {
    /// Knows shapes only.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Looks for this value from now on. Surrounding blanks do not count; a value of less than 8 bytes is not
    /// looked for.
    pub fn learn(&self, secret: &str) {
        let secret = secret.trim().as_bytes();
        let (Some(start), true) = (secret.first_chunk(), secret.len() >= SHORTEST) else { return };
        let known = Known { start: *start, len: secret.len(), hash: self.hashes.hash_one(secret) };
        let mut all = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if !all.contains(&known) {
            all.push(known);
        }
    }

    /// The text without secrets; the same text if there are none.
    #[must_use]
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut found = shapes(text);
        self.find_known(text.as_bytes(), &mut found);
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
        // A value that ends inside a character cannot be cut there.
        while !text.is_char_boundary(at) {
            at += 1;
        }
        out.push_str(text.get(at..).unwrap_or_default());
        Cow::Owned(out)
    }

    /// Redacts every text in `value`, keys of objects included.
    pub fn redact_value(&self, value: &mut Value) {
        match value {
            Value::String(text) => self.redact_string(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.redact_value(item)),
            Value::Object(fields) => {
                fields.values_mut().for_each(|field| self.redact_value(field));
                if fields.keys().any(|key| matches!(self.redact(key), Cow::Owned(_))) {
                    let taken = std::mem::take(fields);
                    fields.extend(
                        taken.into_iter().map(|(key, field)| (self.redact(&key).into_owned(), field)),
                    );
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Redacts `text`; gives whether anything was found.
    pub fn redact_string(&self, text: &mut String) {
        if let Cow::Owned(clean) = self.redact(text) {
            *text = clean;
        }
    }

    /// The content of a result without secrets; nothing if there are none.
    #[must_use]
    pub fn redact_content(&self, content: &ToolContent) -> Option<ToolContent> {
        match content {
            ToolContent::Text(text) => match self.redact(text) {
                Cow::Borrowed(_) => None,
                Cow::Owned(clean) => Some(ToolContent::Text(clean)),
            },
            ToolContent::Blocks(blocks) => {
                let holds = |block: &Block| {
                    block.as_text().is_some_and(|text| matches!(self.redact(text), Cow::Owned(_)))
                };
                blocks.iter().any(holds).then(|| {
                    let mut blocks = blocks.clone();
                    for block in &mut blocks {
                        if let Block::Text(text) = block {
                            self.redact_string(&mut text.text);
                        }
                    }
                    ToolContent::Blocks(blocks)
                })
            }
        }
    }

    fn find_known(&self, text: &[u8], found: &mut Vec<Range<usize>>) {
        let all = self.known.read().unwrap_or_else(PoisonError::into_inner);
        if all.is_empty() {
            return;
        }
        for (at, window) in text.windows(4).enumerate() {
            for known in all.iter().filter(|known| known.start == window) {
                let value = text.get(at..at + known.len);
                if value.is_some_and(|value| self.hashes.hash_one(value) == known.hash) {
                    found.push(at..at + known.len);
                }
            }
        }
    }
}

/// Prefixes of well-known keys, and how many characters of a key follow at least.
const PREFIXES: &[(&str, usize)] = &[
    ("sk-ant-", 20),
    ("sk-proj-", 20),
    ("sk-or-", 20),
    ("sk_live_", 16),
    ("rk_live_", 16),
    ("sk-", 32),
    ("ghp_", 30),
    ("gho_", 30),
    ("ghu_", 30),
    ("ghs_", 30),
    ("ghr_", 30),
    ("github_pat_", 40),
    ("glpat-", 20),
    ("AKIA", 16),
    ("ASIA", 16),
    ("AIza", 35),
    ("xoxb-", 20),
    ("xoxp-", 20),
    ("xoxa-", 20),
    ("xoxr-", 20),
    ("xoxs-", 20),
    ("hf_", 30),
    ("gsk_", 40),
    ("npm_", 36),
    ("pypi-", 50),
    ("xai-", 40),
];

/// Where `text` has the shape of a secret.
fn shapes(text: &str) -> Vec<Range<usize>> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let end = match byte {
            b's' | b'r' | b'g' | b'A' | b'x' | b'h' | b'n' | b'p' if begins_word(bytes, at) => {
                prefixed(bytes, at)
            }
            b'e' if begins_word(bytes, at) => web_token(bytes, at),
            b'-' if at.checked_sub(1).and_then(|before| bytes.get(before)) != Some(&b'-') => {
                private_key(text, at)
            }
            b':' => {
                if let Some(password) = password_in_url(bytes, at) {
                    found.push(password);
                }
                None
            }
            _ => None,
        };
        match end {
            Some(end) => {
                found.push(at..end);
                at = end;
            }
            None => at += 1,
        }
    }
    found
}

fn is_key_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

fn begins_word(bytes: &[u8], at: usize) -> bool {
    at.checked_sub(1).and_then(|before| bytes.get(before)).is_none_or(|before| !is_key_byte(*before))
}

/// The end of the key characters from `at` on.
fn run(bytes: &[u8], at: usize) -> usize {
    let rest = bytes.get(at..).unwrap_or_default();
    at + rest.iter().take_while(|byte| is_key_byte(**byte)).count()
}

fn prefixed(bytes: &[u8], at: usize) -> Option<usize> {
    let rest = bytes.get(at..)?;
    let (prefix, least) = PREFIXES.iter().find(|(prefix, _)| rest.starts_with(prefix.as_bytes()))?;
    let end = run(bytes, at);
    let tail = bytes.get(at + prefix.len()..end)?;
    // Words of letters alone, as in a class name, are no key.
    let is_key = tail.len() >= *least && tail.iter().any(u8::is_ascii_digit);
    is_key.then_some(end)
}

/// A signed web token: three parts of base 64, the first of which is a JSON object.
fn web_token(bytes: &[u8], at: usize) -> Option<usize> {
    if !bytes.get(at..)?.starts_with(b"eyJ") {
        return None;
    }
    let mut end = run(bytes, at);
    for _ in 0..2 {
        if bytes.get(end) != Some(&b'.') {
            return None;
        }
        let next = run(bytes, end + 1);
        if next < end + 11 {
            return None;
        }
        end = next;
    }
    Some(end)
}

fn private_key(text: &str, at: usize) -> Option<usize> {
    let rest = text.get(at..)?;
    let after = rest.strip_prefix("-----BEGIN ")?;
    let (label, body) = after.split_once("-----")?;
    if label.len() > 40 || !label.ends_with("PRIVATE KEY") {
        return None;
    }
    // The key itself: base 64 over several lines, whose ends may be escaped. One that is cut off ends with it.
    let is_body =
        |byte: u8| byte.is_ascii_alphanumeric() || byte.is_ascii_whitespace() || b"+/=\\:,".contains(&byte);
    let key = body.bytes().take_while(|byte| is_body(*byte)).count();
    let end = text.len() - body.len() + key;
    let tail = text.get(end..).and_then(|tail| tail.strip_prefix("-----END "));
    let closed = tail.and_then(|tail| tail.find("-----")).filter(|label| *label <= 40);
    Some(closed.map_or(end, |label| end + "-----END ".len() + label + "-----".len()))
}

/// The password of `scheme://user:password@host`, whose second colon is at `at`.
fn password_in_url(bytes: &[u8], at: usize) -> Option<Range<usize>> {
    let ends =
        |byte: u8| byte.is_ascii_whitespace() || matches!(byte, b'/' | b'"' | b'\'' | b'<' | b'>' | b'`');
    let before = bytes.get(at.saturating_sub(256)..at)?;
    let user =
        before.iter().rev().take_while(|byte| !ends(**byte) && **byte != b'@' && **byte != b':').count();
    if !before.get(..before.len().checked_sub(user)?)?.ends_with(b"://") {
        return None;
    }
    let rest = bytes.get(at + 1..)?;
    let len = rest.iter().take(256).position(|byte| *byte == b'@' || ends(*byte))?;
    (len > 0 && rest.get(len) == Some(&b'@')).then(|| at + 1..at + 1 + len)
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
    fn values_and_names_in_data_are_redacted() {
        let redactor = Redactor::new();
        redactor.learn(" correct-horse \n");
        redactor.learn("short");
        let mut value = json!({"correct-horse": ["is correct-horse", 7, {"a": "short"}]});
        redactor.redact_value(&mut value);
        assert_eq!(value, json!({"[redacted]": ["is [redacted]", 7, {"a": "short"}]}));
        assert!(!format!("{redactor:?}").contains("correct"));
    }

    proptest! {
        #[test]
        fn a_known_value_is_found_wherever_it_stands(
            secrets in prop::collection::vec("[a-z0-9é]{8,40}", 1..4),
            around in prop::collection::vec("[ -~é]{0,30}", 4),
        ) {
            let redactor = Redactor::new();
            secrets.iter().for_each(|secret| redactor.learn(secret));
            let text: String = around.iter().zip(secrets.iter().cycle()).map(|(a, s)| format!("{a}{s}")).collect();
            let clean = redactor.redact(&text);
            for secret in &secrets {
                prop_assert!(!clean.contains(secret.trim()), "{secret} in {clean}");
            }
        }
    }
}
