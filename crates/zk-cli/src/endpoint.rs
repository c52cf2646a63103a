use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use crate::exit::{Failure, Outcome};
use crate::near;
use crate::settings::{Layer, Settings};

#[cfg(test)]
mod tests;

/// How long a local server may take to accept a connection before it counts as absent.
const PROBE: Duration = Duration::from_millis(25);

/// Where local model servers listen unless told otherwise: llama.cpp, Ollama.
const LOCAL: [(&str, u16); 2] = [("llama.cpp", 8080), ("Ollama", 11434)];

/// The dialects zk can speak, under the names of their providers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Anthropic,
    OpenAiCompat,
}

impl Kind {
    pub(crate) const ALL: [Self; 2] = [Self::Anthropic, Self::OpenAiCompat];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenAiCompat => "openai_compat",
        }
    }

    /// Where requests go unless something else is set.
    pub(crate) fn usual_url(self) -> &'static str {
        match self {
            Self::Anthropic => "https://api.anthropic.com",
            Self::OpenAiCompat => "https://api.openai.com/v1",
        }
    }

    fn key_variable(self) -> &'static str {
        match self {
            Self::Anthropic => "ANTHROPIC_API_KEY",
            Self::OpenAiCompat => "OPENAI_API_KEY",
        }
    }

    fn by_name(name: &str) -> Outcome<Self> {
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

/// A credential.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Key {
    /// Sent the way the dialect sends keys.
    Api(String),
    /// Sent as `Authorization: Bearer`.
    Bearer(String),
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
    listens: impl Fn(u16) -> bool,
) -> Outcome<Endpoint> {
    if let Some(name) = settings.text("provider") {
        let origin = settings.origin("provider").map(ToString::to_string).unwrap_or_default();
        return complete(settings, flags, Kind::by_name(name)?, origin);
    }
    for what in ["api_key", "auth_token", "base_url"] {
        for kind in Kind::ALL {
            if let Some(origin) = settings.origin(&kind.setting(what)) {
                return complete(settings, flags, kind, format!("{what} is set ({origin})"));
            }
        }
    }
    if let Some(key) = flags.api_key {
        let kind = if key.starts_with("sk-ant-") { Kind::Anthropic } else { Kind::OpenAiCompat };
        return complete(settings, flags, kind, "--api-key".to_owned());
    }
    if flags.base_url.is_some() {
        return complete(settings, flags, Kind::OpenAiCompat, "--base-url".to_owned());
    }
    for (server, port) in LOCAL {
        if listens(port) {
            return Ok(Endpoint {
                kind: Kind::OpenAiCompat,
                base_url: format!("http://127.0.0.1:{port}/v1"),
                key: None,
                why: format!(
                    "nothing is configured, and something listens on port {port}, where {server} does"
                ),
            });
        }
    }
    Err(Failure::auth(
        "no model to ask: no key is set and no model server runs on this machine.\n\
         Set ANTHROPIC_API_KEY or OPENAI_API_KEY, or name a server with --provider and --base-url, or start \
         llama.cpp (port 8080) or Ollama (port 11434).\n\
         `zk demo` works without any of them; `zk doctor` shows what is configured.",
    ))
}

fn complete(settings: &Settings, flags: Flags<'_>, kind: Kind, why: String) -> Outcome<Endpoint> {
    let pick = |flag: Option<&str>, what: &str| {
        let key = kind.setting(what);
        let managed = settings.origin(&key).is_some_and(|origin| origin.layer == Layer::Managed);
        let set = settings.text(&key);
        if managed { set } else { flag.or(set) }.map(str::to_owned)
    };
    let base_url = pick(flags.base_url, "base_url");
    let token = settings.text(&kind.setting("auth_token")).map(|token| Key::Bearer(token.to_owned()));
    let key = pick(flags.api_key, "api_key").map(Key::Api).or(token);
    if key.is_none() && base_url.is_none() {
        return Err(Failure::auth(format!(
            "no key for {}: set {}, or `api_key` under [providers.{}] in your settings; a server that needs \
             none is named with --base-url",
            kind.name(),
            kind.key_variable(),
            kind.name(),
        )));
    }
    let base_url = base_url.unwrap_or_else(|| kind.usual_url().to_owned());
    Ok(Endpoint { kind, base_url, key, why })
}

/// Whether something accepts connections on a port of this machine.
pub(crate) fn listens(port: u16) -> bool {
    TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)), PROBE).is_ok()
}
