use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use zk_providers::auth::Credential;

use crate::credentials::Stored;
use crate::exit::{Failure, Outcome};
use crate::near;
use crate::settings::{Layer, Settings};

#[cfg(test)]
mod tests;

/// How long a local server may take to accept a connection before it counts as absent.
const PROBE: Duration = Duration::from_millis(25);

/// Where local model servers listen unless told otherwise, and what they speak best.
const LOCAL: [(&str, u16, Kind); 2] =
    [("llama.cpp", 8080, Kind::OpenAiCompat), ("Ollama", 11434, Kind::Ollama)];

/// The dialects zk can speak, under the names of their providers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Anthropic,
    OpenAiCompat,
    /// OpenAI's Responses API.
    OpenAi,
    /// The back end of ChatGPT subscriptions.
    OpenAiCodex,
    Gemini,
    Ollama,
}

impl Kind {
    /// Where one key serves two of them, the first one is meant unless the other is named.
    pub(crate) const ALL: [Self; 6] =
        [Self::Anthropic, Self::OpenAiCompat, Self::OpenAi, Self::OpenAiCodex, Self::Gemini, Self::Ollama];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenAiCompat => "openai_compat",
            Self::OpenAi => "openai",
            Self::OpenAiCodex => "openai_codex",
            Self::Gemini => "gemini",
            Self::Ollama => "ollama",
        }
    }

    /// Where requests go unless something else is set.
    pub(crate) fn usual_url(self) -> &'static str {
        match self {
            Self::Anthropic => "https://api.anthropic.com",
            Self::OpenAiCompat | Self::OpenAi => "https://api.openai.com/v1",
            Self::OpenAiCodex => "https://chatgpt.com/backend-api/codex",
            Self::Gemini => "https://generativelanguage.googleapis.com/v1beta",
            Self::Ollama => "http://127.0.0.1:11434",
        }
    }

    fn key_variable(self) -> Option<&'static str> {
        match self {
            Self::Anthropic => Some("ANTHROPIC_API_KEY"),
            Self::OpenAiCompat | Self::OpenAi => Some("OPENAI_API_KEY"),
            Self::Gemini => Some("GEMINI_API_KEY"),
            Self::OpenAiCodex | Self::Ollama => None,
        }
    }

    /// Whether there is no key for it, only a sign-in.
    pub(crate) fn is_sign_in_only(self) -> bool {
        match self {
            Self::OpenAiCodex => true,
            Self::Anthropic | Self::OpenAiCompat | Self::OpenAi | Self::Gemini | Self::Ollama => false,
        }
    }

    /// Whether its usual server asks for a key.
    fn needs_key(self) -> bool {
        match self {
            Self::Anthropic | Self::OpenAiCompat | Self::OpenAi | Self::OpenAiCodex | Self::Gemini => true,
            Self::Ollama => false,
        }
    }

    pub(crate) fn by_name(name: &str) -> Outcome<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(|| {
            let names = Self::ALL.map(Self::name);
            let hint = near::did_you_mean(name, names);
            Failure::usage(format!("unknown provider `{name}`{hint} (zk knows {})", near::either(&names)))
        })
    }

    fn setting(self, what: &str) -> String {
        format!("providers.{}.{what}", self.name())
    }
}

/// Where requests go, with which key, and why there.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub(crate) kind: Kind,
    pub(crate) base_url: String,
    pub(crate) key: Option<Key>,
    /// What led to this provider.
    pub(crate) why: String,
}

/// A credential. A text may be the key itself, `env:NAME` or `!command`.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Key {
    /// A text for what is sent the way the dialect sends keys.
    Api(String),
    /// A text for what is sent as `Authorization: Bearer`.
    Bearer(String),
    /// The key that is stored.
    Stored,
    /// The stored tokens of a sign-in.
    SignIn { account: Option<String> },
}

/// What the command line says about the endpoint, whichever provider is chosen.
#[derive(Clone, Copy, Default)]
pub(crate) struct Flags<'a> {
    pub(crate) base_url: Option<&'a str>,
    pub(crate) api_key: Option<&'a str>,
}

