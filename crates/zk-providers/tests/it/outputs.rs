//! Answers that the provider holds to a schema itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use zk_core::kernel::Bus;
use zk_core::model::{ToolProtocol, ToolSpec};
use zk_core::service::{OutputFormat, Provider, Request};
use zk_providers::{
    Anthropic, AnthropicOptions, Clocks, Compat, CompatProfile, Connection, Ollama, OllamaOptions, Responses,
    ResponsesBackend, ResponsesOptions,
};
use zk_testkit::{Script, Turn};

use crate::collect::{collect, question};
use crate::recordings::Dialect;
use crate::server::{Reply, Server};
use crate::switching::station::STATIONS;

fn schema() -> Value {
    json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
        "properties": {"n": {"type": "integer"}}, "required": ["n"]})
}

fn strict() -> Value {
    json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"],
        "additionalProperties": false})
}

fn free() -> Value {
    json!({"type": "object", "properties": {"n": {"type": "object"}}, "required": ["n"]})
}

/// Returns the body that a provider sends when it is asked for an answer of this schema, and before it
/// whether it takes the schema natively. It does not matter that the server's answer is none.
async fn sent(
    make: impl Fn(&str) -> Box<dyn Provider>,
    model: &str,
    schema: Value,
    tools: bool,
) -> (bool, Value) {
    let server = Server::start([Reply::json("400 Bad Request", "{}")]).await;
    let provider = make(&server.url);
    let mut request = question(&*provider, model);
    let native = provider.native_output(&request.model, &schema, tools);
    if tools {
        request.tools = [ToolSpec::new("now", "The time.", json!({"type": "object"}))].into();
    }
    let output = native.then(|| OutputFormat { name: Arc::from("answer"), schema: Arc::new(schema) });
    let request = Request { output, ..request };
    collect(provider.stream(request, &Bus::new().cx())).await.expect_err("an error");
    (native, server.received().remove(0).json())
}

fn dialect(dialect: Dialect) -> impl Fn(&str) -> Box<dyn Provider> {
    move |url| dialect.provider(url, Clocks::remote())
}

fn openai(url: &str) -> Box<dyn Provider> {
    let profile = CompatProfile::named("openai").expect("a profile");
    Box::new(Compat::new(Connection::at(url), profile).expect("valid options"))
}

#[tokio::test]
async fn each_dialect_names_the_schema_in_its_own_place() {
    for (make, model, place, expected) in [
        (
            Box::new(dialect(Dialect::Anthropic)) as Box<dyn Fn(&str) -> Box<dyn Provider>>,
            "claude-opus-5",
            "/output_config/format",
            json!({"type": "json_schema", "schema": strict()}),
        ),
        (
            Box::new(dialect(Dialect::Responses)),
            "gpt-5.2",
            "/text/format",
            json!({"type": "json_schema", "name": "answer", "strict": true, "schema": strict()}),
        ),
        (
            Box::new(openai),
            "gpt-5.2",
            "/response_format",
            json!({"type": "json_schema", "json_schema": {"name": "answer", "strict": true, "schema": strict()}}),
        ),
    ] {
        let (native, body) = sent(&make, model, schema(), true).await;
        assert!(native, "{place}");
        assert_eq!(body.pointer(place), Some(&expected));
        let (native, body) = sent(&make, model, free(), true).await;
        assert!(!native, "{place}: free keys cannot be held to anything");
        assert_eq!(body.pointer(place), None);
    }
}

#[tokio::test]
async fn gemini_is_given_the_schema_where_it_does_not_exclude_functions() {
    for (model, tools, native) in [
        ("gemini-3-pro", true, true),
        ("gemini-4-argon", true, true),
        ("gemini-2.5-flash", false, true),
        ("gemini-2.5-flash", true, false),
    ] {
        let (can, body) = sent(dialect(Dialect::Gemini), model, schema(), tools).await;
        assert_eq!(can, native, "{model}");
        let config = &body["generationConfig"];
        assert_eq!(config["responseMimeType"] == "application/json", native);
        assert_eq!(config["responseJsonSchema"]["properties"].is_object(), native);
    }
}

