//! Requests to Gemini, and what becomes of its rarer answers.

use std::sync::Arc;

use futures_util::StreamExt;
use serde_json::{Value, json};
use zk_core::kernel::Bus;
use zk_core::model::{
    Block, Document, ErrorKind, Image, Message, ModelRef, StopReason, Text, Thinking, ThinkingLevel,
    ThinkingRequest, ToolCall, ToolContent, ToolSpec, Usage, WireData,
};
use zk_core::service::{Provider, Request, StreamEvent, ToolChoice};
use zk_providers::{Auth, Connection, Gemini};

use crate::collect::{Answer, collect, question, request};
use crate::fixtures;
use crate::server::{Received, Reply, Server};

fn chunk(parts: &Value, more: &Value) -> String {
    let mut candidate = json!({"content": {"role": "model", "parts": parts}});
    candidate.as_object_mut().expect("an object").extend(more.as_object().cloned().unwrap_or_default());
    format!("data: {}\n\n", json!({"candidates": [candidate]}))
}

fn provider(server: &Server) -> Gemini {
    Gemini::new(Gemini::connection().base_url(&server.url).key("k-test")).expect("valid options")
}

fn ok() -> String {
    chunk(&json!([{"text": "ok"}]), &json!({"finishReason": "STOP"}))
}

async fn sent(model: &str, build: impl Fn(&dyn Provider) -> Request) -> Received {
    let server = Server::start([Reply::sse(ok())]).await;
    let provider = provider(&server);
    let mut asked = build(&provider);
    asked.model = provider.model(model);
    collect(provider.stream(asked, &Bus::new().cx())).await.expect("the server answers");
    server.received().remove(0)
}

async fn answer(body: impl AsRef<[u8]>) -> Result<Answer, zk_core::model::ProviderError> {
    let server = Server::start([Reply::sse(body)]).await;
    let provider = provider(&server);
    let asked = question(&provider, "gemini-3-flash-preview");
    collect(provider.stream(asked, &Bus::new().cx())).await.map_err(|(error, _)| error)
}

fn tools() -> Arc<[Arc<ToolSpec>]> {
    let schema = json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
        "properties": {"path": {"type": "string"}, "kind": {"const": "file"}}, "required": ["path"]});
    [ToolSpec::new("read_file", "Reads a file.", schema), ToolSpec::new("3d", "Draws.", json!(true))].into()
}

fn image() -> Block {
    Block::Image(Image::new("image/png", "aGk="))
}

/// Signed thinking and text, parallel calls, an image in a result, an error, steering, a foreign call.
fn tricky(origin: &ModelRef) -> Vec<Arc<Message>> {
    let wire = |data| Some(WireData { origin: origin.clone(), data });
    let thinking = |text: &str, signature: Option<&str>| {
        Block::Thinking(Thinking {
            text: text.into(),
            signature: signature.map(Into::into),
            origin: Some(origin.clone()),
            ..Thinking::default()
        })
    };
    let signed = |id: &str, name: &str, data| {
        Block::ToolCall(ToolCall { wire: wire(data), ..ToolCall::new(id, name, json!({"path": id})) })
    };
    let parts = json!({"parts": [{"len": 7}, {"len": 6, "thoughtSignature": "sig-text"}]});
    let document = Document { media_type: "application/pdf".into(), name: None, data: "JVBERg==".into() };
    vec![
        Message::user(vec![Block::text("look at this"), image(), Block::Document(document)]).shared(),
        Message::assistant(vec![
            thinking("which file?", Some("sig-thought")),
            thinking("unsigned", None),
            Block::Text(Text { text: "Reading both.".into(), wire: wire(parts) }),
            signed("abc1", "read_file", json!({"id": true, "thoughtSignature": "sig-call"})),
            signed("made_up", "3d", json!({})),
        ])
        .shared(),
        Message::user(vec![
            Block::result("abc1", ToolContent::Blocks(vec![Block::text("a picture"), image()]), false),
            Block::result("made_up", "no such thing", true),
            Block::text("hurry up"),
        ])
        .shared(),
        Message::assistant(vec![
            Block::ToolCall(ToolCall::new("toolu_1", "read_file", json!({}))),
            Block::ToolCall(ToolCall::new("toolu_2", "read_file", json!({}))),
        ])
        .shared(),
    ]
}

