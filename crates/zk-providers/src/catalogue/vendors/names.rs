//! Common names of vendors, environment variables and forms of keys.

use super::Vendor;
use super::table::{COMPATIBLE, OPENAI_URL};

/// Common names of vendors with zk's own name for each.
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

/// Prefixes of keys with their vendors; the last row matches every key.
const KEYS: &[(&str, &str)] = &[("sk-ant-", "anthropic"), ("", "openai")];

/// A common environment variable for a setting of a vendor, other than a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VendorVariable {
    /// Name of the variable.
    pub variable: &'static str,
    /// Name of the vendor.
    pub vendor: &'static str,
    /// Name of the setting: `auth_token` or `base_url`.
    pub setting: &'static str,
    /// Value with which the variable does not apply to this vendor.
    pub unless: Option<&'static str>,
}

/// The common variables for settings other than keys.
pub const VENDOR_VARIABLES: &[VendorVariable] = &[
    variable("ANTHROPIC_AUTH_TOKEN", "anthropic", "auth_token"),
    variable("ANTHROPIC_BASE_URL", "anthropic", "base_url"),
    variable("OPENAI_BASE_URL", "openai", "base_url"),
    variable("OPENAI_BASE_URL", "openai_chat", "base_url"),
    // A server at another address may support only Chat Completions.
    VendorVariable { unless: Some(OPENAI_URL), ..variable("OPENAI_BASE_URL", COMPATIBLE, "base_url") },
];

const fn variable(variable: &'static str, vendor: &'static str, setting: &'static str) -> VendorVariable {
    VendorVariable { variable, vendor, setting, unless: None }
}

impl Vendor {
    /// Name of the vendor that stands for any server of Chat Completions.
    pub const COMPATIBLE: &'static str = COMPATIBLE;

    /// Returns the vendor with the common name `name`, in any case.
    ///
    /// ```
    /// assert_eq!(zk_providers::Vendor::also_called("Claude"), Some("anthropic"));
    /// ```
    #[must_use]
    pub fn also_called(name: &str) -> Option<&'static str> {
        let name = name.to_lowercase();
        ALIASES.iter().find(|(other, _)| *other == name).map(|(_, vendor)| *vendor)
    }

    /// Returns the vendor that `key` seems to belong to, by its prefix.
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
