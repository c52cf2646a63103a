//! The fake server as the Responses API and as the Codex back end.

use serde_json::{Value, json};
use zk_core::model::{ErrorKind, StopReason};
use zk_testkit::rules::{Dialect, Rule, Strictness};
use zk_testkit::{FakeServer, Fault, RetryAfter, Script, Turn};

use crate::client::{Answer, End, post, send};
use crate::server::{rich, types};

const API: &str = "/v1/responses";
const CODEX: &str = "/backend-api/codex/responses";

fn hello() -> Value {
    json!({"model": "m", "instructions": "", "stream": true, "store": false, "input": [user("hello")]})
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": [{"type": "input_text", "text": text}]})
}

fn ask(server: &FakeServer) -> Answer {
    post(server, API, &hello())
}

#[test]
fn a_stream_has_the_event_order_of_the_real_one() {
    let server = FakeServer::start(rich()).unwrap();
    let answer = ask(&server);
    assert_eq!((answer.status, &answer.end), (200, &End::Complete));
    assert_eq!(answer.header("x-request-id"), Some("req_1"));
    let events = answer.events();
    assert_eq!(
        types(&events),
        [
            "response.created",
            "response.in_progress",
            "response.output_item.added",
            "response.reasoning_summary_part.added",
            "response.reasoning_summary_text.delta",
            "response.reasoning_summary_text.done",
            "response.reasoning_summary_part.done",
            "response.output_item.done",
            "response.output_item.added",
            "response.content_part.added",
            "response.output_text.delta",
            "response.output_text.delta",
            "response.output_text.done",
            "response.content_part.done",
            "response.output_item.done",
            "response.output_item.added",
            "response.function_call_arguments.delta",
            "response.function_call_arguments.done",
            "response.output_item.done",
            "response.completed",
        ]
    );
    let numbers: Vec<_> = events.iter().map(|event| event["sequence_number"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (0..20).collect::<Vec<_>>());
    assert_eq!(events[7]["item"]["encrypted_content"], "proof");
    assert_eq!((&events[8]["output_index"], &events[8]["item"]["content"]), (&json!(1), &json!([])));
    assert_eq!(events[14]["item"]["phase"], "commentary");
    assert_eq!(events[15]["item"]["arguments"], "");
    assert_eq!(events[18]["item"]["call_id"], "call_1");
    assert_eq!(events[18]["item"]["arguments"], r#"{"path":"a"}"#);
    let response = &events[19]["response"];
    assert_eq!((&response["status"], response["output"].as_array().unwrap().len()), (&json!("completed"), 3));
    assert_eq!(response["usage"]["input_tokens"], 15, "input counts include the cache in this format");
    assert_eq!(response["usage"]["input_tokens_details"]["cached_tokens"], 3);
}

#[test]
fn the_codex_back_end_does_not_repeat_at_the_end_what_came() {
    let server = FakeServer::start(rich()).unwrap();
    let events = post(&server, CODEX, &hello()).events();
    let response = &events.last().unwrap()["response"];
    assert_eq!((&response["output"], &response["status"]), (&json!([]), &json!("completed")));
    assert_eq!(events[7]["item"]["type"], "reasoning");
}

#[test]
fn a_request_that_does_not_stream_gets_one_body() {
    let server = FakeServer::start(rich()).unwrap();
    let mut body = hello();
    body["stream"] = json!(false);
    let response = post(&server, API, &body).json();
    assert_eq!(response["object"], "response");
    assert_eq!(response["output"][1]["content"][0]["text"], "Let me look.");
}

#[test]
fn ends_have_the_words_of_the_dialect() {
    let reasons = [
        (StopReason::EndTurn, "response.completed", json!(null)),
        (StopReason::MaxTokens, "response.incomplete", json!("max_output_tokens")),
        (StopReason::Refusal(None), "response.incomplete", json!("content_filter")),
        (StopReason::Other("odd".into()), "response.incomplete", json!("odd")),
        (StopReason::Error, "response.failed", json!(null)),
    ];
    for (reason, kind, why) in reasons {
        let script = Script::answering(move |_| Turn::new().text("x").stop(reason.clone()));
        let events = ask(&FakeServer::start(script).unwrap()).events();
        let last = events.last().unwrap();
        assert_eq!((&last["type"], &last["response"]["incomplete_details"]["reason"]), (&json!(kind), &why));
    }
}

#[test]
fn errors_have_the_shape_of_the_service() {
    let failing = |kind: ErrorKind| {
        FakeServer::start(Script::answering(move |_| Turn::new().error(kind, "sorry"))).unwrap()
    };
    let code = |server: &FakeServer, path| {
        let answer = post(server, path, &hello());
        (answer.status, answer.json()["error"]["code"].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(code(&failing(ErrorKind::ContextExceeded), API), (400, "context_length_exceeded".into()));
    assert_eq!(code(&failing(ErrorKind::Quota), API), (429, "insufficient_quota".into()));
    assert_eq!(code(&failing(ErrorKind::Rate), API), (429, "rate_limit_exceeded".into()));
    assert_eq!(code(&failing(ErrorKind::Quota), CODEX), (429, "usage_limit_reached".into()));
    let answer = post(&failing(ErrorKind::Auth), CODEX, &hello());
    assert_eq!((answer.status, answer.json()), (401, json!({"detail": "sorry"})));
    let server = FakeServer::builder(rich()).models(["known"]).require_key("secret").start().unwrap();
    assert_eq!(code(&server, API), (400, "model_not_found".into()));
    assert_eq!(send(&server, "POST", API, "", hello().to_string().as_bytes()).status, 401);
    let script = Script::new().turn(|t| t.text("half").error(ErrorKind::Overloaded, "sorry"));
    let events = ask(&FakeServer::start(script).unwrap()).events();
    let [.., error, failed] = &events[..] else { panic!("{events:?}") };
    assert_eq!((&error["type"], &error["error"]["message"]), (&json!("error"), &json!("sorry")));
    assert_eq!(failed["type"], "response.failed");
}

#[test]
fn faults_break_it_where_they_should() {
    let said = |fault: Fault| {
        let server = FakeServer::start(Script::new().turn(|t| t.chunks(["Grüße ", "aus 東京"]))).unwrap();
        server.fault_on(1, fault);
        ask(&server)
    };
    let answer = said(Fault::CutAfterEvents(4));
    assert_eq!((answer.events().len(), answer.end), (4, End::Cut));
    let answer = said(Fault::NoTerminal);
    assert!(!answer.text().contains("response.completed"));
    assert_eq!(answer.end, End::Complete);
    assert_eq!(said(Fault::DuplicateFinish).text().matches("event: response.completed").count(), 2);
    assert!(!said(Fault::MissingUsage).text().contains("usage"));
    assert_eq!(said(Fault::RateLimited(RetryAfter::Seconds(2))).header("retry-after"), Some("2"));
    let events = said(Fault::ErrorEventAfter(3)).events();
    assert_eq!(types(&events)[3..], ["error", "response.failed"]);
    assert!(said(Fault::GiantDelta(1 << 16)).text().len() > 1 << 16);
}

#[test]
fn tokens_are_counted_and_models_listed() {
    let server = FakeServer::builder(rich()).models(["m"]).start().unwrap();
    let body = json!({"model": "m", "input": [user("hello")]});
    let count = post(&server, "/v1/responses/input_tokens", &body).json();
    assert!(count["input_tokens"].as_u64().unwrap() > 0, "{count}");
    assert_eq!(send(&server, "GET", "/v1/models", "", b"").json()["data"][0]["id"], "m");
    assert_eq!(server.requests().iter().filter(|request| request.number.is_some()).count(), 0);
}

#[test]
fn a_computed_turn_sees_what_was_asked() {
    let script = Script::answering(|asked| {
        let result = asked.result_of("f").map(|result| result.text).unwrap_or_default();
        let parts = [asked.system.clone(), asked.tools.join("+"), result, asked.last_user_text()];
        Turn::new().text(parts.join("/"))
    });
    let server = FakeServer::start(script).unwrap();
    let mut body = hello();
    body["stream"] = json!(false);
    body["instructions"] = json!("S");
    body["tools"] = json!([{"type": "function", "name": "f", "parameters": {"type": "object"}}]);
    body["input"] = json!([
        user("go"),
        {"type": "function_call", "call_id": "x", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "x", "output": "42"},
    ]);
    let response = post(&server, API, &body).json();
    assert_eq!(response["output"][0]["content"][0]["text"], "S/f/42/go");
}

/// Sends a request with the result of the call in [`rich`], and with its items as `change` makes them.
fn answered(change: impl FnOnce(&mut Vec<Value>)) -> (FakeServer, Answer) {
    let server = FakeServer::start(rich().turn(|t| t.text("done"))).unwrap();
    let mut output = ask(&server).events().pop().unwrap()["response"]["output"].take();
    let items = output.as_array_mut().unwrap();
    items.push(json!({"type": "function_call_output", "call_id": "call_1", "output": "text"}));
    items.insert(0, user("hello"));
    change(items);
    let mut body = hello();
    body["input"] = output;
    let answer = post(&server, API, &body);
    (server, answer)
}

#[test]
fn items_are_taken_back_as_they_were_given() {
    let (server, answer) = answered(|_| {});
    assert_eq!((answer.status, server.violations()), (200, Vec::new()));
    let (server, answer) = answered(|items| {
        // As another client would: without reasoning, and so without ids.
        items.remove(1);
        for item in items.iter_mut() {
            item.as_object_mut().unwrap().remove("id");
        }
    });
    assert_eq!((answer.status, server.violations()), (200, Vec::new()));
}

#[test]
fn items_that_the_server_did_not_give_are_refused() {
    let refused = |change: fn(&mut Vec<Value>)| {
        let (server, answer) = answered(change);
        assert_eq!(answer.status, 400);
        server.violations()[0].clone()
    };
    assert_eq!(refused(|items| items[1]["encrypted_content"] = json!("forged")).rule, Rule::Proof);
    assert_eq!(refused(|items| items[1]["summary"] = json!([])).rule, Rule::Proof);
    assert_eq!(refused(|items| items[2]["id"] = json!("msg_other")).rule, Rule::Proof);
    assert_eq!(refused(|items| drop(items[2].as_object_mut().unwrap().remove("phase"))).rule, Rule::Proof);
    assert_eq!(refused(|items| items[3]["arguments"] = json!("{}")).rule, Rule::Proof);
    let alone = refused(|items| drop(items.remove(1)));
    assert_eq!(
        (alone.rule, alone.message.as_str()),
        (
            Rule::Thinking,
            "Item 'msg_1_1' of type 'message' was provided without its required 'reasoning' item: 'rs_1_0'."
        )
    );
}

#[test]
fn proofs_are_good_for_one_model_only_unless_nobody_looks() {
    let own = Strictness::responses();
    for (strictness, status) in [(own, 400), (Strictness { own_proofs: false, ..own }, 200)] {
        let script = rich().turn(|t| t.text("done"));
        let server = FakeServer::builder(script).strictness(strictness).start().unwrap();
        let mut output = ask(&server).events().pop().unwrap()["response"]["output"].take();
        let items = output.as_array_mut().unwrap();
        items.insert(0, user("hello"));
        items.push(json!({"type": "function_call_output", "call_id": "call_1", "output": "text"}));
        let mut body = hello();
        body["input"] = output;
        body["model"] = json!("other");
        assert_eq!(post(&server, API, &body).status, status);
    }
    assert_eq!(Strictness::of(Dialect::Codex).dialect, Dialect::Codex);
}