fn tricky_request(provider: &dyn Provider, model: &str) -> Request {
    let history = tricky(&provider.model(model).reference());
    Request { system: "Be brief.".into(), tools: tools(), ..request(provider, model, &history) }
}

#[tokio::test]
async fn a_tricky_history_in_geminis_shape() {
    for model in ["gemini-2.5-flash", "gemini-3.1-pro-preview"] {
        let received = sent(model, |provider| tricky_request(provider, model)).await;
        assert_eq!(received.header("x-goog-api-key"), Some("k-test"));
        assert_eq!(received.header("authorization"), None);
        let line = format!("POST /v1beta/models/{model}:streamGenerateContent?alt=sse HTTP/1.1");
        assert!(received.head.starts_with(&line), "{}", received.head);
        insta::assert_json_snapshot!(format!("gemini_{model}"), received.json());
    }
}

#[tokio::test]
async fn a_history_of_another_model_takes_no_signature_along() {
    let history = tricky(&ModelRef::new("gemini", "gemini-3-flash-preview"));
    let received =
        sent("gemini-3.1-pro-preview", |provider| request(provider, "gemini-3.1-pro-preview", &history))
            .await;
    let body = String::from_utf8(received.body.clone()).expect("text");
    assert!(!body.contains("sig-"), "{body}");
    let calls = received.json()["contents"][1]["parts"].clone();
    assert_eq!(calls[1]["thoughtSignature"], "skip_thought_signature_validator");
    assert!(calls[2]["thoughtSignature"].is_null() && calls[1]["functionCall"]["id"].is_null());
}

#[tokio::test]
async fn every_tool_choice_has_its_mode() {
    for (choice, expected) in [
        (ToolChoice::Auto, Value::Null),
        (ToolChoice::None, json!({"mode": "NONE"})),
        (ToolChoice::Required, json!({"mode": "ANY"})),
        (ToolChoice::Tool("3d".into()), json!({"mode": "ANY", "allowedFunctionNames": ["_3d"]})),
    ] {
        let received = sent("gemini-2.5-pro", |provider| {
            let question = question(provider, "gemini-2.5-pro");
            Request { tools: tools(), tool_choice: choice.clone(), ..question }
        });
        assert_eq!(received.await.json()["toolConfig"]["functionCallingConfig"], expected);
    }
}

#[tokio::test]
async fn extra_settings_join_those_of_the_same_name() {
    let server = Server::start([Reply::sse(ok())]).await;
    let extra = json!({"generationConfig": {"temperature": 0.5}, "cachedContent": "c/1"});
    let connection = Connection {
        base_url: format!("{}/v1/projects/p/locations/l/publishers/google", server.url),
        auth: Auth::Bearer("token".into()),
        extra_body: extra.as_object().cloned().expect("an object"),
        ..Gemini::connection()
    };
    let vertex = Gemini::new(connection).expect("valid options");
    let asked = Request {
        max_tokens: 9000,
        thinking: ThinkingRequest { level: ThinkingLevel::Low, budget: None },
        ..question(&vertex, "models/gemini-2.5-pro")
    };
    collect(vertex.stream(asked, &Bus::new().cx())).await.expect("the server answers");
    let received = server.received().remove(0);
    let path =
        "/v1/projects/p/locations/l/publishers/google/models/gemini-2.5-pro:streamGenerateContent?alt=sse";
    assert!(received.head.starts_with(&format!("POST {path} ")), "{}", received.head);
    assert_eq!(received.header("authorization"), Some("Bearer token"));
    let expected = json!({"maxOutputTokens": 9000, "temperature": 0.5,
        "thinkingConfig": {"includeThoughts": true, "thinkingBudget": 4096}});
    assert_eq!(received.json()["generationConfig"], expected);
    assert_eq!(received.json()["cachedContent"], "c/1");
}

