//! Finds well-known kinds of keys by their form.

use std::ops::Range;
use std::sync::LazyLock;

use memchr::memmem::Finder;

use super::starts::Starts;

/// Prefixes of well-known keys, each with the minimum number of characters that follow.
pub(super) const PREFIXES: &[(&str, usize)] = &[
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

/// Minimum number of characters after a known prefix for a word to be taken for a key rather than a name.
const MIN_KEY_REST: usize = 8;

/// Minimum length in characters of a word with letters and several digits that is taken for a key rather than a name.
const MIN_KEY_LEN: usize = 28;

/// Whether a word is probably a key that was entered in place of a name: it has a key's prefix, or is long
/// and random.
///
/// ```
/// use zk_core::service::looks_like_key;
///
/// assert!(looks_like_key("sk-test-12345678") && looks_like_key("0123456789abcdef0123456789abcdef"));
/// assert!(!looks_like_key("anthropic") && !looks_like_key("my-own-provider-of-2026"));
/// ```
#[must_use]
pub fn looks_like_key(word: &str) -> bool {
    let begins = |(prefix, _): &(&str, usize)| {
        word.strip_prefix(prefix)
            .is_some_and(|rest| rest.len() >= MIN_KEY_REST && !rest.contains(char::is_whitespace))
    };
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    let is_random =
        word.len() >= MIN_KEY_LEN && digits > 1 && word.bytes().any(|byte| byte.is_ascii_alphabetic());
    PREFIXES.iter().any(begins)
        || (is_random && !word.contains(char::is_whitespace))
        || !find_secret_forms(word).is_empty()
}

/// Prefixes of a web token and of a private key.
pub(super) const WEB_TOKEN: &str = "eyJ";
pub(super) const PRIVATE_KEY: &str = "-----BEGIN ";

/// Marker before the user name in a URL.
const USER: &str = "://";

static USERS: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new(USER));

static STARTS: LazyLock<Starts> = LazyLock::new(|| Starts::new(key_prefixes()));

/// Returns the prefixes of all known forms of keys.
fn key_prefixes() -> impl Iterator<Item = &'static [u8]> {
    PREFIXES.iter().map(|(prefix, _)| *prefix).chain([WEB_TOKEN, PRIVATE_KEY]).map(str::as_bytes)
}

/// Maximum length in bytes of [`markers`] and of the indexed first bytes of values.
pub(super) const MAX_MARKER_BYTES: usize = 11;

/// Returns the markers that a secret of a known form begins with or directly follows.
pub(super) fn markers() -> impl Iterator<Item = &'static [u8]> {
    key_prefixes().chain([USER.as_bytes()])
}

/// Returns the ranges of `text` that have the form of a secret. Ranges may overlap.
pub(super) fn find_secret_forms(text: &str) -> Vec<Range<usize>> {
    find_secret_forms_from(text, 0)
}

/// Returns the ranges of `text` that have the form of a secret and begin at `from` or later. Ranges may
/// overlap.
pub(super) fn find_secret_forms_from(text: &str, from: usize) -> Vec<Range<usize>> {
    let bytes = text.as_bytes();
    let around = from.saturating_sub(MARKER_REACH_BYTES);
    let users = USERS.find_iter(bytes.get(around..).unwrap_or_default());
    let mut found: Vec<_> = users.filter_map(|at| password_in_url(bytes, around + at + USER.len())).collect();
    found.retain(|range| range.start >= from);
    let mut at = from;
    while let Some(start) = STARTS.next(bytes, at) {
        let end = match bytes.get(start) {
            Some(b'-') => private_key_end(text, start),
            Some(_) if is_word_start(bytes, start) => {
                prefixed_key_end(bytes, start).or_else(|| web_token_end(bytes, start))
            }
            Some(_) | None => None,
        };
        found.extend(end.map(|end| start..end));
        // The dashes that seem to end one key may begin a private key.
        at = start + 1;
    }
    found
}

pub(super) fn is_key_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

pub(super) fn is_word_start(bytes: &[u8], at: usize) -> bool {
    at.checked_sub(1).and_then(|before| bytes.get(before)).is_none_or(|before| !is_key_byte(*before))
}

/// Returns the end of the sequence of key characters that starts at `at`.
fn key_run_end(bytes: &[u8], at: usize) -> usize {
    let rest = bytes.get(at..).unwrap_or_default();
    at + rest.iter().take_while(|byte| is_key_byte(**byte)).count()
}

fn prefixed_key_end(bytes: &[u8], at: usize) -> Option<usize> {
    let rest = bytes.get(at..)?;
    let (prefix, least) = PREFIXES.iter().find(|(prefix, _)| rest.starts_with(prefix.as_bytes()))?;
    let end = key_run_end(bytes, at);
    let tail = bytes.get(at + prefix.len()..end)?;
    // A word of letters alone, such as a class name, is no key.
    let is_key = tail.len() >= *least && tail.iter().any(u8::is_ascii_digit);
    is_key.then_some(end)
}

