use std::fmt;
use std::sync::Arc;

use zk_auth::{Secret, TokenSource};

/// Form in which requests carry their credential.
#[derive(Clone, Default)]
pub enum Auth {
    /// No credential, for a local server.
    #[default]
    None,
    /// An API key in the dialect's form: in a header such as `x-api-key`, or as a bearer token.
    Key(Secret),
    /// A token as `Authorization: Bearer …`, in any dialect.
    Bearer(Secret),
    /// A key in a custom header.
    Header {
        /// Name of the header.
        name: String,
        /// Text before the key, such as `Token `; often empty.
        prefix: String,
        /// API key to send.
        key: Secret,
    },
    /// A token as `Authorization: Bearer …`, taken from this source for each request, and replaced if the
    /// server rejects it.
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
    /// Returns the credential, if it is constant.
    pub(crate) fn secret(&self) -> Option<&Secret> {
        match self {
            Self::None | Self::Source(_) => None,
            Self::Key(key) | Self::Bearer(key) | Self::Header { key, .. } => Some(key),
        }
    }
}

/// Removes user names and passwords from URLs in `text`.
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
    fn urls_lose_their_user_and_password_and_nothing_else() {
        for (text, expected) in [
            ("at https://u:p@w@host:1/a?b#c.", "at https://host:1/a?b#c."),
            ("`http://token@host`, user@host", "`http://host`, user@host"),
            ("https://host/a@b and ftp://x@y", "https://host/a@b and ftp://y"),
            ("a://", "a://"),
        ] {
            assert_eq!(without_userinfo(text), expected);
        }
    }
}
