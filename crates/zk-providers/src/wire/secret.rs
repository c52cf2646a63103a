use std::fmt;
use std::sync::Arc;

use crate::auth::TokenSource;

/// A key or token. Its `Debug` shows nothing of it, and its memory is wiped when it is dropped.
///
/// ```
/// let key = zk_providers::Secret::from("sk-test");
/// assert!(!format!("{key:?}").contains("sk-test"));
/// ```
pub type Secret = secrecy::SecretString;

/// How a request shows who it is from.
#[derive(Clone, Default)]
pub enum Auth {
    /// Not at all: a local server.
    #[default]
    None,
    /// The way the dialect sends API keys: in a header of its own, such as `x-api-key`, or as a bearer token.
    Key(Secret),
    /// `Authorization: Bearer …`, whatever the dialect.
    Bearer(Secret),
    /// A header of its own.
    Header {
        /// The header's name.
        name: String,
        /// What stands before the key, such as `Token `; often nothing.
        prefix: String,
        /// The key.
        key: Secret,
    },
    /// `Authorization: Bearer …` with the token this gives for each request, and another one when the server
    /// rejects it.
    Source(Arc<dyn TokenSource>),
}

impl fmt::Debug for Auth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "None",
            Self::Key(_) => "Key(…)",
            Self::Bearer(_) => "Bearer(…)",
            Self::Header { .. } => "Header { … }",
            Self::Source(_) => "Source(…)",
        })
    }
}

impl Auth {
    /// The key, if it is always the same.
    pub(crate) fn secret(&self) -> Option<&Secret> {
        match self {
            Self::None | Self::Source(_) => None,
            Self::Key(key) | Self::Bearer(key) | Self::Header { key, .. } => Some(key),
        }
    }
}

/// What stands in place of a secret.
const REDACTED: &str = "[key]";
/// The shortest secret that is looked for: shorter ones occur by chance.
const SHORTEST: usize = 4;

/// `text` without the `secrets` in it, and without user names and passwords in URLs: for text that somebody else
/// wrote. The beginning of a secret that was cut, so that `…` stands behind it, goes too.
///
/// ```
/// let told = zk_providers::redact("no key sk-test-1 at https://u:pw@host/x", ["sk-test-1"]);
/// assert_eq!(told, "no key [key] at https://host/x");
/// ```
pub fn redact<'a>(text: &str, secrets: impl IntoIterator<Item = &'a str>) -> String {
    let mut secrets: Vec<&str> =
        secrets.into_iter().map(str::trim).filter(|secret| secret.len() >= SHORTEST).collect();
    // One secret may be part of another.
    secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    let mut out = without_userinfo(text);
    for secret in secrets {
        if out.contains(secret) {
            out = out.replace(secret, REDACTED);
        }
        cut_off(&mut out, secret);
    }
    out
}

/// Removes the beginning of `secret` wherever the text was cut behind it.
fn cut_off(text: &mut String, secret: &str) {
    let cut = |stem: &str| {
        let ends = secret.char_indices().map(|(at, _)| at).filter(|at| *at >= SHORTEST);
        ends.filter_map(|at| Some(stem.strip_suffix(secret.get(..at)?)?.len())).min()
    };
    let mut from = 0;
    while let Some(at) = text.get(from..).and_then(|rest| rest.find('…')).map(|at| from + at) {
        from = match text.get(..at).and_then(cut) {
            Some(begin) => {
                text.replace_range(begin..at, REDACTED);
                begin + REDACTED.len()
            }
            None => at,
        } + '…'.len_utf8();
    }
}

/// `text` without what stands before the host in its URLs.
pub(crate) fn without_userinfo(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("://") {
        out.push_str(before);
        out.push_str("://");
        let end = after
            .find(|char: char| {
                char.is_whitespace() || matches!(char, '/' | '?' | '#' | '"' | '\'' | '`' | '<' | '>')
            })
            .unwrap_or(after.len());
        let (authority, behind) = after.split_at(end);
        out.push_str(authority.rsplit_once('@').map_or(authority, |(_, host)| host));
        rest = behind;
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_goes_wherever_it_stands_also_within_another_and_where_it_was_cut() {
        let secrets = ["sk-ab", "sk-abcdef", " sk-ab\n", "no"];
        assert_eq!(redact("a sk-abcdef, sk-ab, no", secrets), "a [key], [key], no");
        assert_eq!(redact("it was sk-abc…", secrets), "it was [key]…");
        assert_eq!(redact("it was sk-…", secrets), "it was sk-…", "too little to be one");
        assert_eq!(redact("sk-abc… and sk-ab… and sk-", ["sk-abcdef"]), "[key]… and [key]… and sk-");
    }

    #[test]
    fn urls_lose_their_user_and_password_and_nothing_else() {
        for (text, told) in [
            ("at https://u:p@w@host:1/a?b#c.", "at https://host:1/a?b#c."),
            ("`http://token@host`, user@host", "`http://host`, user@host"),
            ("https://host/a@b and ftp://x@y", "https://host/a@b and ftp://y"),
            ("a://", "a://"),
        ] {
            assert_eq!(redact(text, []), told);
        }
    }
}