#[tokio::test]
async fn ollama_is_given_the_schema_where_no_call_has_to_be_possible() {
    for tools in [false, true] {
        let (native, body) = sent(dialect(Dialect::Ollama), "qwen3", schema(), tools).await;
        assert_eq!((native, body["format"]["properties"].is_object()), (!tools, !tools));
    }
}

/// Schemas of all kinds; some can be held to and some cannot.
fn schemas() -> Vec<Value> {
    let object = |properties: Value, required: Value| json!({"type": "object", "properties": properties, "required": required});
    let mut nested = object(
        json!({
            "kind": {"oneOf": [{"const": "a", "description": "The first"}, {"const": "b"}]},
            "tags": {"type": "array", "items": {"$ref": "#/$defs/tag"}, "minItems": 1, "uniqueItems": true},
            "size": {"type": ["integer", "null"], "minimum": 0, "default": null},
            "inner": object(json!({"at": {"type": "string", "format": "date-time"}}), json!(["at"])),
        }),
        json!(["kind", "tags", "size", "inner"]),
    );
    nested["$defs"] = json!({"tag": {"title": "Tag", "type": "string", "maxLength": 20}});
    let mut recursive = object(json!({"root": {"$ref": "#/$defs/node"}}), json!(["root"]));
    recursive["$defs"] = json!({"node": object(json!({"of": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}}), json!(["of"]))});
    let optional = object(json!({"n": {"type": "integer"}, "why": {"type": "string"}}), json!(["n"]));
    vec![schema(), nested, recursive, optional, free(), object(json!({}), json!([]))]
}

#[tokio::test]
async fn no_server_refuses_a_schema_that_its_provider_said_yes_to() {
    let mut held = BTreeMap::<&str, usize>::new();
    for station in STATIONS {
        let server = station.server(Script::new().forever(|_| Turn::new().text("{}")));
        let provider = station.provider(&server);
        for model in station.models {
            for (schema, tools) in schemas().into_iter().flat_map(|one| [(one.clone(), false), (one, true)]) {
                let mut request = question(&*provider, model);
                if tools {
                    request.tools = [ToolSpec::new("now", "The time.", json!({"type": "object"}))].into();
                }
                *held.entry(station.name).or_default() +=
                    usize::from(provider.native_output(&request.model, &schema, tools));
                // A schema that the provider does not support is omitted, without harm.
                let output = Some(OutputFormat { name: Arc::from("answer"), schema: Arc::new(schema) });
                let answer = collect(provider.stream(Request { output, ..request }, &Bus::new().cx())).await;
                answer.unwrap_or_else(|(error, _)| panic!("{}: {error}", station.name));
            }
        }
    }
    println!("{held:?}");
    let none: Vec<_> = held.iter().filter(|(_, count)| **count == 0).map(|(name, _)| *name).collect();
    assert_eq!(none, ["deepseek", "moonshot", "openrouter"], "{held:?}");
}

#[tokio::test]
async fn what_a_connection_adds_does_not_take_the_format_away() {
    let extra = |name: &str, value: Value| Map::from_iter([(name.to_owned(), value)]);
    for (dialect, model, extra, place) in [
        (
            Dialect::Anthropic,
            "claude-opus-5",
            extra("output_config", json!({"verbosity": "low", "format": {"schema": {}}})),
            "/output_config",
        ),
        (Dialect::Responses, "gpt-5.2", extra("text", json!({"verbosity": "low"})), "/text"),
    ] {
        let make = |url: &str| -> Box<dyn Provider> {
            let connection = |connection: Connection| Connection {
                extra_body: extra.clone(),
                ..connection.base_url(url).key("k")
            };
            match dialect {
                Dialect::Anthropic => {
                    let options = AnthropicOptions::default();
                    Box::new(Anthropic::new(connection(Anthropic::connection()), options).expect("valid"))
                }
                _ => {
                    let options = ResponsesOptions::default();
                    Box::new(Responses::new(connection(Responses::connection()), options).expect("valid"))
                }
            }
        };
        let (_, body) = sent(make, model, schema(), false).await;
        let config = body.pointer(place).expect("it is there");
        assert_eq!(config["format"]["schema"], strict());
        assert_eq!(config["verbosity"], "low", "{config}");
    }
}

