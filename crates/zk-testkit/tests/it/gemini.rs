//! The fake server as the Gemini API.

use serde_json::{Value, json};
use zk_core::model::{ErrorKind, StopReason};
use zk_testkit::rules::Rule;
use zk_testkit::{FakeServer, Fault, RetryAfter, Script, Turn};

use crate::client::{Answer, End, post, send};
use crate::server::rich;

const NEW: &str = "/v1beta/models/gemini-3.5-flash";
const OLD: &str = "/v1beta/models/gemini-2.5-flash";

fn hello() -> Value {
    json!({"contents": [user(&json!([{"text": "hello"}]))]})
}

fn user(parts: &Value) -> Value {
    json!({"role": "user", "parts": parts})
}

fn ask(server: &FakeServer, model: &str) -> Answer {
    post(server, &format!("{model}:streamGenerateContent?alt=sse"), &hello())
}

fn whole(server: &FakeServer, model: &str, body: &Value) -> Answer {
    post(server, &format!("{model}:generateContent"), body)
}

fn parts(chunk: &Value) -> &Value {
    &chunk["candidates"][0]["content"]["parts"]
}

#[test]
fn a_stream_has_the_chunks_of_the_real_one() {
    let server = FakeServer::start(rich()).unwrap();
    let answer = ask(&server, NEW);
    assert_eq!((answer.status, &answer.end), (200, &End::Complete));
    let chunks = answer.events();
    assert_eq!(parts(&chunks[0]), &json!([{"text": "hm", "thought": true}]));
    assert_eq!(parts(&chunks[1]), &json!([{"text": "Let me "}]));
    let call = json!({"id": "fn1", "name": "read_file", "args": {"path": "a"}});
    assert_eq!(parts(&chunks[3]), &json!([{"functionCall": call, "thoughtSignature": "proof"}]));
    let last = chunks.last().unwrap();
    assert_eq!(last["candidates"][0]["finishReason"], "STOP", "calls end it as everything does");
    assert_eq!((&last["modelVersion"], &last["responseId"]), (&json!("gemini-3.5-flash"), &json!("resp_1")));
    let counts = &last["usageMetadata"];
    assert_eq!(
        (&counts["promptTokenCount"], &counts["cachedContentTokenCount"]),
        (&json!(15), &json!(3)),
        "the prompt includes the cache in this format"
    );
    assert_eq!((&counts["candidatesTokenCount"], &counts["thoughtsTokenCount"]), (&json!(3), &json!(4)));
}

#[test]
fn without_calls_a_proof_comes_with_the_end() {
    let script = || Script::new().turn(|t| t.signed_thinking("hm", "proof").text("So."));
    let chunks = ask(&FakeServer::start(script()).unwrap(), NEW).events();
    assert_eq!(parts(chunks.last().unwrap()), &json!([{"text": "", "thoughtSignature": "proof"}]));
    let response = whole(&FakeServer::start(script()).unwrap(), NEW, &hello()).json();
    assert_eq!(parts(&response).as_array().unwrap().len(), 3);
}

#[test]
fn calls_carry_a_signature_and_ids_from_gemini_3_on() {
    let script = || Script::new().turn(|t| t.call("f", json!({})).call("g", json!({})));
    let new = whole(&FakeServer::start(script()).unwrap(), NEW, &hello()).json();
    assert!(parts(&new)[0]["thoughtSignature"].is_string());
    assert!(parts(&new)[1]["thoughtSignature"].is_null(), "only the first of parallel calls");
    assert_eq!(parts(&new)[1]["functionCall"]["id"], "fn2");
    let old = whole(&FakeServer::start(script()).unwrap(), OLD, &hello()).json();
    assert_eq!(parts(&old)[0], json!({"functionCall": {"name": "f", "args": {}}}));
}

#[test]
fn a_stream_that_is_not_asked_for_as_events_is_a_list() {
    let server = FakeServer::start(Script::new().turn(|t| t.text("hello"))).unwrap();
    let answer = post(&server, &format!("{NEW}:streamGenerateContent"), &hello());
    assert_eq!(parts(&answer.json()[0]), &json!([{"text": "hello"}]));
}

#[test]
fn ends_have_the_words_of_the_dialect() {
    let reasons = [
        (StopReason::MaxTokens, "MAX_TOKENS"),
        (StopReason::Refusal(None), "SAFETY"),
        (StopReason::Other("RECITATION".into()), "RECITATION"),
    ];
    for (reason, word) in reasons {
        let script = Script::answering(move |_| Turn::new().text("x").stop(reason.clone()));
        let chunks = ask(&FakeServer::start(script).unwrap(), NEW).events();
        assert_eq!(chunks.last().unwrap()["candidates"][0]["finishReason"], word);
    }
    let script = Script::new().turn(|t| t.raw_call("f", "{\"a"));
    let chunks = ask(&FakeServer::start(script).unwrap(), NEW).events();
    assert_eq!(chunks[0]["candidates"][0]["finishReason"], "MALFORMED_FUNCTION_CALL");
}

