//! Trust in a server, and the filter of its tools.

use serde::Deserialize;

/// A person's trust in a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "settings", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ServerTrust {
    /// All tools are used, except denied ones.
    #[default]
    Trusted,
    /// Only tools that are allowed by name are used: no prompts, resources or skills, and no answers of the
    /// model.
    Untrusted,
    /// The program runs in the sandbox, its questions are declined, and it gets no answers of the model.
    Sandboxed,
}

/// Filter of a server's tools, by the server's own names; `*` in a name matches any characters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolFilter {
    /// Tools to use; `None` uses all, or none of an untrusted server.
    pub allow: Option<Vec<String>>,
    /// Tools never to use; overrides `allow`.
    pub deny: Vec<String>,
}

impl ToolFilter {
    /// Whether the tool `name` of a server with this trust is used.
    #[must_use]
    pub fn allows(&self, name: &str, trust: ServerTrust) -> bool {
        let is_among = |patterns: &[String]| patterns.iter().any(|pattern| matches(pattern, name));
        let is_allowed = match (&self.allow, trust) {
            (Some(allow), _) => is_among(allow),
            (None, ServerTrust::Untrusted) => false,
            (None, ServerTrust::Trusted | ServerTrust::Sandboxed) => true,
        };
        is_allowed && !is_among(&self.deny)
    }
}

fn matches(pattern: &str, name: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut name) = name.strip_prefix(start) else { return false };
    let mut parts = rest.split('*').peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return name.ends_with(part);
        }
        // The first match is sufficient, because a `*` follows.
        let Some((_, after)) = name.split_once(part) else { return false };
        name = after;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(allow: Option<&[&str]>, deny: &[&str]) -> ToolFilter {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        ToolFilter { allow: allow.map(texts), deny: texts(deny) }
    }

    #[test]
    fn a_star_stands_for_any_characters_and_nothing_else_does() {
        for (pattern, name, is) in [
            ("read", "read", true),
            ("read", "reads", false),
            ("read_*", "read_file", true),
            ("read_*", "read_", true),
            ("*_file", "read_file", true),
            ("*_file", "read_files", false),
            ("*a*b*", "xaxbx", true),
            ("*a*b*", "xbxax", false),
            ("a*a", "a", false),
            ("**", "", true),
            ("r.ad", "read", false),
        ] {
            assert_eq!(matches(pattern, name), is, "{pattern} {name}");
        }
    }

    #[test]
    fn a_denied_tool_is_never_used_and_one_of_an_untrusted_server_only_if_it_is_named() {
        let (trusted, untrusted) = (ServerTrust::Trusted, ServerTrust::Untrusted);
        let of = filter(Some(&["read", "write"]), &["write"]);
        assert!(of.allows("read", trusted) && of.allows("read", untrusted));
        assert!(!of.allows("write", trusted) && !of.allows("list", trusted));
        let of = filter(None, &["rm*"]);
        assert!(of.allows("read", trusted) && of.allows("read", ServerTrust::Sandboxed));
        assert!(!of.allows("rmdir", trusted) && !of.allows("read", untrusted));
        assert!(!filter(Some(&[]), &[]).allows("read", trusted), "an empty list allows nothing");
    }
}
