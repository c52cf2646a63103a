//! Questions beside answers, to a server of every dialect: its models, and how long a request is.

use serde_json::json;
use zk_core::kernel::Bus;
use zk_core::model::{ErrorKind, Prices, Rates, ThinkingSupport};
use zk_core::service::Provider;
use zk_providers::{Anthropic, AnthropicOptions, Compat, CompatProfile, Connection, Ollama, OllamaOptions};
use zk_testkit::Script;

use crate::collect::{collect, question};
use crate::server::{Reply, Server};
use crate::switching::station::STATIONS;
use crate::vendors::provider;

#[tokio::test]
async fn every_provider_lists_the_models_of_its_server() {
    for station in STATIONS {
        let server = station.builder(Script::new()).models(station.models).start().expect("a socket is free");
        let provider = station.provider(&server);
        let listed = provider.list_models(&Bus::new().cx()).await.expect("an answer");
        let ids = listed.map(|models| models.into_iter().map(|model| model.id).collect::<Vec<_>>());
        // The back end of subscriptions has no list.
        let expected = (station.name != "codex").then(|| station.models.map(str::to_owned).to_vec());
        assert_eq!(ids, expected, "{}", station.name);
    }
}

#[tokio::test]
async fn every_provider_that_counts_tokens_counts_them() {
    let mut counting = Vec::new();
    for station in STATIONS {
        let server = station.server(Script::new());
        let provider = station.provider(&server);
        let request = question(&*provider, station.models[0]);
        let count = provider.count_tokens(request, &Bus::new().cx()).await.expect("an answer");
        counting.extend(count.filter(|count| *count > 0).map(|_| station.name));
        assert_eq!(server.violations(), Vec::new(), "{}", station.name);
    }
    assert_eq!(counting, ["anthropic", "responses", "gemini", "gemini-2.5"]);
}

#[tokio::test]
async fn an_unknown_model_and_a_wrong_key_are_told_apart_everywhere() {
    for station in STATIONS {
        let builder = station.builder(Script::new().forever(|_| zk_testkit::Turn::new().text("hello")));
        let server =
            builder.require_key("key").models([station.models[0]]).start().expect("a socket is free");
        let ask = async |connection, model| {
            let provider = (station.make)(connection);
            let answer = collect(provider.stream(question(&*provider, model), &Bus::new().cx())).await;
            answer.map(|answer| answer.text).map_err(|(error, _)| error.kind)
        };
        let [known, unknown] = station.models;
        let good = || station.connection(&server);
        assert_eq!(ask(good(), known).await.as_deref(), Ok("hello"), "{}", station.name);
        assert_eq!(ask(good(), unknown).await, Err(ErrorKind::Rejected), "{}", station.name);
        assert_eq!(ask(good().key("wrong"), known).await, Err(ErrorKind::Auth), "{}", station.name);
    }
}

#[tokio::test]
async fn a_model_of_no_table_is_described_by_its_server() {
    let listed = r#"{"data":[{"id":"other","context_length":1},{"id":"own","max_model_len":24000}]}"#;
    let shown = r#"{"capabilities":["completion","thinking"],"model_info":{"own.context_length":24000}}"#;
    let server = Server::answering(move |_, request| match request.head.contains("/api/show") {
        true => Reply::json("200 OK", shown),
        false => Reply::json("200 OK", listed),
    });
    let server = server.await;
    let cx = Bus::new().cx();
    let compat = Compat::new(Connection::at(&server.url), CompatProfile::default()).expect("valid");
    assert_eq!(compat.model("own").window, None);
    assert_eq!(compat.describe_model("own", &cx).await.window, Some(24_000));
    assert_eq!(compat.describe_model("third", &cx).await, compat.model("third"));
    let ollama = Ollama::new(Connection::at(&server.url), OllamaOptions::default()).expect("valid");
    assert_eq!(ollama.model("own").capabilities.thinking, ThinkingSupport::None);
    let model = ollama.describe_model("own", &cx).await;
    assert_eq!((model.window, model.capabilities.thinking), (Some(24_000), ThinkingSupport::Budget));
    let gone = Compat::new(Connection::at("http://127.0.0.1:9"), CompatProfile::default()).expect("valid");
    assert_eq!(gone.describe_model("own", &cx).await, gone.model("own"));
    let asked = server.received().len();
    let claude =
        Anthropic::new(Anthropic::connection().base_url(&server.url).key("k"), AnthropicOptions::default());
    claude.expect("valid").describe_model("claude-opus-5", &cx).await;
    assert_eq!(server.received().len(), asked, "what a table says is not asked for");
}

#[tokio::test]
async fn a_gateway_says_what_its_models_cost_see_and_can() {
    let list = json!({"data": [
        {"id": "x/new", "context_length": 9000, "architecture": {"input_modalities": ["text", "image"]},
         "pricing": {"prompt": "0.0000003", "completion": "0.0000012", "input_cache_read": "0.000000006"},
         "supported_parameters": ["max_tokens", "tools", "reasoning"]},
        {"id": "x/plain", "architecture": {"input_modalities": ["text"]},
         "pricing": {"prompt": "0", "completion": "0"}, "supported_parameters": ["max_tokens"]},
        {"id": "openrouter/auto", "pricing": {"prompt": "-1", "completion": "-1"}},
    ]});
    let server = Server::start([Reply::json("200 OK", list.to_string())]).await;
    let provider = provider(&server.url, CompatProfile::named("openrouter").expect("it is in the table"));
    let models = provider.list_models(&Bus::new().cx()).await.expect("an answer").expect("a list");
    let [new, plain, auto] = models.as_slice() else { panic!("three models: {models:?}") };
    let rates = Rates { input: 0.3, output: 1.2, cache_read: 0.006, cache_write: 0.3 };
    assert_eq!(new.prices, Some(Prices::from(rates)));
    assert_eq!((new.window, new.capabilities.vision), (Some(9000), true));
    assert_eq!(new.capabilities.thinking, ThinkingSupport::Effort);
    assert_eq!(plain.prices, Some(Prices::default()), "it costs nothing");
    assert_eq!((plain.capabilities.vision, plain.capabilities.thinking), (false, ThinkingSupport::None));
    assert_eq!(auto.prices, None, "it depends");
}