#[test]
fn errors_have_the_shape_of_the_service() {
    let failing = |kind: ErrorKind| {
        let script = Script::answering(move |_| Turn::new().error(kind, "sorry"));
        let answer = ask(&FakeServer::start(script).unwrap(), NEW);
        (answer.status, answer.json()["error"].clone())
    };
    let (status, error) = failing(ErrorKind::Auth);
    assert_eq!((status, &error["status"]), (400, &json!("INVALID_ARGUMENT")));
    assert_eq!(error["details"][0]["reason"], "API_KEY_INVALID");
    let (status, error) = failing(ErrorKind::Quota);
    assert_eq!((status, &error["status"]), (429, &json!("RESOURCE_EXHAUSTED")));
    assert!(error["details"][0]["violations"][0]["quotaId"].as_str().unwrap().contains("PerDay"));
    let (_, error) = failing(ErrorKind::ContextExceeded);
    assert!(error["message"].as_str().unwrap().contains("exceeds the maximum number of tokens allowed"));
    let server = FakeServer::builder(rich()).models(["known"]).start().unwrap();
    let answer = ask(&server, NEW);
    assert_eq!((answer.status, &answer.json()["error"]["status"]), (404, &json!("NOT_FOUND")));
    let server = FakeServer::builder(rich()).require_key("secret").start().unwrap();
    assert_eq!(ask(&server, NEW).status, 403);
    let path = format!("{NEW}:generateContent");
    let body = hello().to_string();
    let keyed = |key: &str| {
        send(&server, "POST", &path, &format!("x-goog-api-key: {key}\r\n"), body.as_bytes()).status
    };
    assert_eq!((keyed("wrong"), keyed("secret")), (400, 200));
}

#[test]
fn faults_break_it_where_they_should() {
    let said = |fault: Fault| {
        let server = FakeServer::start(Script::new().turn(|t| t.chunks(["Grüße ", "aus 東京"]))).unwrap();
        server.fault_on(1, fault);
        ask(&server, NEW)
    };
    let answer = said(Fault::CutAfterEvents(2));
    assert_eq!((answer.events().len(), answer.end), (2, End::Cut));
    let answer = said(Fault::NoTerminal);
    assert!(!answer.text().contains("finishReason"));
    assert_eq!(said(Fault::DuplicateFinish).text().matches("finishReason").count(), 2);
    assert!(!said(Fault::MissingUsage).text().contains("usage"));
    let answer = said(Fault::RateLimited(RetryAfter::Seconds(34)));
    assert_eq!(answer.header("retry-after"), None, "it is said in the body");
    assert_eq!(answer.json()["error"]["details"][0]["retryDelay"], "34s");
    let events = said(Fault::ErrorEventAfter(1)).events();
    assert_eq!(events[1]["error"]["status"], "UNAVAILABLE");
}

#[test]
fn tokens_are_counted_and_models_listed() {
    let server = FakeServer::builder(rich()).models(["gemini-3.5-flash"]).start().unwrap();
    let mut inner = hello();
    inner["model"] = json!("models/gemini-3.5-flash");
    let count = post(&server, &format!("{NEW}:countTokens"), &json!({ "generateContentRequest": inner }));
    assert!(count.json()["totalTokens"].as_u64().unwrap() > 0, "{}", count.text());
    let list = send(&server, "GET", "/v1beta/models?pageSize=1000", "x-goog-api-key: k\r\n", b"").json();
    assert_eq!(list["models"][0]["name"], "models/gemini-3.5-flash");
}

#[test]
fn a_computed_turn_sees_what_was_asked() {
    let script = Script::answering(|asked| {
        let result = asked.result_of("f").map(|result| result.text).unwrap_or_default();
        let parts = [asked.system.clone(), asked.tools.join("+"), result, asked.last_user_text()];
        Turn::new().text(parts.join("/"))
    });
    let server = FakeServer::start(script).unwrap();
    let body = json!({
        "systemInstruction": {"parts": [{"text": "S"}]},
        "tools": [{"functionDeclarations": [{"name": "f"}, {"name": "g"}]}],
        "contents": [
            user(&json!([{"text": "go"}])),
            {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]},
            user(&json!([{"functionResponse": {"name": "f", "response": {"output": "42"}}}])),
        ],
    });
    assert_eq!(parts(&whole(&server, OLD, &body).json())[0]["text"], "S/f+g/42/go");
}

/// Sends a request with the result of the call in [`rich`], and with the model's content as `change` makes it.
fn answered(model: &str, change: impl FnOnce(&mut Value)) -> (FakeServer, Answer) {
    let server = FakeServer::start(rich().turn(|t| t.text("done"))).unwrap();
    let response = whole(&server, NEW, &hello()).json();
    let mut said = response["candidates"][0]["content"].clone();
    change(&mut said["parts"]);
    let result = json!({"id": "fn1", "name": "read_file", "response": {"output": "text"}});
    let contents =
        json!([user(&json!([{"text": "hello"}])), said, user(&json!([{ "functionResponse": result }]))]);
    let answer = whole(&server, model, &json!({ "contents": contents }));
    (server, answer)
}

#[test]
fn signatures_are_taken_back_only_where_they_were() {
    let (server, answer) = answered(NEW, |_| {});
    assert_eq!((answer.status, server.violations()), (200, Vec::new()));
    let refused = |model: &str, change: fn(&mut Value)| {
        let (server, answer) = answered(model, change);
        assert_eq!(answer.status, 400);
        server.violations()[0].rule
    };
    assert_eq!(refused(NEW, |parts| parts[2]["thoughtSignature"] = json!("forged")), Rule::Proof);
    assert_eq!(refused(NEW, |parts| parts[2]["functionCall"]["args"] = json!({})), Rule::Proof);
    assert_eq!(refused("/v1beta/models/gemini-3.1-pro", |_| {}), Rule::Proof);
    assert_eq!(refused(NEW, |parts| parts[2]["thoughtSignature"] = json!("")), Rule::Thinking);
}
