//! Requests to a model that is to decide itself how much it reasons.

use serde_json::{Value, json};
use zk_core::kernel::Bus;
use zk_core::model::{ThinkingLevel, ThinkingRequest, ThinkingSupport};
use zk_core::service::{Provider, Request};
use zk_providers::{
    Compat, CompatProfile, Connection, Gemini, Ollama, OllamaOptions, Override, Overrides, PROFILES,
};

use crate::collect::{collect, question};
use crate::server::{Reply, Server};

async fn sent(provider: &dyn Provider, server: &Server, model: &str, budget: Option<u32>) -> Value {
    let thinking = ThinkingRequest { level: ThinkingLevel::Adaptive, budget };
    let mut asked = Request { thinking, ..question(provider, model) };
    if asked.model.capabilities.thinking == ThinkingSupport::None {
        asked.model.capabilities.thinking = ThinkingSupport::Budget;
    }
    let _ = collect(provider.stream(asked, &Bus::new().cx())).await;
    server.received().pop().expect("a request").json()
}

#[tokio::test]
async fn no_chat_server_gets_a_reasoning_parameter_for_adaptive_thinking() {
    let server = Server::start([Reply::json("400 Bad Request", "{}")]).await;
    for profile in PROFILES {
        let name = profile.name.clone();
        let provider =
            Compat::new(Connection::at(&server.url), CompatProfile::clone(profile)).expect("valid");
        for (model, budget) in
            [("m", None), ("m", Some(2048)), ("moonshotai/kimi-k2.5", None), ("glm-5", None)]
        {
            let body = sent(&provider, &server, model, budget).await;
            for field in [
                "reasoning",
                "reasoning_effort",
                "thinking",
                "enable_thinking",
                "chat_template_kwargs",
                "chat_template_args",
            ] {
                assert_eq!(body[field], Value::Null, "{name}/{model} {budget:?}: {field}");
            }
        }
    }
}

#[tokio::test]
async fn no_model_of_ollama_gets_a_reasoning_parameter_for_adaptive_thinking() {
    let server = Server::start([Reply::json("400 Bad Request", "{}")]).await;
    let connection = Ollama::connection().base_url(&server.url);
    let provider = Ollama::new(connection, OllamaOptions::default()).expect("valid");
    for model in ["qwen3:4b", "gpt-oss:20b", "llama3.2"] {
        assert_eq!(sent(&provider, &server, model, None).await["think"], Value::Null, "{model}");
    }
}

#[tokio::test]
async fn gemini_decides_itself_where_it_can_and_is_not_switched_on_where_it_cannot() {
    let server = Server::start([Reply::json("400 Bad Request", "{}")]).await;
    let tuned = Override { thinking: Some(ThinkingSupport::Budget), ..Override::default() };
    let models = Overrides::from_iter([("tuned".to_owned(), tuned)]);
    let connection = Connection { models, ..Gemini::connection().base_url(&server.url).key("k") };
    let provider = Gemini::new(connection).expect("valid");
    let config = async |model| {
        sent(&provider, &server, model, None).await["generationConfig"]["thinkingConfig"].take()
    };
    assert_eq!(config("gemini-2.5-flash").await, json!({"includeThoughts": true, "thinkingBudget": -1}));
    assert_eq!(config("gemini-3-flash-preview").await, json!({"includeThoughts": true}));
    assert_eq!(config("tuned").await, Value::Null);
}
