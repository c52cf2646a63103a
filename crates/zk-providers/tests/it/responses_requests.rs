//! Requests to the Responses API, its Codex back end and the servers that imitate it.

use std::sync::Arc;

use serde_json::{Value, json};
use zk_core::kernel::Bus;
use zk_core::model::{
    Block, Document, Image, Message, ModelRef, Text, Thinking, ThinkingLevel, ThinkingRequest, ToolCall,
    ToolContent, ToolSpec, WireData,
};
use zk_core::service::{Provider, Request, ToolChoice};
use zk_providers::{Auth, Connection, Responses, ResponsesOptions, SetupError};

use crate::collect::{collect, request};
use crate::responses::{completed, openai, sse};
use crate::server::{Received, Reply, Server};

pub(crate) async fn sent(
    make: impl Fn(&str) -> Responses,
    build: impl Fn(&Responses) -> Request,
) -> Received {
    let server = Server::start([Reply::sse(sse(&[completed(&json!({}))]))]).await;
    let provider = make(&server.url);
    collect(provider.stream(build(&provider), &Bus::new().cx())).await.expect("an answer");
    server.received().remove(0)
}

fn codex(url: &str) -> Responses {
    let connection = Responses::subscription_connection().base_url(url);
    let (auth, account) = (Auth::Bearer("t-test".into()), Some("acc_1".into()));
    Responses::new(Connection { auth, account, ..connection }, ResponsesOptions::subscription())
        .expect("valid options")
}

fn local(url: &str) -> Responses {
    let options = ResponsesOptions { echo_reasoning: true, ..ResponsesOptions::compatible() };
    Responses::new(Connection::at(url), options).expect("valid options")
}

fn tools() -> Arc<[Arc<ToolSpec>]> {
    let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]});
    [ToolSpec::new("read_file", "Reads a file.", schema), ToolSpec::new("now", "The time.", json!(true))]
        .into()
}

/// Sealed reasoning, parallel calls, media in a result, a cut call, a switch from another provider.
fn tricky(provider: &Responses, model: &str) -> Vec<Arc<Message>> {
    let origin = provider.model(model).reference();
    let wire = |data: Value| Some(WireData { origin: origin.clone(), data });
    let thinking = Thinking {
        text: "Let me look.".into(),
        signature: Some("seal".into()),
        origin: Some(origin.clone()),
        wire: wire(json!({"id": "rs_1"})),
        ..Thinking::default()
    };
    let call = |id: &str, item: &str| {
        let call = ToolCall::new(id, "read_file", json!({"path": "a.png", "a": 1}));
        Block::ToolCall(ToolCall { wire: wire(json!({"id": item, "needs": "rs_1"})), ..call })
    };
    let foreign = ModelRef::new("anthropic", "claude-opus-5");
    let foreign_thinking =
        Thinking { signature: Some("theirs".into()), origin: Some(foreign), ..Thinking::default() };
    let mut cut = ToolCall::new("toolu_1", "read_file", json!({}));
    cut.malformed = Some("{\"path\": \"src".into());
    let media = ToolContent::Blocks(vec![
        Block::text("two pages"),
        Block::Image(Image::new("image/png", "aGk=")),
        Block::Document(Document { media_type: "application/pdf".into(), name: None, data: "aGk=".into() }),
    ]);
    [
        Message::user_text("read it"),
        Message::assistant(vec![Block::Thinking(foreign_thinking), Block::ToolCall(cut)]),
        Message::user(vec![Block::result("toolu_1", "cut off", true)]),
        Message::assistant(vec![
            Block::Thinking(thinking),
            Block::Text(Text {
                text: "Reading.".into(),
                wire: wire(json!({"id": "msg_1", "phase": "commentary", "needs": "rs_1"})),
            }),
            call("call_1", "fc_1"),
            call("call_2", "fc_2"),
        ]),
        Message::user(vec![
            Block::result("call_2", "gone", true),
            Block::result("call_1", media, false),
            Block::text("hurry"),
        ]),
    ]
    .map(Arc::new)
    .into()
}

fn full(provider: &Responses, model: &str) -> Request {
    Request {
        system: "Be brief.".into(),
        tools: tools(),
        tool_choice: ToolChoice::Tool("now".into()),
        thinking: ThinkingRequest { level: ThinkingLevel::XHigh, budget: None },
        session: Some("s_1".into()),
        ..request(provider, model, &tricky(provider, model))
    }
}

#[tokio::test]
async fn a_tricky_history_becomes_a_legal_request_for_each_back_end() {
    for (name, make) in [("api", openai as fn(&str) -> Responses), ("codex", codex), ("compatible", local)] {
        let received = sent(make, |provider| full(provider, "gpt-5.2")).await;
        insta::assert_json_snapshot!(format!("responses_{name}"), received.json());
    }
}

