//! Parses the header `WWW-Authenticate`, with which a server asks for a sign-in.

/// Request of a server for a token, or for one with more scopes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Challenge {
    /// Address of the server's resource metadata.
    pub(crate) resource_metadata: Option<String>,
    /// Scopes that the token has to have.
    pub(crate) scopes: Vec<String>,
}

impl Challenge {
    /// Parses the `Bearer` challenge of a header; empty if it has none.
    pub(crate) fn parse(header: &str) -> Self {
        let mut challenge = Self::default();
        for (name, value) in parameters(header) {
            match name.as_str() {
                "resource_metadata" => challenge.resource_metadata = Some(value),
                "scope" => challenge.scopes = value.split_ascii_whitespace().map(str::to_owned).collect(),
                _ => {}
            }
        }
        challenge
    }
}

/// Returns the parameters of the first `Bearer` challenge, with names in lower case.
fn parameters(header: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut is_bearer = false;
    for part in split(header) {
        let part = part.trim();
        // `Bearer realm="x"` begins a challenge, `scope="y"` continues it.
        let (scheme, rest) = match part.split_once(char::is_whitespace) {
            Some((scheme, rest)) if !scheme.contains('=') => (Some(scheme), rest.trim()),
            Some(_) | None if part.contains('=') => (None, part),
            Some(_) | None => (Some(part), ""),
        };
        if let Some(scheme) = scheme {
            if is_bearer {
                return found;
            }
            is_bearer = scheme.eq_ignore_ascii_case("bearer");
        }
        if let (true, Some((name, value))) = (is_bearer, rest.split_once('=')) {
            found.push((name.trim().to_ascii_lowercase(), unquoted(value.trim())));
        }
    }
    found
}

/// Splits a header at commas outside of quotes.
fn split(header: &str) -> Vec<String> {
    let (mut parts, mut part) = (Vec::new(), String::new());
    let (mut is_quoted, mut is_escaped) = (false, false);
    for c in header.chars() {
        if c == ',' && !is_quoted {
            parts.push(std::mem::take(&mut part));
            continue;
        }
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' if is_quoted => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            _ => {}
        }
        part.push(c);
    }
    parts.push(part);
    parts
}

fn unquoted(value: &str) -> String {
    let Some(inner) = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) else {
        return value.to_owned();
    };
    let mut out = String::with_capacity(inner.len());
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        out.extend(if c == '\\' { chars.next() } else { Some(c) });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(header: &str) -> (Option<String>, String) {
        let challenge = Challenge::parse(header);
        (challenge.resource_metadata, challenge.scopes.join("+"))
    }

    #[test]
    fn the_bearer_challenge_is_found_among_others_quotes_and_commas() {
        let place = Some("https://h/.well-known/x".to_owned());
        let header = r#"Bearer realm="a, b", resource_metadata="https://h/.well-known/x", scope="one two""#;
        assert_eq!(parse(header), (place.clone(), "one+two".to_owned()));
        let header = r#"Basic realm="x", bearer resource_metadata=https://h/.well-known/x , scope="a\"b""#;
        assert_eq!(parse(header), (place, "a\"b".to_owned()));
        let header = r#"Bearer error="insufficient_scope", scope="c", DPoP scope="d""#;
        assert_eq!(parse(header), (None, "c".to_owned()));
        for empty in ["", "Bearer", "Basic scope=x", "=,=,\"", "Bearer \"scope=x"] {
            assert_eq!(parse(empty), (None, String::new()), "{empty}");
        }
    }
}
