use super::{Access, Vendor, VendorDialect};

const fn service(
    name: &'static str,
    base_url: &'static str,
    variables: &'static [&'static str],
    dialect: VendorDialect,
) -> Vendor {
    Vendor { name, base_url: Some(base_url), access: Access::Key(variables), dialect, default_model: None }
}

const fn server(name: &'static str, base_url: &'static str, port: u16, dialect: VendorDialect) -> Vendor {
    Vendor { name, base_url: Some(base_url), access: Access::Local(port), dialect, default_model: None }
}

impl Vendor {
    const fn with_default_model(mut self, default_model: &'static str) -> Self {
        self.default_model = Some(default_model);
        self
    }
}

/// Name of the vendor, and of the profile, for servers of unknown make.
pub(super) const COMPATIBLE: &str = "openai_compat";
pub(super) const OPENAI_URL: &str = "https://api.openai.com/v1";
const OPENAI_KEY: &[&str] = &["OPENAI_API_KEY"];

pub(crate) const ANTHROPIC: Vendor =
    service("anthropic", "https://api.anthropic.com", &["ANTHROPIC_API_KEY"], VendorDialect::Anthropic)
        .with_default_model("claude-sonnet-5-5");

pub(crate) const RESPONSES: Vendor =
    service("openai", OPENAI_URL, OPENAI_KEY, VendorDialect::Responses).with_default_model("gpt-6.1-sol");

pub(crate) const SUBSCRIPTION: Vendor = Vendor {
    name: "openai_codex",
    base_url: Some("https://chatgpt.com/backend-api/codex"),
    access: Access::SignIn,
    dialect: VendorDialect::Subscription,
    default_model: Some("gpt-6.1-sol"),
};

pub(crate) const GEMINI: Vendor = service(
    "gemini",
    "https://generativelanguage.googleapis.com/v1beta",
    &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
    VendorDialect::Gemini,
)
.with_default_model("gemini-3.8-flash");

pub(crate) const OLLAMA: Vendor = server("ollama", "http://127.0.0.1:11434", 11_434, VendorDialect::Ollama);

/// The built-in vendors. If several match, such as two that accept the same key, the first one is used.
pub const VENDORS: &[Vendor] = &[
    ANTHROPIC,
    Vendor {
        name: COMPATIBLE,
        base_url: None,
        access: Access::Key(OPENAI_KEY),
        dialect: VendorDialect::Chat(COMPATIBLE),
        default_model: None,
    },
    RESPONSES,
    service("openai_chat", OPENAI_URL, OPENAI_KEY, VendorDialect::Chat("openai"))
        .with_default_model("gpt-6.1-sol"),
    SUBSCRIPTION,
    GEMINI,
    service(
        "openrouter",
        "https://openrouter.ai/api/v1",
        &["OPENROUTER_API_KEY"],
        VendorDialect::Chat("openrouter"),
    )
    .with_default_model("anthropic/claude-sonnet-5.5"),
    service("cerebras", "https://api.cerebras.ai/v1", &["CEREBRAS_API_KEY"], VendorDialect::Chat("cerebras"))
        .with_default_model("gpt-oss-120b"),
    service("groq", "https://api.groq.com/openai/v1", &["GROQ_API_KEY"], VendorDialect::Chat("groq"))
        .with_default_model("openai/gpt-oss-120b"),
    service("deepseek", "https://api.deepseek.com", &["DEEPSEEK_API_KEY"], VendorDialect::Chat("deepseek"))
        .with_default_model("deepseek-flash"),
    service("mistral", "https://api.mistral.ai/v1", &["MISTRAL_API_KEY"], VendorDialect::Chat("mistral"))
        .with_default_model("mistral-medium-latest"),
    service("xai", "https://api.x.ai/v1", &["XAI_API_KEY"], VendorDialect::Responses)
        .with_default_model("grok-4.7"),
    service("zai", "https://api.z.ai/api/coding/paas/v4", &["ZAI_API_KEY"], VendorDialect::Chat("zai"))
        .with_default_model("glm-5.3"),
    service("moonshot", "https://api.moonshot.ai/v1", &["MOONSHOT_API_KEY"], VendorDialect::Chat("moonshot"))
        .with_default_model("kimi-k3.1-pro"),
    service(
        "fireworks",
        "https://api.fireworks.ai/inference/v1",
        &["FIREWORKS_API_KEY"],
        VendorDialect::Chat("fireworks"),
    )
    .with_default_model("accounts/fireworks/models/glm-5p3"),
    service(
        "baseten",
        "https://inference.baseten.co/v1",
        &["BASETEN_API_KEY"],
        VendorDialect::Chat("baseten"),
    )
    .with_default_model("zai-org/GLM-5.3"),
    service(
        "together",
        "https://api.together.xyz/v1",
        &["TOGETHER_API_KEY"],
        VendorDialect::Chat("together"),
    )
    .with_default_model("zai-org/GLM-5.3"),
    service(
        "huggingface",
        "https://router.huggingface.co/v1",
        &["HF_TOKEN"],
        VendorDialect::Chat("huggingface"),
    ),
    service(
        "nvidia",
        "https://integrate.api.nvidia.com/v1",
        &["NVIDIA_API_KEY"],
        VendorDialect::Chat("nvidia"),
    ),
    // Only models documented for this dialect; the server behind it is not known.
    service("opencode", "https://opencode.ai/zen/v1", &["OPENCODE_API_KEY"], VendorDialect::Chat(COMPATIBLE)),
    service("minimax", "https://api.minimax.io/anthropic", &["MINIMAX_API_KEY"], VendorDialect::Anthropic)
        .with_default_model("MiniMax-M3"),
    OLLAMA,
    server("llama.cpp", "http://127.0.0.1:8080/v1", 8080, VendorDialect::Chat("llama.cpp")),
    server("lmstudio", "http://127.0.0.1:1234/v1", 1234, VendorDialect::Chat("lmstudio")),
    server("vllm", "http://127.0.0.1:8000/v1", 8000, VendorDialect::Chat("vllm")),
];
