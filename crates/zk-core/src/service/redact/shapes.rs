//! The shapes of well-known kinds of keys.

use std::ops::Range;

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
pub(super) fn shapes(text: &str) -> Vec<Range<usize>> {
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