#[tokio::test]
async fn the_bytes_of_one_request_to_gemini_are_a_prefix_of_the_next() {
    let server = Server::start([Reply::sse(ok())]).await;
    let provider = provider(&server);
    let mut history = vec![Message::user_text("begin").shared()];
    for turn in 0..6 {
        let asked = Request {
            system: "Be brief.".into(),
            tools: tools(),
            max_tokens: 1000 + turn,
            ..request(&provider, "gemini-3-flash-preview", &history)
        };
        collect(provider.stream(asked, &Bus::new().cx())).await.expect("the server answers");
        let id = format!("c_{turn}");
        let call = ToolCall::new(id.as_str(), "read_file", json!({"turn": turn}));
        history.push(Message::assistant(vec![Block::ToolCall(call)]).shared());
        history.push(Message::user(vec![Block::result(id.as_str(), "done", false)]).shared());
    }
    let bodies: Vec<String> =
        server.received().into_iter().map(|sent| String::from_utf8(sent.body).expect("text")).collect();
    for pair in bodies.windows(2) {
        let end = pair[0].rfind("],\"generationConfig\"").expect("a tail");
        assert!(pair[1].starts_with(&pair[0][..end]), "{}\n{}", pair[0], pair[1]);
    }
}

#[tokio::test]
async fn an_empty_answer_is_asked_for_once_more_and_then_believed() {
    for (part, blocks) in [(json!({"text": ""}), 0), (json!({"text": "", "thoughtSignature": "s"}), 1)] {
        let empty = chunk(&json!([part]), &json!({"finishReason": "STOP"}));
        let server = Server::start([Reply::sse(&empty), Reply::sse(ok())]).await;
        let gemini = provider(&server);
        let events: Vec<_> = gemini.stream(question(&gemini, "m"), &Bus::new().cx()).collect().await;
        assert!(events.iter().any(|event| matches!(event, Ok(StreamEvent::Retry(_)))), "{part}");
        assert!(matches!(events.last(), Some(Ok(StreamEvent::Done { stop: StopReason::EndTurn, .. }))));
        let blocks_seen = events.iter().filter(|event| matches!(event, Ok(StreamEvent::Block { .. })));
        assert_eq!(blocks_seen.count(), 1, "nothing of the first attempt is handed out");

        let server = Server::start([Reply::sse(&empty)]).await;
        let gemini = provider(&server);
        let nothing = collect(gemini.stream(question(&gemini, "m"), &Bus::new().cx())).await;
        assert_eq!(nothing.expect("nothing is an answer").blocks.len(), blocks);
        assert_eq!(server.received().len(), 2);
    }
}

