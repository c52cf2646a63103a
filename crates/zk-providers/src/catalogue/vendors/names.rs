//! Names of vendors, variables and shapes of keys, as people and the ecosystem use them.

use super::Vendor;
use super::table::{COMPATIBLE, OPENAI_URL};

/// Name that people have for a vendor, and zk's own.
const ALIASES: &[(&str, &str)] = &[
    ("chatgpt", "openai_codex"),
    ("claude", "anthropic"),
    ("codex", "openai_codex"),
    ("glm", "zai"),
    ("google", "gemini"),
    ("grok", "xai"),
    ("hf", "huggingface"),
    ("kimi", "moonshot"),
    ("llama", "llama.cpp"),
];

/// Beginning of a key, and the vendor whose it then is; the last row takes every key.
const KEYS: &[(&str, &str)] = &[("sk-ant-", "anthropic"), ("", "openai")];

/// A variable of the environment that the ecosystem uses for a setting of a vendor, besides those for keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VendorVariable {
    /// The variable.
    pub variable: &'static str,
    /// The vendor's name.
    pub vendor: &'static str,
    /// The setting: `auth_token` or `base_url`.
    pub setting: &'static str,
    /// The value with which it says nothing about this vendor.
    pub unless: Option<&'static str>,
}

/// The variables of [`VendorVariable`].
pub const VENDOR_VARIABLES: &[VendorVariable] = &[
    variable("ANTHROPIC_AUTH_TOKEN", "anthropic", "auth_token"),
    variable("ANTHROPIC_BASE_URL", "anthropic", "base_url"),
    variable("OPENAI_BASE_URL", "openai", "base_url"),
    variable("OPENAI_BASE_URL", "openai_chat", "base_url"),
    // Elsewhere is a server that may know no more than Chat Completions.
    VendorVariable { unless: Some(OPENAI_URL), ..variable("OPENAI_BASE_URL", COMPATIBLE, "base_url") },
];

const fn variable(variable: &'static str, vendor: &'static str, setting: &'static str) -> VendorVariable {
    VendorVariable { variable, vendor, setting, unless: None }
}

impl Vendor {
    /// The vendor that a server is like of which nothing is known but that it speaks Chat Completions.
    pub const COMPATIBLE: &'static str = COMPATIBLE;

    /// The vendor that people also call `name`, in any case.
    ///
    /// ```
    /// assert_eq!(zk_providers::Vendor::also_called("Claude"), Some("anthropic"));
    /// ```
    #[must_use]
    pub fn also_called(name: &str) -> Option<&'static str> {
        let name = name.to_lowercase();
        ALIASES.iter().find(|(other, _)| *other == name).map(|(_, vendor)| *vendor)
    }

    /// The vendor whose key `key` looks like.
    #[must_use]
    pub fn of_key(key: &str) -> &'static str {
        KEYS.iter().find(|(start, _)| key.starts_with(start)).map_or(COMPATIBLE, |(_, vendor)| *vendor)
    }
}

#[cfg(test)]
mod tests {
    use super::{ALIASES, KEYS, VENDOR_VARIABLES, Vendor};

    #[test]
    fn every_other_name_key_and_variable_leads_to_a_known_vendor() {
        let aliases = ALIASES.iter().chain(KEYS).map(|(_, vendor)| *vendor);
        for name in aliases.chain(VENDOR_VARIABLES.iter().map(|row| row.vendor)) {
            assert!(Vendor::named(name).is_some(), "{name}");
        }
        assert_eq!(Vendor::of_key("sk-ant-x"), "anthropic");
        assert_eq!(Vendor::of_key("sk-x"), "openai");
    }
}
