//! Recorded answers that a schema was asked of, in the adapters' own requests.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use zk_core::kernel::Bus;
use zk_core::model::ToolSpec;
use zk_core::service::{OutputFormat, Provider, Request};
use zk_providers::{Clocks, Compat, CompatProfile, Connection};

use super::{Dialect, exchanges};
use crate::collect::{collect, question};
use crate::server::{Reply, Server};

/// Returns the place of a dialect's format, and in that the place of the schema.
fn places(dialect: Dialect) -> (&'static str, &'static str) {
    match dialect {
        Dialect::Anthropic => ("/output_config/format", "/schema"),
        Dialect::Chat => ("/response_format", "/json_schema/schema"),
        Dialect::Responses => ("/text/format", "/schema"),
        Dialect::Gemini => ("/generationConfig/responseJsonSchema", ""),
        Dialect::Ollama => ("/format", ""),
    }
}

/// Output format without descriptions, keywords that no provider enforces, and explicit defaults.
fn plain(mut format: Value) -> Value {
    const LEFT_OUT: &[&str] = &["$schema", "title", "description", "format", "minimum", "maximum"];
    match &mut format {
        Value::Object(fields) => {
            fields.retain(|name, value| !LEFT_OUT.contains(&&**name) || value.is_object());
            if fields.get("strict") == Some(&json!(true)) {
                fields.remove("strict");
            }
            fields.values_mut().for_each(|value| *value = plain(value.take()));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| *item = plain(item.take())),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    format
}

fn provider(dialect: Dialect, url: &str) -> Box<dyn Provider> {
    match dialect {
        Dialect::Chat => {
            let profile = CompatProfile::named("openai").expect("a profile");
            Box::new(Compat::new(Connection::at(url), profile).expect("valid options"))
        }
        other => other.provider(url, Clocks::remote()),
    }
}

#[tokio::test]
async fn a_recorded_format_is_asked_for_as_it_was() {
    let mut counts = BTreeMap::<String, usize>::new();
    let mut wrong = Vec::new();
    for exchange in exchanges() {
        let (place, inner) = places(exchange.dialect);
        let Some(recorded) = exchange.request() else { continue };
        let Some(format) = recorded.pointer(place) else { continue };
        let mut count =
            |what: &str| *counts.entry(format!("{:?}: {what}", exchange.dialect)).or_default() += 1;
        let Some(schema) = format.pointer(inner).filter(|schema| schema.is_object()) else {
            count("left out: no schema");
            continue;
        };
        let server = Server::start([Reply::json("400 Bad Request", "{}")]).await;
        let provider = provider(exchange.dialect, &server.url);
        let mut request = question(&*provider, &exchange.model());
        let tools = recorded["tools"].as_array().is_some_and(|tools| !tools.is_empty());
        if tools {
            request.tools = [ToolSpec::new("now", "The time.", json!({"type": "object"}))].into();
        }
        if !provider.native_output(&request.model, schema, tools) {
            println!("left to a tool: {} {schema}", exchange.place());
            count("left to a tool");
            continue;
        }
        let name = format.pointer("/name").or(format.pointer("/json_schema/name")).and_then(Value::as_str);
        let output = OutputFormat { name: name.unwrap_or("answer").into(), schema: Arc::new(schema.clone()) };
        let request = Request { output: Some(output), ..request };
        collect(provider.stream(request, &Bus::new().cx())).await.expect_err("an error");
        let ours = server.received().remove(0).json();
        let ours = ours.pointer(place).cloned().unwrap_or_default();
        if plain(ours.clone()) != plain(format.clone()) {
            wrong.push(format!("{}\n  ours     {ours}\n  recorded {format}", exchange.place()));
        }
        count("compared");
    }
    println!("{counts:#?}");
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}
