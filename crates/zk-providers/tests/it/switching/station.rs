//! The providers a session goes to.

use std::sync::LazyLock;

use zk_core::service::Provider;
use zk_providers::{
    Anthropic, AnthropicOptions, Compat, CompatProfile, Connection, Gemini, Http, Ollama, OllamaOptions,
    Responses, ResponsesOptions,
};
use zk_testkit::rules::{Dialect, Strictness};
use zk_testkit::{FakeServer, FakeServerBuilder, Script};

/// Parts of its thinking that go back to a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Back {
    Nothing,
    Proof,
    Thought,
    Both,
}

pub(crate) struct Station {
    pub(crate) name: &'static str,
    pub(crate) models: [&'static str; 2],
    pub(crate) back: Back,
    strictness: fn() -> Strictness,
    url: fn(&FakeServer) -> String,
    pub(crate) make: fn(Connection) -> Box<dyn Provider>,
}

pub(crate) const STATIONS: &[Station] = &[
    Station {
        name: "anthropic",
        models: ["claude-sonnet-5", "claude-opus-4-5"],
        back: Back::Both,
        strictness: Strictness::anthropic,
        url: FakeServer::url,
        make: |connection| {
            Box::new(Anthropic::new(connection, AnthropicOptions::default()).expect("valid options"))
        },
    },
    Station {
        name: "responses",
        models: ["gpt-5.2", "gpt-6-luna"],
        back: Back::Both,
        strictness: Strictness::responses,
        url: FakeServer::openai_url,
        make: |connection| responses(connection, ResponsesOptions::default()),
    },
    Station {
        name: "codex",
        models: ["gpt-6-sol", "gpt-5.6-sol"],
        back: Back::Both,
        strictness: || Strictness::of(Dialect::Codex),
        url: FakeServer::codex_url,
        make: |connection| {
            let connection = Connection { account: Some("account".to_owned()), ..connection };
            responses(connection, ResponsesOptions::subscription())
        },
    },
    Station {
        name: "openai",
        models: ["gpt-5.4", "gpt-5.5"],
        back: Back::Nothing,
        strictness: Strictness::chat,
        url: FakeServer::openai_url,
        make: |connection| chat(connection, "openai"),
    },
    Station {
        name: "deepseek",
        models: ["deepseek-v4-pro", "deepseek-flash"],
        back: Back::Thought,
        strictness: Strictness::deepseek,
        url: FakeServer::openai_url,
        make: |connection| chat(connection, "deepseek"),
    },
    Station {
        name: "mistral",
        models: ["magistral-medium-latest", "mistral-medium-3.5"],
        back: Back::Thought,
        strictness: Strictness::mistral,
        url: FakeServer::openai_url,
        make: |connection| chat(connection, "mistral"),
    },
    Station {
        name: "moonshot",
        models: ["kimi-k2-thinking", "kimi-k2.5"],
        back: Back::Thought,
        strictness: Strictness::moonshot,
        url: FakeServer::openai_url,
        make: |connection| chat(connection, "moonshot"),
    },
    Station {
        name: "openrouter",
        models: ["anthropic/claude-sonnet-4.6", "anthropic/claude-opus-4.8"],
        back: Back::Both,
        strictness: Strictness::openrouter,
        url: FakeServer::openai_url,
        make: |connection| chat(connection, "openrouter"),
    },
    Station {
        name: "gemini",
        models: ["gemini-3.5-flash", "gemini-3.1-pro-preview"],
        back: Back::Proof,
        strictness: Strictness::gemini,
        url: FakeServer::gemini_url,
        make: |connection| Box::new(Gemini::new(connection).expect("valid options")),
    },
    Station {
        name: "gemini-2.5",
        models: ["gemini-2.5-pro", "gemini-2.5-flash"],
        back: Back::Proof,
        strictness: Strictness::gemini,
        url: FakeServer::gemini_url,
        make: |connection| Box::new(Gemini::new(connection).expect("valid options")),
    },
    Station {
        name: "ollama",
        models: ["qwen3:4b", "gpt-oss:20b"],
        back: Back::Thought,
        strictness: || Strictness::of(Dialect::Ollama),
        url: FakeServer::url,
        make: |connection| {
            Box::new(Ollama::new(connection, OllamaOptions::default()).expect("valid options"))
        },
    },
];

/// To read the root certificates once is enough.
static HTTP: LazyLock<Http> = LazyLock::new(Http::new);

impl Station {
    pub(crate) fn server(&self, script: Script) -> FakeServer {
        self.builder(script).start().expect("a socket is free")
    }

    pub(crate) fn builder(&self, script: Script) -> FakeServerBuilder {
        FakeServer::builder(script).strictness((self.strictness)())
    }

    pub(crate) fn provider(&self, server: &FakeServer) -> Box<dyn Provider> {
        (self.make)(self.connection(server))
    }

    pub(crate) fn connection(&self, server: &FakeServer) -> Connection {
        let connection = Connection::at((self.url)(server)).named(self.name).key("key");
        Connection { http: HTTP.clone(), ..connection }
    }
}

fn responses(connection: Connection, options: ResponsesOptions) -> Box<dyn Provider> {
    Box::new(Responses::new(connection, options).expect("valid options"))
}

fn chat(connection: Connection, profile: &str) -> Box<dyn Provider> {
    let profile = CompatProfile::named(profile).expect("it is in the table");
    Box::new(Compat::new(connection, profile).expect("valid options"))
}
