//! A service tier multiplies what an answer costs.

use std::sync::Arc;

use serde_json::{Value, json};
use zk_core::kernel::Bus;
use zk_core::model::Usage;
use zk_core::service::Provider;
use zk_providers::{Connection, Responses, ResponsesOptions, Vendor};

use crate::collect::{collect, question};
use crate::responses::{completed, openai, sse};
use crate::server::{Reply, Server};

const INPUT: u64 = 100_000;
const OUTPUT: u64 = 10_000;

/// Returns the cost of an answer, and its cost without tiers.
async fn costs(provider: &dyn Provider, model: &str) -> (Option<f64>, Option<f64>) {
    let request = question(provider, model);
    let model = request.model.clone();
    let answer = collect(provider.stream(request, &Bus::new().cx())).await.expect("an answer");
    assert_eq!((answer.usage.input, answer.usage.output), (INPUT, OUTPUT));
    let plain = Usage { billed: None, ..answer.usage };
    (model.cost(&answer.usage), model.cost(&plain))
}

fn response(tier: &Value) -> Reply {
    let usage = json!({"input_tokens": INPUT, "output_tokens": OUTPUT});
    Reply::sse(sse(&[completed(&json!({"status": "completed", "service_tier": tier, "usage": usage}))]))
}

fn chat(tier: &Value) -> Reply {
    let usage = json!({"prompt_tokens": INPUT, "completion_tokens": OUTPUT});
    let said = json!({"service_tier": tier, "choices": [{"index": 0, "delta": {"content": "ok"}}]});
    let end = json!({"service_tier": tier, "usage": usage,
        "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]});
    Reply::sse(format!("data: {said}\n\ndata: {end}\n\ndata: [DONE]\n\n"))
}

fn vendor(name: &str, url: &str) -> Arc<dyn Provider> {
    let vendor = Vendor::named(name).expect("a vendor");
    vendor.provider(vendor.connection().base_url(url).key("k-test")).expect("valid options")
}

#[tokio::test]
async fn a_tier_of_openai_multiplies_the_price() {
    for (model, tier, factor) in [
        ("gpt-6.1-sol", json!("flex"), 0.5),
        ("gpt-6.1-sol", json!("priority"), 2.0),
        ("gpt-6.1-sol", json!("fast"), 2.0),
        ("gpt-5.5", json!("priority"), 2.5),
        ("gpt-5.5", json!("flex"), 0.5),
        ("gpt-5.5", json!("default"), 1.0),
        ("gpt-5.5", json!("of-tomorrow"), 1.0),
        ("gpt-5.5", Value::Null, 1.0),
        ("gpt-5.5", json!({"name": "flex"}), 1.0),
    ] {
        let server = Server::start([response(&tier), chat(&tier)]).await;
        let by_chat = vendor("openai_chat", &server.url);
        for provider in [&openai(&server.url) as &dyn Provider, &*by_chat] {
            let (cost, plain) = costs(provider, model).await;
            let (cost, plain) = (cost.expect("a price"), plain.expect("a price"));
            assert!((cost - plain * factor).abs() < 1e-9, "{} {model} {tier}: {cost}", provider.name());
        }
    }
}

#[tokio::test]
async fn a_tier_of_somebody_else_does_not() {
    let tier = json!("flex");
    let server = Server::start([chat(&tier), response(&tier)]).await;
    let (cost, plain) = costs(&*vendor("groq", &server.url), "openai/gpt-oss-120b").await;
    assert!(cost.is_some() && cost == plain, "{cost:?} for {plain:?}");
    let connection = Connection::at(&server.url);
    let local = Responses::new(connection, ResponsesOptions::compatible()).expect("valid options");
    assert_eq!(costs(&local, "gpt-5.5").await, (None, None));
}