#[tokio::test]
async fn a_blocked_prompt_is_a_refusal_that_says_why() {
    let body = json!({"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 7}});
    let answer = answer(format!("data: {body}\n\n")).await.expect("a refusal is an answer");
    assert_eq!(answer.stop, Some(StopReason::Refusal(Some("the prompt was blocked (SAFETY)".into()))));
    assert_eq!(answer.usage, Usage { input: 7, ..Usage::default() });
}

#[tokio::test]
async fn what_comes_after_a_first_reason_still_counts() {
    let body = [
        chunk(&json!([{"executableCode": {"code": "1"}}]), &json!({"finishReason": "STOP"})),
        chunk(&json!([{"text": "late"}]), &json!({"finishReason": "MAX_TOKENS"})),
    ];
    let answer = answer(body.concat()).await.expect("it is whole");
    assert_eq!((answer.text.as_str(), answer.stop), ("late", Some(StopReason::MaxTokens)));
}

#[tokio::test]
async fn failures_behind_a_reason_or_inside_the_stream_are_errors() {
    let malformed =
        chunk(&json!([]), &json!({"finishReason": "MALFORMED_FUNCTION_CALL", "finishMessage": "print("}));
    let error = answer(malformed).await.expect_err("it is of no use");
    assert_eq!((error.kind, error.is_retryable()), (ErrorKind::Malformed, true));
    assert!(error.message.contains("print("), "{error}");

    let overloaded =
        json!({"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}});
    let error = answer(format!("data: {overloaded}\n\n")).await.expect_err("it failed");
    assert_eq!(error.kind, ErrorKind::Overloaded);

    let cut = chunk(&json!([{"text": "half"}]), &json!({}));
    let error = answer(cut).await.expect_err("it is not whole");
    assert!(error.message.contains("finishReason"), "{error}");

    let error = answer("data: {\"candidates\": oops\n\n").await.expect_err("it cannot be read");
    assert_eq!(error.kind, ErrorKind::Malformed);
}

#[tokio::test]
async fn a_call_whose_end_never_came_is_malformed() {
    let pieces = json!([{"functionCall": {"name": "f", "willContinue": true, "partialArgs":
        [{"jsonPath": "$.a", "stringValue": "x", "willContinue": true}]}}]);
    let answer = answer(chunk(&pieces, &json!({"finishReason": "MAX_TOKENS"}))).await.expect("a cut answer");
    let [Block::ToolCall(call)] = answer.blocks.as_slice() else { panic!("one call: {:?}", answer.blocks) };
    assert_eq!(call.malformed.as_deref(), Some("{\"a\":\"x\"}"));
}

#[tokio::test]
async fn ids_are_kept_once_and_made_up_otherwise() {
    let call = |id: Value| json!({"functionCall": {"id": id, "name": "_3d", "args": {}}});
    let parts = json!([call(json!("same")), call(json!("same")), call(Value::Null), call(json!(""))]);
    let body = chunk(&parts, &json!({"finishReason": "STOP"}));
    let server = Server::start([Reply::sse(body)]).await;
    let gemini = provider(&server);
    let asked = Request { tools: tools(), ..question(&gemini, "gemini-3-flash-preview") };
    let answer = collect(gemini.stream(asked, &Bus::new().cx())).await.expect("it is whole");
    let ids: std::collections::BTreeSet<_> = answer.calls.iter().map(|(id, ..)| id.clone()).collect();
    assert_eq!((ids.len(), answer.calls[0].0.as_str()), (4, "same"));
    assert!(answer.calls.iter().all(|(_, name, _)| name == "3d"), "the tool's own name comes back");
}

#[tokio::test]
async fn a_request_larger_than_a_minutes_quota_is_too_long_and_not_too_early() {
    let body = json!({"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message":
        "You exceeded your current quota.\n* Quota exceeded for metric: x/generate_content_paid_tier_input_token_count, limit: 100, model: m\nPlease retry in 48.9s."}});
    for (size, expected) in [(100, ErrorKind::Quota), (2000, ErrorKind::Quota)] {
        let server = Server::start([Reply::json("429 Too Many Requests", body.to_string())]).await;
        let gemini = provider(&server);
        let history = [Message::user_text("x".repeat(size)).shared()];
        let asked = request(&gemini, "m", &history);
        let (error, _) = collect(gemini.stream(asked, &Bus::new().cx())).await.expect_err("an error");
        assert_eq!(error.kind, expected, "without details nothing says that waiting helps");
    }
    let mut body = body;
    body["error"]["details"] = json!([{"violations": [{"quotaId": "InputTokensPerModelPerMinute"}]},
        {"retryDelay": "48s"}]);
    for (size, expected) in [(100, ErrorKind::Rate), (2000, ErrorKind::ContextExceeded)] {
        let server = Server::start([Reply::json("429 Too Many Requests", body.to_string())]).await;
        let gemini = provider(&server);
        let history = [Message::user_text("x".repeat(size)).shared()];
        let asked = request(&gemini, "m", &history);
        let (error, _) = collect(gemini.stream(asked, &Bus::new().cx())).await.expect_err("an error");
        assert_eq!((error.kind, error.is_retryable()), (expected, expected == ErrorKind::Rate));
    }
}

#[tokio::test]
async fn an_image_in_an_answer_is_a_block() {
    let parts = json!([{"text": "here"}, {"inlineData": {"mimeType": "image/png", "data": "aGk="}}]);
    let server = Server::start([Reply::sse(chunk(&parts, &json!({"finishReason": "STOP"})))]).await;
    let gemini = provider(&server);
    let events: Vec<_> = gemini.stream(question(&gemini, "m"), &Bus::new().cx()).collect().await;
    let blocks: Vec<_> = events
        .into_iter()
        .filter_map(|event| match event {
            Ok(StreamEvent::Block { block, content }) => Some((block, content)),
            Ok(_) | Err(_) => None,
        })
        .collect();
    assert_eq!(blocks, [(0, Block::text("here")), (1, image())]);
}

/// The parts that a response of `parts` goes back as, to `model`.
async fn parts_sent_back(parts: &Value, model: &str) -> Value {
    let server =
        Server::start([Reply::sse(chunk(parts, &json!({"finishReason": "STOP"}))), Reply::sse(ok())]).await;
    let gemini = provider(&server);
    let mut blocks = Vec::new();
    let mut events = gemini.stream(question(&gemini, "gemini-3-pro-image"), &Bus::new().cx());
    while let Some(event) = events.next().await {
        if let StreamEvent::Block { content, .. } = event.expect("an answer") {
            blocks.push(content);
        }
    }
    let answer = Message { stop: Some(StopReason::EndTurn), ..Message::assistant(blocks) };
    let history = [Message::user_text("draw"), answer, Message::user_text("more")].map(Message::shared);
    collect(gemini.stream(request(&gemini, model, &history), &Bus::new().cx())).await.expect("an answer");
    server.received().remove(1).json()["contents"][1]["parts"].clone()
}

#[tokio::test]
async fn an_image_of_the_model_goes_back_to_it_with_its_signature() {
    let image = |data: &str| json!({"mimeType": "image/png", "data": data});
    let parts = json!([
        {"text": "two sketches", "thoughtSignature": "s0"},
        {"inlineData": image("aGk="), "thoughtSignature": "s1"},
        {"inlineData": image("aG8=")},
        {"text": "done"},
    ]);
    assert_eq!(parts_sent_back(&parts, "gemini-3-pro-image").await, parts);
    let plain = json!([
        {"text": "two sketches"},
        {"inlineData": image("aGk=")},
        {"inlineData": image("aG8=")},
        {"text": "done"},
    ]);
    assert_eq!(parts_sent_back(&parts, "gemini-3.5-flash").await, plain, "a signature is for its own model");
}

#[tokio::test]
async fn tokens_are_counted_and_models_listed() {
    let server = Server::start([Reply::json("200 OK", "{\"totalTokens\": 31}")]).await;
    let gemini = provider(&server);
    let asked = Request { system: "Be brief.".into(), ..question(&gemini, "gemini-3.5-flash") };
    assert_eq!(gemini.count_tokens(asked, &Bus::new().cx()).await.expect("a count"), Some(31));
    let received = server.received().remove(0);
    assert!(received.head.starts_with("POST /v1beta/models/gemini-3.5-flash:countTokens "));
    let inner = &received.json()["generateContentRequest"];
    assert_eq!(inner["model"], "models/gemini-3.5-flash");
    assert!(inner["systemInstruction"].is_object() && inner["contents"].is_array());

    let list = json!({"models": [
        {"name": "models/gemini-9-new", "inputTokenLimit": 5000, "outputTokenLimit": 70,
            "supportedGenerationMethods": ["generateContent", "countTokens"]},
        {"name": "models/gemini-embedding-001", "supportedGenerationMethods": ["embedContent"]},
        {"name": "models/gemini-2.5-pro"},
    ]});
    let server = Server::start([Reply::json("200 OK", list.to_string())]).await;
    let models = provider(&server).list_models(&Bus::new().cx()).await.expect("a list").expect("a list");
    let found: Vec<_> = models.iter().map(|model| (model.id.as_str(), model.window)).collect();
    assert_eq!(found, [("gemini-9-new", Some(5000)), ("gemini-2.5-pro", Some(1_048_576))]);
}

#[tokio::test]
async fn every_recorded_count_is_read() {
    let mut count = 0;
    for item in fixtures::all() {
        let said: Value = serde_json::from_str(&item.body).unwrap_or_default();
        if !item.url.contains("countTokens") || said["totalTokens"].is_null() {
            continue;
        }
        let server = Server::start([Reply::json("200 OK", &item.body)]).await;
        let gemini = provider(&server);
        let counted = gemini.count_tokens(question(&gemini, "m"), &Bus::new().cx()).await.expect("a count");
        assert_eq!(counted, said["totalTokens"].as_u64(), "{}", item.file);
        count += 1;
    }
    println!("{count} counts");
}
