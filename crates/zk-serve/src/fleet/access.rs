use std::fmt;

use zk_core::service::EngineName;

use crate::rpc::token::is_same;

/// Minimum size of a token, in bytes: shorter ones can be guessed.
const MIN_TOKEN_BYTES: usize = 16;

/// Runs that a token gives access to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FleetAccess {
    /// All runs.
    All,
    /// Runs of one tenant.
    Tenant(EngineName),
    /// The webhook of one schedule, and nothing else.
    Hook(EngineName),
}

/// Tokens of the clients of a server of runs.
///
/// ```
/// use zk_serve::fleet::{FleetAccess, FleetTokens};
///
/// let tokens = FleetTokens::parse("* 0123456789abcdef0\nacme fedcba9876543210f\nhook:nightly 00112233445566778\n").unwrap();
/// assert_eq!(tokens.access_of("0123456789abcdef0"), Some(FleetAccess::All));
/// assert_eq!(tokens.access_of("guess"), None);
/// ```
pub struct FleetTokens(Vec<(FleetAccess, String)>);

/// Error of a file of tokens.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FleetTokensError {
    /// There is no token.
    #[error("there is no token: write a line `TENANT TOKEN`, with `*` for all runs")]
    Empty,
    /// A line is no token.
    #[error("line {line} is no `TENANT TOKEN`: {why}")]
    Line {
        /// Number of the line, from 1.
        line: usize,
        /// Reason for the refusal, without the token.
        why: &'static str,
    },
}

impl fmt::Debug for FleetTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FleetTokens(…)")
    }
}

impl FleetTokens {
    /// Reads lines of `TENANT TOKEN`: `*` is all runs, `hook:NAME` the webhook of a schedule. Lines that begin with `#` are
    /// comments.
    ///
    /// # Errors
    /// [`FleetTokensError`].
    pub fn parse(text: &str) -> Result<Self, FleetTokensError> {
        let mut tokens = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let (line, number) = (line.trim(), index + 1);
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let wrong = |why| FleetTokensError::Line { line: number, why };
            let (tenant, token) =
                line.split_once(char::is_whitespace).ok_or_else(|| wrong("the token is missing"))?;
            let token = token.trim();
            if token.len() < MIN_TOKEN_BYTES {
                return Err(wrong("a token has 16 characters or more"));
            }
            let name = |text| {
                EngineName::new(text).map_err(|_| wrong("the name has other characters than names have"))
            };
            let access = match (tenant, tenant.strip_prefix("hook:")) {
                ("*", _) => FleetAccess::All,
                (_, Some(hook)) => FleetAccess::Hook(name(hook)?),
                (tenant, None) => FleetAccess::Tenant(name(tenant)?),
            };
            tokens.push((access, token.to_owned()));
        }
        if tokens.is_empty() { Err(FleetTokensError::Empty) } else { Ok(Self(tokens)) }
    }

    /// No tokens, with which every client is refused.
    #[must_use]
    pub fn none() -> Self {
        Self(Vec::new())
    }

    /// Returns the runs that a token gives access to; `None` for an invalid one.
    #[must_use]
    pub fn access_of(&self, token: &str) -> Option<FleetAccess> {
        // All are compared, so that the time does not depend on which one matches.
        let compare = |found: Option<FleetAccess>, (access, known): &(FleetAccess, String)| {
            let is_it = is_same(token, known);
            found.or_else(|| is_it.then(|| access.clone()))
        };
        self.0.iter().fold(None, compare)
    }

    /// Returns the tokens, for a redactor.
    pub fn reveal(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(_, token)| token.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_no_token_is_named_without_it() {
        let cases = [
            ("", FleetTokensError::Empty),
            ("# only a comment\n", FleetTokensError::Empty),
            ("acme", FleetTokensError::Line { line: 1, why: "the token is missing" }),
            ("\nacme short", FleetTokensError::Line { line: 2, why: "a token has 16 characters or more" }),
            (
                "a/b 0123456789abcdef0",
                FleetTokensError::Line { line: 1, why: "the name has other characters than names have" },
            ),
        ];
        for (text, expected) in cases {
            let error = FleetTokens::parse(text).unwrap_err();
            assert_eq!(error, expected, "{text}");
            assert!(!error.to_string().contains("0123456789abcdef0"));
        }
        let tokens = FleetTokens::parse("acme 0123456789abcdef0").unwrap();
        assert!(!format!("{tokens:?}").contains("0123"));
    }
}