#[test]
fn a_profile_says_whose_answers_are_held_and_when() {
    for (profile, model, alone, with_tools) in [
        ("openai", "gpt-5.2", true, true),
        ("openrouter", "openai/gpt-5.2", true, true),
        ("openrouter", "openai/gpt-oss-120b", false, false),
        ("openrouter", "anthropic/claude-opus-5", false, false),
        ("mistral", "mistral-small-latest", true, false),
        ("llama.cpp", "any", true, false),
        ("groq", "openai/gpt-oss-20b", false, false),
        ("deepseek", "deepseek-v4-pro", false, false),
        ("openai_compat", "any", false, false),
    ] {
        let profile = CompatProfile::named(profile).expect("a profile");
        let name = profile.name.clone();
        let provider = Compat::new(Connection::at("http://127.0.0.1:9"), profile).expect("valid");
        let holds =
            [false, true].map(|tools| provider.native_output(&provider.model(model), &schema(), tools));
        assert_eq!(holds, [alone, with_tools], "{name}: {model}");
    }
}

#[test]
fn who_cannot_hold_an_answer_to_a_schema_says_so() {
    let at = "http://127.0.0.1:9";
    let claude =
        Anthropic::new(Anthropic::connection().key("k"), AnthropicOptions::default()).expect("valid");
    for (model, native) in
        [("claude-sonnet-4-5", true), ("claude-3-7-sonnet-latest", false), ("kimi-k3", false)]
    {
        assert_eq!(claude.native_output(&claude.model(model), &schema(), false), native, "{model}");
    }
    let options = ResponsesOptions { backend: ResponsesBackend::Compatible, ..ResponsesOptions::default() };
    let local = Responses::new(Connection::at(at), options).expect("valid");
    assert!(!local.native_output(&local.model("any"), &schema(), false));
    let ollama = Ollama::new(Connection::at(at), OllamaOptions::default()).expect("valid");
    assert!(ollama.native_output(&ollama.model("any"), &schema(), false));
}

#[tokio::test]
async fn llama_cpp_is_sent_any_schema_but_for_what_its_grammars_reject() {
    let schema = json!({
        "type": "object",
        "properties": {
            "name": {"type": "string", "pattern": "a+", "maxLength": 99_999},
            "nick": {"type": "string"},
            "more": {"type": "object"},
        },
        "required": ["name"],
    });
    let make = |url: &str| {
        let profile = CompatProfile::named("llama.cpp").expect("a profile");
        Box::new(Compat::new(Connection::at(url), profile).expect("valid options")) as Box<dyn Provider>
    };
    let (native, body) = sent(make, "any", schema.clone(), false).await;
    assert!(native);
    let expected = json!({
        "type": "object",
        "properties": {"name": {"type": "string"}, "nick": {"type": "string"}, "more": {"type": "object"}},
        "required": ["name"],
    });
    assert_eq!(body["response_format"]["json_schema"]["schema"], expected);
}

#[test]
fn a_profile_says_which_models_are_offered_tools_as_text() {
    for (profile, model, protocol) in [
        ("llama.cpp", "SmolLM2-135M-Instruct.Q4_1.gguf", ToolProtocol::Inline),
        ("llama.cpp", "SmolLM2-1.7B-Instruct", ToolProtocol::Api),
        ("llama.cpp", "Qwen3-4B", ToolProtocol::Api),
        ("llama.cpp", "gemma-3-1b-it", ToolProtocol::Inline),
        ("llama.cpp", "gemma-3-12b-it", ToolProtocol::Api),
        ("lmstudio", "phi-3-mini-4k-instruct", ToolProtocol::Inline),
        ("vllm", "microsoft/phi-4", ToolProtocol::Api),
        ("vllm", "TinyLlama/TinyLlama-1.1B-Chat-v1.0", ToolProtocol::Inline),
        ("openai", "gpt-5.2", ToolProtocol::Api),
    ] {
        let named = CompatProfile::named(profile).expect("a profile");
        let provider = Compat::new(Connection::at("http://127.0.0.1:9"), named).expect("valid");
        assert_eq!(provider.model(model).capabilities.tool_protocol, protocol, "{profile}: {model}");
    }
}
