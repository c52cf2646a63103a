//! The extra body of a connection: it adds, and takes nothing away.

use serde_json::{Map, Value, json};
use zk_core::kernel::Bus;
use zk_core::model::{ThinkingLevel, ThinkingRequest};
use zk_core::service::{Provider, Request};
use zk_providers::{
    Anthropic, AnthropicOptions, Compat, Connection, Gemini, Ollama, OllamaOptions, Responses,
    ResponsesOptions,
};

use crate::collect::{collect, question};
use crate::server::{Reply, Server};
use crate::vendor_quirks::profile;

fn fields(extra: &Value) -> Map<String, Value> {
    extra.as_object().cloned().expect("fields")
}

/// Sent body, whether or not it is answered.
async fn sent(
    make: impl Fn(Connection) -> Box<dyn Provider>,
    model: &str,
    level: ThinkingLevel,
    extra: &Value,
) -> Value {
    let server = Server::start([Reply::json("400 Bad Request", "{}")]).await;
    let connection = Connection { extra_body: fields(extra), ..Connection::at(&server.url).key("k") };
    let provider = make(connection);
    let thinking = ThinkingRequest { level, budget: None };
    let asked = Request { max_tokens: 9000, thinking, ..question(&*provider, model) };
    let _ = collect(provider.stream(asked, &Bus::new().cx())).await;
    server.received().remove(0).json()
}

#[tokio::test]
async fn options_win_over_the_extra_body_in_every_dialect() {
    use ThinkingLevel::{High, Low};
    let claude = |connection| -> Box<dyn Provider> {
        let edits = Some(json!({"edits": [{"type": "clear_tool_uses_20250919"}]}));
        let options = AnthropicOptions { context_management: edits, ..AnthropicOptions::default() };
        Box::new(Anthropic::new(connection, options).expect("valid"))
    };
    let extra = json!({"max_tokens": 7, "thinking": {"type": "disabled"}, "context_management": {}, "top_k": 5,
        "stream": false, "output_config": {"effort": "low", "more": 1}});
    let body = sent(claude, "claude-opus-5", High, &extra).await;
    assert_eq!(
        (&body["max_tokens"], &body["stream"], &body["top_k"]),
        (&json!(9000), &json!(true), &json!(5))
    );
    assert_eq!(body["thinking"]["type"], "adaptive");
    assert_eq!(body["context_management"]["edits"].as_array().map(Vec::len), Some(1));
    assert_eq!(body["output_config"], json!({"effort": "high", "more": 1}));

    let extra = json!({"max_tokens": 7, "max_completion_tokens": 7, "stream": false, "thinking": {"type": "disabled"},
        "reasoning_effort": "low", "seed": 1});
    for (vendor, limit, other) in
        [("deepseek", "max_tokens", "max_completion_tokens"), ("groq", "max_completion_tokens", "max_tokens")]
    {
        let make = |connection| -> Box<dyn Provider> {
            Box::new(Compat::new(connection, profile(vendor)).expect("valid"))
        };
        let body = sent(make, "deepseek-v4-pro", High, &extra).await;
        assert_eq!((&body[limit], &body[other]), (&json!(9000), &Value::Null), "{vendor}");
        assert_eq!((&body["stream"], &body["seed"]), (&json!(true), &json!(1)), "{vendor}");
        if vendor == "deepseek" {
            assert_eq!(body["thinking"]["type"], "enabled");
        }
    }

    let responses = |connection| -> Box<dyn Provider> {
        Box::new(Responses::new(connection, ResponsesOptions::default()).expect("valid"))
    };
    let extra = json!({"max_output_tokens": 7, "store": true, "reasoning": {"effort": "low", "mode": "pro"}});
    let body = sent(responses, "gpt-5.2", High, &extra).await;
    assert_eq!((&body["max_output_tokens"], &body["store"]), (&json!(9000), &json!(false)));
    assert_eq!((&body["reasoning"]["effort"], &body["reasoning"]["mode"]), (&json!("high"), &json!("pro")));

    let gemini = |connection| -> Box<dyn Provider> { Box::new(Gemini::new(connection).expect("valid")) };
    let extra = json!({"generationConfig": {"maxOutputTokens": 7, "thinkingConfig": {}, "topK": 5}});
    let body = sent(gemini, "gemini-2.5-pro", Low, &extra).await;
    let thinking = json!({"includeThoughts": true, "thinkingBudget": 4096});
    let expected = json!({"maxOutputTokens": 9000, "thinkingConfig": thinking, "topK": 5});
    assert_eq!(body["generationConfig"], expected);

    let ollama = |connection| -> Box<dyn Provider> {
        Box::new(Ollama::new(connection, OllamaOptions::default()).expect("valid"))
    };
    let extra = json!({"options": {"num_predict": 7, "top_k": 5}, "think": false, "truncate": true});
    let body = sent(ollama, "qwen3:4b", High, &extra).await;
    assert_eq!((&body["options"]["num_predict"], &body["options"]["top_k"]), (&json!(9000), &json!(5)));
    assert_eq!((&body["think"], &body["truncate"]), (&json!(true), &json!(false)));
}