#[tokio::test]
async fn codex_is_told_the_account_and_no_limit() {
    let received = sent(codex, |provider| full(provider, "gpt-5.2")).await;
    assert!(received.head.starts_with("POST /responses "), "{}", received.head);
    for (name, value) in [
        ("authorization", "Bearer t-test"),
        ("chatgpt-account-id", "acc_1"),
        ("originator", "zk"),
        ("openai-beta", "responses=experimental"),
        ("session-id", "s_1"),
        ("x-client-request-id", "s_1"),
    ] {
        assert_eq!(received.header(name), Some(value), "{name}");
    }
    let body = received.json();
    assert_eq!((&body["store"], body.get("max_output_tokens")), (&json!(false), None));
    let bare = sent(codex, |provider| request(provider, "gpt-5.2", &[])).await.json();
    assert_eq!(bare["instructions"], "", "the field may not be missing");
}

#[tokio::test]
async fn levels_become_the_words_a_model_knows() {
    use ThinkingLevel::{Adaptive, High, Low, Max, Minimal, Off, XHigh};
    let effort = |effort: &str| json!({"effort": effort, "summary": "auto"});
    for (model, level, expected) in [
        ("gpt-5.2", Off, json!({"effort": "none"})),
        ("gpt-5", Off, json!({"effort": "minimal"})),
        ("gpt-6-astra", Off, json!({"effort": "low"})),
        ("gpt-5.2", Minimal, effort("low")),
        ("gpt-5", XHigh, effort("high")),
        ("gpt-5.2", XHigh, effort("xhigh")),
        ("gpt-5.2", Max, effort("xhigh")),
        ("gpt-5.6-luna", Max, effort("max")),
        ("gpt-5-pro", Low, effort("high")),
        ("gpt-5.2", Adaptive, json!({"summary": "auto"})),
        ("gpt-4.1", High, Value::Null),
        ("gpt-9-unheard-of", Off, Value::Null),
        ("gpt-9-unheard-of", High, effort("high")),
    ] {
        let thinking = ThinkingRequest { level, budget: None };
        let body =
            sent(openai, |provider| Request { thinking, ..request(provider, model, &[]) }).await.json();
        assert_eq!(body["reasoning"], expected, "{model} {level:?}");
        let reasons = model != "gpt-4.1";
        assert_eq!(body["include"].is_array(), reasons, "{model} is asked for seals only if it reasons");
    }
}

#[tokio::test]
async fn a_limit_below_the_least_is_raised_to_it() {
    let body = sent(openai, |provider| Request { max_tokens: 3, ..request(provider, "gpt-5.2", &[]) }).await;
    assert_eq!(body.json()["max_output_tokens"], 16);
}

#[tokio::test]
async fn a_request_is_continued_by_the_next_one() {
    let server = Server::start([Reply::sse(sse(&[completed(&json!({}))]))]).await;
    let provider = openai(&server.url);
    let mut history = tricky(&provider, "gpt-5.2");
    for _ in 0..3 {
        let request = Request { tools: tools(), ..request(&provider, "gpt-5.2", &history) };
        collect(provider.stream(request, &Bus::new().cx())).await.expect("an answer");
        history.push(Message::assistant(vec![Block::text("done")]).shared());
        history.push(Message::user_text("and now?").shared());
    }
    let bodies: Vec<String> =
        server.received().iter().map(|sent| String::from_utf8_lossy(&sent.body).into_owned()).collect();
    for pair in bodies.windows(2) {
        let items = pair[0].split("],\"").next().expect("a body");
        assert!(pair[1].starts_with(items), "the bytes of one request begin the next");
    }
    let input = |body: &str| body.find("\"input\":[").map(|at| body[at..].rfind("\"hurry\"").is_some());
    assert!(bodies.iter().all(|body| input(body) == Some(true)));
}

#[tokio::test]
async fn tokens_are_counted_where_the_api_counts_them() {
    let server = Server::start([Reply::json("200 OK", "{\"input_tokens\": 42}")]).await;
    let cx = Bus::new().cx();
    let provider = openai(&server.url);
    let counted = provider.count_tokens(full(&provider, "gpt-5.2"), &cx).await;
    assert_eq!(counted.expect("an answer"), Some(42));
    let asked = server.received().remove(0);
    assert!(asked.head.starts_with("POST /responses/input_tokens "), "{}", asked.head);
    assert_eq!(asked.json().get("stream"), None);
    let provider = codex(&server.url);
    assert_eq!(provider.count_tokens(full(&provider, "gpt-5.2"), &cx).await.expect("no call"), None);
}

#[test]
fn an_account_that_cannot_be_sent_is_a_setup_error() {
    for account in [Some("a\nb".to_owned()), Some(" ".to_owned()), None] {
        let connection = Connection { account, ..Responses::subscription_connection().key("k-test") };
        let error = Responses::new(connection, ResponsesOptions::subscription()).expect_err("no account");
        assert_eq!(error, SetupError::Account { name: "openai_codex".into() });
    }
}

#[tokio::test]
async fn more_settings_of_reasoning_leave_those_of_zk_alone() {
    let extra_body = json!({"reasoning": {"mode": "pro"}}).as_object().cloned().expect("fields");
    let make = |url: &str| {
        let connection = Connection { extra_body: extra_body.clone(), ..Responses::connection() };
        let connection = connection.base_url(url).key("k");
        Responses::new(connection, ResponsesOptions::default()).expect("valid options")
    };
    let body = sent(make, |provider| full(provider, "gpt-5.2")).await.json();
    assert_eq!((&body["reasoning"]["effort"], &body["reasoning"]["mode"]), (&json!("xhigh"), &json!("pro")));
}
