//! Overrides of a model, heard by every dialect: in its description, in lists and in requests.

use serde_json::{Value, json};
use zk_core::kernel::Bus;
use zk_core::model::{Message, ThinkingLevel, ThinkingRequest, ThinkingSupport};
use zk_core::service::Provider;
use zk_providers::{
    Anthropic, AnthropicOptions, Compat, CompatProfile, Connection, Efforts, Gemini, Ollama, OllamaOptions,
    Override, Overrides, Responses, ResponsesOptions,
};

use crate::collect::request;
use crate::server::{Reply, Server};

/// A name in no table.
const ID: &str = "nobody-9";

fn said() -> Override {
    Override {
        window: Some(5_000),
        max_output: Some(77),
        input: Some(3.0),
        vision: Some(false),
        thinking: Some(ThinkingSupport::Effort),
        efforts: Some(Efforts::of([("low", Some("tiny".into())), ("xhigh", Some("vast".into()))])),
        ..Override::default()
    }
}

/// Each dialect with an override of the model, and the path of the effort in its requests.
fn dialects(url: &str) -> Vec<(Box<dyn Provider>, &'static str)> {
    let at = |usual: Connection| Connection {
        models: Overrides::from_iter([(ID.to_owned(), said())]),
        ..usual.base_url(url).key("k")
    };
    let claude = Anthropic::new(at(Anthropic::connection()), AnthropicOptions::default()).expect("valid");
    let chat = Compat::new(at(Connection::at("")), CompatProfile::default()).expect("valid");
    let openai = Responses::new(at(Responses::connection()), ResponsesOptions::default()).expect("valid");
    let gemini = Gemini::new(at(Gemini::connection())).expect("valid");
    vec![
        (Box::new(claude), "/output_config/effort"),
        (Box::new(chat), "/reasoning_effort"),
        (Box::new(openai), "/reasoning/effort"),
        (Box::new(gemini), "/generationConfig/thinkingConfig/thinkingLevel"),
    ]
}

#[tokio::test]
async fn a_model_is_what_is_said_of_it_and_its_neighbours_are_not() {
    for (provider, _) in dialects("http://127.0.0.1:9") {
        let name = provider.name();
        let model = provider.model(ID);
        assert_eq!((model.window, model.max_output), (Some(5_000), Some(77)), "{name}");
        assert_eq!(model.capabilities.thinking, ThinkingSupport::Effort, "{name}");
        assert!(!model.capabilities.vision && !provider.rules(&model).vision, "{name}");
        assert_eq!(model.prices.expect("a price").rates.input, 3.0, "{name}");
        assert_eq!(provider.model("nobody-8").window, None, "{name}");
    }
}

#[tokio::test]
async fn a_level_is_asked_for_in_the_words_that_are_said() {
    for (level, word) in [(ThinkingLevel::Off, "tiny"), (ThinkingLevel::High, "vast")] {
        let server = Server::answering(|_, _| Reply::sse("")).await;
        for (provider, path) in dialects(&server.url) {
            let history = [Message::user_text("hello").shared()];
            let mut asked = request(&*provider, ID, &history);
            asked.thinking = ThinkingRequest { level, budget: None };
            let _ = crate::collect::collect(provider.stream(asked, &Bus::new().cx())).await;
            let body = server.received().pop().expect("a request").json();
            assert_eq!(body.pointer(path), Some(&Value::from(word)), "{} {level:?}: {body}", provider.name());
        }
    }
}

#[tokio::test]
async fn what_is_said_outranks_what_the_server_lists() {
    let listed = json!({
        "data": [{"id": ID, "max_input_tokens": 9, "max_tokens": 9, "context_length": 9}],
        "models": [{"name": format!("models/{ID}"), "inputTokenLimit": 9, "outputTokenLimit": 9}],
    });
    let server = Server::answering(move |_, _| Reply::json("200 OK", listed.to_string())).await;
    for (provider, _) in dialects(&server.url) {
        let models = provider.list_models(&Bus::new().cx()).await.expect("an answer").expect("a list");
        let seen: Vec<_> = models.iter().map(|model| (&*model.id, model.window, model.max_output)).collect();
        assert_eq!(seen, [(ID, Some(5_000), Some(77))], "{}", provider.name());
    }
}

#[tokio::test]
async fn the_window_said_of_a_local_model_is_the_room_it_is_given() {
    let server = Server::answering(|_, _| Reply::sse("")).await;
    let connection = Connection {
        models: Overrides::from_iter([(ID.to_owned(), said())]),
        ..Ollama::connection().base_url(&server.url)
    };
    let ollama = Ollama::new(connection, OllamaOptions::default()).expect("valid");
    assert_eq!(ollama.model(ID).window, Some(5_000));
    let asked = request(&ollama, ID, &[Message::user_text("hello").shared()]);
    let _ = crate::collect::collect(ollama.stream(asked, &Bus::new().cx())).await;
    assert_eq!(server.received().remove(0).json()["options"]["num_ctx"], 5_000);
}