/// Finds the end of a signed web token: three parts of base 64, the first of which is a JSON object.
fn web_token_end(bytes: &[u8], at: usize) -> Option<usize> {
    if !bytes.get(at..)?.starts_with(WEB_TOKEN.as_bytes()) {
        return None;
    }
    let mut end = key_run_end(bytes, at);
    for _ in 0..2 {
        if bytes.get(end) != Some(&b'.') {
            return None;
        }
        let next = key_run_end(bytes, end + 1);
        if next < end + 11 {
            return None;
        }
        end = next;
    }
    Some(end)
}

/// Whether the byte may occur in a private key: base 64 over several lines, whose ends may be escaped.
pub(super) fn is_private_key_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte.is_ascii_whitespace() || b"+/=\\:,".contains(&byte)
}

fn private_key_end(text: &str, at: usize) -> Option<usize> {
    let before = text.get(..at)?;
    let after = text.get(at..)?.strip_prefix(PRIVATE_KEY).filter(|_| !before.ends_with('-'))?;
    let (label, body) = after.split_once("-----")?;
    if label.len() > 40 || !label.ends_with("PRIVATE KEY") {
        return None;
    }
    // A private key that is cut off ends with the text.
    let key = body.bytes().take_while(|byte| is_private_key_byte(*byte)).count();
    let end = text.len() - body.len() + key;
    let tail = text.get(end..).and_then(|tail| tail.strip_prefix("-----END "));
    let closed = tail.and_then(|tail| tail.find("-----")).filter(|label| *label <= 40);
    Some(closed.map_or(end, |label| end + "-----END ".len() + label + "-----".len()))
}

/// Maximum length of a user name or password in a URL that is searched for, in bytes.
pub(super) const MAX_URL_PART_BYTES: usize = 256;

/// Maximum distance from a marker to the secret after it, in bytes.
pub(super) const MARKER_REACH_BYTES: usize = MAX_URL_PART_BYTES + USER.len();

/// Finds the password of `scheme://user:password@host`, whose user begins at `user`.
fn password_in_url(bytes: &[u8], user: usize) -> Option<Range<usize>> {
    let ends =
        |byte: u8| byte.is_ascii_whitespace() || matches!(byte, b'/' | b'"' | b'\'' | b'<' | b'>' | b'`');
    let rest = bytes.get(user..)?;
    let name =
        rest.iter().take(MAX_URL_PART_BYTES).position(|byte| ends(*byte) || matches!(byte, b'@' | b':'))?;
    let rest = rest.get(name..)?.strip_prefix(b":")?;
    let len = rest.iter().take(MAX_URL_PART_BYTES).position(|byte| *byte == b'@' || ends(*byte))?;
    let password = user + name + 1;
    (len > 0 && rest.get(len) == Some(&b'@')).then(|| password..password + len)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Generator of secrets, incomplete secrets and look-alikes.
    fn text_piece() -> impl Strategy<Value = String> {
        let prefixes: Vec<&str> = PREFIXES.iter().map(|(prefix, _)| *prefix).collect();
        prop_oneof![
            (prop::sample::select(prefixes), "[a-z0-9_-]{0,60}")
                .prop_map(|(prefix, tail)| prefix.to_owned() + &tail),
            "eyJ[a-zA-Z0-9]{0,12}(\\.[a-zA-Z0-9]{9,14}){0,3}",
            "-{4,6}BEGIN (RSA )?PRIVATE KEY-----[A-Z\n]{0,20}(-----END PRIVATE KEY-----)?",
            "[a-z]{0,3}://[a-z]{0,3}:?[a-z:]{0,3}@?",
            "[a-z \"é\n:/@-]{0,12}",
        ]
    }

    #[test]
    fn no_marker_exceeds_the_maximum_length() {
        assert_eq!(markers().map(<[u8]>::len).max(), Some(MAX_MARKER_BYTES));
    }

    proptest! {
        #[test]
        fn every_secret_form_is_found_at_its_position(pieces in prop::collection::vec(text_piece(), 0..8)) {
            let text = pieces.concat();
            let bytes = text.as_bytes();
            let found = find_secret_forms(&text);
            prop_assert!(found.is_empty() || Starts::new(markers()).next(bytes, 0).is_some());
            for at in 0..bytes.len() {
                let key = || prefixed_key_end(bytes, at).or_else(|| web_token_end(bytes, at)).filter(|_| is_word_start(bytes, at));
                let key = private_key_end(&text, at).or_else(key).map(|end| at..end);
                let password = bytes[..at].ends_with(b"://").then(|| password_in_url(bytes, at)).flatten();
                for range in key.into_iter().chain(password) {
                    let inside = |all: &Range<usize>| all.start <= range.start && range.end <= all.end;
                    prop_assert!(found.iter().any(inside), "{range:?} of {text:?} is not in {found:?}");
                }
            }
        }
    }
}
