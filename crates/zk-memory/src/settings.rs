use schemars::JsonSchema;
use serde::Deserialize;

/// Memory: facts that are kept from one session to the next, and recalled by the words of a prompt.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(extend("x-by-projects" = false))]
pub struct MemorySettings {
    /// Whether facts are recalled and kept. A project may switch it off, and not on.
    #[schemars(extend("x-by-projects" = true))]
    pub enabled: bool,
    /// Most facts that are recalled for a prompt.
    #[schemars(range(min = 1, max = 50))]
    pub max_facts: u32,
    /// Most tokens of the facts that are recalled for a prompt, at four bytes a token.
    #[schemars(range(min = 50, max = 20_000))]
    pub max_tokens: u32,
    /// Embedding model as `provider/model`, by which facts are recalled by meaning too. Prompts and facts are sent to
    /// it. Without it, or when it fails, words alone decide.
    pub embeddings: Option<String>,
}

impl Default for MemorySettings {
    fn default() -> Self {
        Self { enabled: true, max_facts: 8, max_tokens: 800, embeddings: None }
    }
}