/// Chooses the provider: the one that is named, else the one that something is configured for, else a server
/// on this machine that `listens`.
pub(crate) fn choose(
    settings: &Settings,
    flags: Flags<'_>,
    stored: &Stored,
    listens: impl Fn(u16) -> bool,
) -> Outcome<Endpoint> {
    if let Some(name) = settings.text("provider") {
        let origin = settings.origin("provider").map(ToString::to_string).unwrap_or_default();
        return complete(settings, flags, stored, Kind::by_name(name)?, origin);
    }
    let set = |by_environment: bool| {
        let all = ["api_key", "auth_token", "base_url"].into_iter();
        let mut all = all.flat_map(|what| Kind::ALL.map(|kind| (what, kind)));
        all.find_map(|(what, kind)| {
            let origin = settings.origin(&kind.setting(what))?;
            let counts = (origin.layer == Layer::Environment) == by_environment;
            counts.then(|| (kind, format!("{what} is set ({origin})")))
        })
    };
    let in_store = || {
        let kind = Kind::ALL.into_iter().find(|kind| stored.contains_key(kind.name()))?;
        Some((kind, format!("`zk auth login {}` stored a credential", kind.name())))
    };
    if let Some((kind, why)) = set(false).or_else(in_store).or_else(|| set(true)) {
        return complete(settings, flags, stored, kind, why);
    }
    if let Some(key) = flags.api_key {
        let kind = if key.starts_with("sk-ant-") { Kind::Anthropic } else { Kind::OpenAiCompat };
        return complete(settings, flags, stored, kind, "--api-key".to_owned());
    }
    if flags.base_url.is_some() {
        return complete(settings, flags, stored, Kind::OpenAiCompat, "--base-url".to_owned());
    }
    for (server, port, kind) in LOCAL {
        if listens(port) {
            let path = if kind == Kind::OpenAiCompat { "/v1" } else { "" };
            return Ok(Endpoint {
                kind,
                base_url: format!("http://127.0.0.1:{port}{path}"),
                key: None,
                why: format!(
                    "nothing is configured, and something listens on port {port}, where {server} does"
                ),
            });
        }
    }
    Err(Failure::auth(
        "no model to ask: no key is set and no model server runs on this machine.\n\
         Store a key with `zk auth login anthropic` or `zk auth login openai_compat`, set ANTHROPIC_API_KEY or \
         OPENAI_API_KEY, name a server with --provider and --base-url, or start \
         llama.cpp (port 8080) or Ollama (port 11434).\n\
         `zk demo` works without any of them; `zk doctor` shows what is configured.",
    ))
}

fn complete(
    settings: &Settings,
    flags: Flags<'_>,
    stored: &Stored,
    kind: Kind,
    why: String,
) -> Outcome<Endpoint> {
    let name = kind.name();
    let base_url = explicit(settings, &kind.setting("base_url"), flags.base_url);
    let key = key(settings, flags, stored, kind).map(|(key, _)| key);
    if key.is_none() && kind.needs_key() && (base_url.is_none() || kind.is_sign_in_only()) {
        let login = format!("run `zk auth login {name}`");
        return Err(Failure::auth(match kind.key_variable() {
            None => format!("not signed in to {name}: {login}"),
            Some(variable) => format!(
                "no key for {name}: {login}, set {variable}, or `api_key` under [providers.{name}] in your \
                 settings; a server that needs none is named with --base-url"
            ),
        }));
    }
    let base_url = base_url.unwrap_or_else(|| kind.usual_url()).to_owned();
    Ok(Endpoint { kind, base_url, key, why })
}

/// The credential of a provider and where it comes from: the command line, the settings, the store or the
/// environment, in this order.
pub(crate) fn key(
    settings: &Settings,
    flags: Flags<'_>,
    stored: &Stored,
    kind: Kind,
) -> Option<(Key, String)> {
    let set = |what: &str, by_environment: bool| {
        let setting = kind.setting(what);
        let origin = settings.origin(&setting)?;
        let counts = (origin.layer == Layer::Environment) == by_environment;
        let text = settings.text(&setting).filter(|_| counts)?;
        Some((text.to_owned(), origin.to_string()))
    };
    let either = |by_environment: bool| {
        let key = set("api_key", by_environment).map(|(key, place)| (Key::Api(key), place));
        key.or_else(|| set("auth_token", by_environment).map(|(token, place)| (Key::Bearer(token), place)))
    };
    let setting = kind.setting("api_key");
    if let Some(key) = flags.api_key.filter(|_| !is_managed(settings, &setting)) {
        return Some((Key::Api(key.to_owned()), "--api-key".to_owned()));
    }
    let in_store = || {
        let key = match stored.get(kind.name())? {
            Credential::ApiKey(_) => Key::Stored,
            Credential::OAuth(tokens) => Key::SignIn { account: tokens.account.clone() },
        };
        Some((key, "stored".to_owned()))
    };
    either(false).or_else(in_store).or_else(|| either(true))
}

/// What a flag says, unless the settings of the machine say something else.
fn explicit<'a>(settings: &'a Settings, setting: &str, flag: Option<&'a str>) -> Option<&'a str> {
    let set = settings.text(setting);
    if is_managed(settings, setting) { set } else { flag.or(set) }
}

fn is_managed(settings: &Settings, setting: &str) -> bool {
    settings.origin(setting).is_some_and(|origin| origin.layer == Layer::Managed)
}

/// Whether something accepts connections on a port of this machine.
pub(crate) fn listens(port: u16) -> bool {
    TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)), PROBE).is_ok()
}
