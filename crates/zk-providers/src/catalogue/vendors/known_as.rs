//! Display names of vendors, and the pages where a person creates API keys.

use super::Vendor;

/// Rows of a vendor, its display name and the page where a person creates API keys.
const KNOWN_AS: &[(&str, &str, &str)] = &[
    ("anthropic", "Anthropic", "https://console.anthropic.com/settings/keys"),
    ("openai", "OpenAI", "https://platform.openai.com/api-keys"),
    ("openai_chat", "OpenAI (Chat Completions)", "https://platform.openai.com/api-keys"),
    ("openai_codex", "ChatGPT", ""),
    ("openrouter", "OpenRouter", "https://openrouter.ai/keys"),
    ("gemini", "Gemini", "https://aistudio.google.com/apikey"),
    ("cerebras", "Cerebras", "https://cloud.cerebras.ai"),
    ("groq", "Groq", "https://console.groq.com/keys"),
    ("deepseek", "DeepSeek", "https://platform.deepseek.com/api_keys"),
    ("mistral", "Mistral", "https://console.mistral.ai/api-keys"),
    ("xai", "xAI", "https://console.x.ai"),
    ("zai", "Z.ai", "https://z.ai/manage-apikey/apikey-list"),
    ("moonshot", "Moonshot", "https://platform.moonshot.ai/console/api-keys"),
    ("fireworks", "Fireworks", "https://app.fireworks.ai/settings/users/api-keys"),
    ("baseten", "Baseten", "https://app.baseten.co/settings/api_keys"),
    ("together", "Together", "https://api.together.ai/settings/api-keys"),
    ("huggingface", "Hugging Face", "https://huggingface.co/settings/tokens"),
    ("nvidia", "NVIDIA", "https://build.nvidia.com"),
    ("opencode", "OpenCode Zen", "https://opencode.ai/auth"),
    ("minimax", "MiniMax", "https://platform.minimax.io"),
    ("ollama", "Ollama", ""),
    ("llama.cpp", "llama.cpp", ""),
    ("lmstudio", "LM Studio", ""),
    ("vllm", "vLLM", ""),
];

/// Vendors that are offered first, and whether each has its own row in a short list.
pub(crate) const FIRST_OFFERED: [(&str, bool); 4] =
    [("anthropic", true), ("openai", true), ("openrouter", false), ("gemini", false)];
/// Vendors with the service of another vendor under another dialect.
const DOUBLE_VENDORS: [&str; 1] = ["openai_chat"];
/// Vendor, the vendor that serves its subscription, and the sign-in in a few words.
pub(crate) const SUBSCRIPTION_SIGN_INS: [(&str, &str, &str); 1] =
    [("openai", "openai_codex", "sign in with ChatGPT")];

impl Vendor {
    /// Whether this is the service of another vendor under another dialect, so that a person is offered only one of
    /// them.
    pub(crate) fn is_other_dialect_of_vendor(&self) -> bool {
        DOUBLE_VENDORS.contains(&self.name)
    }

    /// Display name of the vendor.
    ///
    /// ```
    /// assert_eq!(zk_providers::Vendor::named("xai").unwrap().title(), "xAI");
    /// ```
    #[must_use]
    pub fn title(&self) -> &'static str {
        row(self.name).map_or(self.name, |(_, title, _)| title)
    }

    /// Page for creating keys, if known.
    #[must_use]
    pub fn key_page(&self) -> Option<&'static str> {
        row(self.name).map(|(_, _, page)| *page).filter(|page| !page.is_empty())
    }
}

fn row(name: &str) -> Option<&'static (&'static str, &'static str, &'static str)> {
    KNOWN_AS.iter().find(|(vendor, ..)| *vendor == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::vendors::VENDORS;

    #[test]
    fn every_display_name_belongs_to_a_vendor_and_the_default_is_its_own_name() {
        for (name, title, page) in KNOWN_AS {
            assert!(Vendor::named(name).is_some() && !title.is_empty(), "{name}");
            assert!(page.is_empty() || page.starts_with("https://"), "{name}: {page}");
        }
        let own = VENDORS.iter().find(|vendor| row(vendor.name).is_none());
        assert!(
            own.is_none_or(|vendor| vendor.title() == vendor.name),
            "a vendor without a row has its own name"
        );
    }
}
