use zk_core::model::{Model, ToolProtocol};

use crate::ProtocolSettings;

impl ProtocolSettings {
    /// Returns the protocol of `model`: the one of its most exact pattern, the one of all models, or its own.
    ///
    /// ```
    /// use zk_core::model::Model;
    /// use zk_protocols::{ProtocolSettings, ToolProtocol};
    ///
    /// let mut settings = ProtocolSettings::default();
    /// settings.protocols.insert("llama.cpp/*".to_owned(), ToolProtocol::Inline);
    /// assert_eq!(settings.protocol_of(&Model::unknown("llama.cpp", "any")), ToolProtocol::Inline);
    /// assert_eq!(settings.protocol_of(&Model::unknown("openai", "any")), ToolProtocol::Api);
    /// ```
    #[must_use]
    pub fn protocol_of(&self, model: &Model) -> ToolProtocol {
        let name = model.reference().to_string();
        let fitting = self.protocols.iter().filter(|(pattern, _)| {
            matches(pattern, &name) || (!pattern.contains('/') && matches(pattern, &model.id))
        });
        // Longer patterns without wildcards are more exact.
        let exact = |pattern: &str| pattern.chars().filter(|c| *c != '*').count();
        let named = fitting.max_by_key(|(pattern, _)| exact(pattern)).map(|(_, protocol)| *protocol);
        named.or(self.protocol).unwrap_or(model.capabilities.tool_protocol)
    }

    /// Whether some models have the protocol `lookup`.
    pub(crate) fn names_lookup(&self) -> bool {
        self.protocol.iter().chain(self.protocols.values()).any(|protocol| *protocol == ToolProtocol::Lookup)
    }

    /// Whether a tool's schema is sent in full, whatever the protocol.
    pub(crate) fn sends_full_schema(&self, name: &str) -> bool {
        // Tools of the harness, such as the one for structured output.
        name.starts_with("__") || self.core.iter().any(|core| core == name)
    }
}

/// Whether `text` is `pattern`, in which `*` stands for any characters; case is ignored.
fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.to_lowercase(), text.to_lowercase());
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        let Some((_, behind)) = rest.split_once(part) else { return false };
        rest = behind;
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_characters() {
        for (pattern, text, fits) in [
            ("a/b", "a/b", true),
            ("a/b", "a/bc", false),
            ("a/*", "a/bc", true),
            ("A/*", "a/bc", true),
            ("*", "a/bc", true),
            ("*lm*", "llama.cpp/SmolLM2", true),
            ("a*b*c", "a1b2c", true),
            ("a*b*c", "a1c2b", false),
            ("ab*ba", "aba", false),
            ("", "a", false),
        ] {
            assert_eq!(matches(pattern, text), fits, "{pattern} {text}");
        }
    }

    #[test]
    fn the_most_exact_pattern_goes_before_the_setting_for_all_and_that_before_the_model() {
        let protocols = [
            ("*", ToolProtocol::Api),
            ("p/*", ToolProtocol::Lookup),
            ("p/small", ToolProtocol::Inline),
            ("tiny", ToolProtocol::Deferred),
        ];
        let with = |names: &[&str], protocol| ProtocolSettings {
            protocol,
            protocols: protocols
                .iter()
                .filter(|(name, _)| names.contains(name))
                .map(|(name, protocol)| ((*name).to_owned(), *protocol))
                .collect(),
            ..ProtocolSettings::default()
        };
        let of = |settings: &ProtocolSettings, id: &str| settings.protocol_of(&Model::unknown("p", id));
        let all = with(&["*", "p/*", "p/small", "tiny"], Some(ToolProtocol::Deferred));
        assert_eq!(of(&all, "small"), ToolProtocol::Inline);
        assert_eq!(of(&all, "other"), ToolProtocol::Lookup);
        assert_eq!(of(&with(&["tiny"], None), "tiny"), ToolProtocol::Deferred, "the id alone is enough");
        assert_eq!(of(&with(&["tiny"], Some(ToolProtocol::Lookup)), "other"), ToolProtocol::Lookup);
        let mut own = Model::unknown("p", "own");
        own.capabilities.tool_protocol = ToolProtocol::Inline;
        assert_eq!(with(&[], None).protocol_of(&own), ToolProtocol::Inline);
        assert_eq!(with(&[], Some(ToolProtocol::Api)).protocol_of(&own), ToolProtocol::Api);
    }
}
