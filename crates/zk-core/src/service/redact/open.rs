//! Finds incomplete keys at the end of a piece of text, which the next piece may complete.

use std::sync::LazyLock;

use memchr::memchr;
use memchr::memmem::Finder;

use super::shapes::{
    MAX_URL_PART_BYTES, PREFIXES, PRIVATE_KEY, WEB_TOKEN, is_key_byte, is_private_key_byte, is_word_start,
};

const END_MARK: &str = "-----END ";

/// Searcher for the beginning of a private key, built once because every piece of text is searched.
static PRIVATE_KEYS: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new(PRIVATE_KEY));

/// Maximum length of a private key's label with the dashes behind it, in bytes.
const MAX_LABEL_BYTES: usize = 45;

/// Returns the first position, `from` or later, at which an incomplete secret of a known form may begin.
/// `has_marker` says whether a key form's marker may belong to a secret from there on.
pub(super) fn find_open_secret(text: &str, from: usize, has_marker: bool) -> Option<usize> {
    // Every form of key that has begun begins with its marker.
    let begun = if has_marker {
        [find_begun_private_key(text, from), find_open_token(text), find_open_password(text)]
    } else {
        [None; 3]
    };
    let cut = [find_open_prefixed_key(text), find_cut_private_key(text)];
    begun.into_iter().chain(cut).flatten().filter(|at| *at >= from).min()
}

/// Returns the start of the sequence of key characters that ends at `end`.
fn key_run_start(text: &[u8], end: usize) -> usize {
    let before = text.get(..end).unwrap_or_default();
    end - before.iter().rev().take_while(|byte| is_key_byte(**byte)).count()
}

/// Finds a key with a known prefix at the end of the text, of which even the prefix may be incomplete.
fn find_open_prefixed_key(text: &str) -> Option<usize> {
    let at = key_run_start(text.as_bytes(), text.len());
    let word = text.get(at..)?;
    let first = word.as_bytes().first()?;
    let mut prefixes = PREFIXES.iter().map(|(prefix, _)| *prefix).chain([WEB_TOKEN]);
    let may_be = |prefix: &str| prefix.as_bytes().first() == Some(first);
    prefixes
        .any(|prefix| may_be(prefix) && (prefix.starts_with(word) || word.starts_with(prefix)))
        .then_some(at)
}

/// Finds an incomplete web token at the end of the text.
fn find_open_token(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let dot_before = |at: usize| at.checked_sub(1).filter(|dot| bytes.get(*dot) == Some(&b'.'));
    let last = key_run_start(bytes, bytes.len());
    let second_dot = dot_before(last)?;
    let second = key_run_start(bytes, second_dot);
    let is_token = |at: usize| text.get(at..).is_some_and(|rest| rest.starts_with(WEB_TOKEN));
    // Each part but the first has at least ten characters.
    let of_three = dot_before(second).filter(|first_dot| second_dot - first_dot > 10);
    let of_three = of_three.map(|first_dot| key_run_start(bytes, first_dot)).filter(|at| is_token(*at));
    of_three.or_else(|| is_token(second).then_some(second)).filter(|at| is_word_start(bytes, *at))
}

/// Finds a private key whose first line has begun and whose last line is incomplete.
fn find_begun_private_key(text: &str, from: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut begun = PRIVATE_KEYS.find_iter(bytes.get(from..)?).map(|at| from + at);
    begun.find(|at| {
        is_first_dash(bytes, *at) && text.get(at + PRIVATE_KEY.len()..).is_some_and(is_unfinished_key)
    })
}

/// Returns the position of an incomplete beginning of a private key's first line at the end of the text.
fn find_cut_private_key(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let tail = bytes.get((bytes.len() + 1).saturating_sub(PRIVATE_KEY.len())..)?;
    memchr(b'-', tail)?;
    let begins = |len: &usize| text.ends_with(PRIVATE_KEY.get(..*len).unwrap_or_default());
    let mut places = (1..PRIVATE_KEY.len()).filter(begins).map(|len| text.len() - len);
    places.find(|at| is_first_dash(bytes, *at))
}

fn is_first_dash(bytes: &[u8], at: usize) -> bool {
    at.checked_sub(1).and_then(|before| bytes.get(before)) != Some(&b'-')
}

/// Whether the text behind `-----BEGIN ` may be continued to a private key.
fn is_unfinished_key(after: &str) -> bool {
    let Some((label, body)) = after.split_once("-----") else { return after.len() < MAX_LABEL_BYTES };
    if label.len() > 40 || !label.ends_with("PRIVATE KEY") {
        return false;
    }
    let rest = body.trim_start_matches(|c: char| u8::try_from(c).is_ok_and(is_private_key_byte));
    match rest.strip_prefix(END_MARK) {
        Some(label) => !label.contains("-----") && label.len() < MAX_LABEL_BYTES,
        None => END_MARK.starts_with(rest),
    }
}

/// Finds the colon before a possible password: `scheme://user:`, with no `@` yet.
fn find_open_password(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let ends = |byte: &u8| {
        byte.is_ascii_whitespace() || matches!(byte, b'/' | b'"' | b'\'' | b'<' | b'>' | b'`' | b'@')
    };
    let len = bytes.iter().rev().take(2 * MAX_URL_PART_BYTES).take_while(|byte| !ends(byte)).count();
    let user = bytes.len() - len;
    let colon = user + bytes.get(user..)?.iter().position(|byte| *byte == b':')?;
    let is_open = bytes.len() - colon <= MAX_URL_PART_BYTES && colon - user < MAX_URL_PART_BYTES;
    let is_open = is_open && bytes.get(..user)?.ends_with(b"://");
    is_open.then_some(colon)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_private_key_stays_open_until_its_end_line_is_whole() {
        let key = "see -----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY-----";
        let (begin, end) = ("see ".len(), key.len());
        for cut in begin + 1..end {
            let part = key.get(..cut).unwrap();
            assert_eq!(find_open_secret(part, 0, true), Some(begin), "{part:?}");
        }
        assert_eq!(find_open_secret(&format!("{key} b"), 0, true), None);
    }
}
