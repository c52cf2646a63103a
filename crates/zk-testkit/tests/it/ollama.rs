//! The fake server as Ollama.

use serde_json::{Value, json};
use zk_core::model::{ErrorKind, StopReason};
use zk_testkit::{FakeServer, Fault, RetryAfter, Script, Turn};

use crate::client::{Answer, End, post, send};
use crate::server::rich;

const CHAT: &str = "/api/chat";

fn hello() -> Value {
    json!({"model": "m", "messages": [{"role": "user", "content": "hello"}]})
}

fn ask(server: &FakeServer) -> Answer {
    post(server, CHAT, &hello())
}

fn lines(answer: &Answer) -> Vec<Value> {
    answer.text().lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

#[test]
fn a_stream_has_the_lines_of_the_real_one() {
    let server = FakeServer::start(rich()).unwrap();
    let answer = ask(&server);
    assert_eq!((answer.status, &answer.end), (200, &End::Complete));
    assert_eq!(answer.header("content-type"), Some("application/x-ndjson"));
    let lines = lines(&answer);
    assert_eq!(lines[0]["message"], json!({"role": "assistant", "content": "", "thinking": "hm"}));
    assert_eq!(lines[1]["message"]["content"], "Let me ");
    let call =
        json!({"id": "call_1", "function": {"index": 0, "name": "read_file", "arguments": {"path": "a"}}});
    assert_eq!(lines[3]["message"]["tool_calls"], json!([call]));
    assert_eq!((&lines[4]["done"], &lines[4]["done_reason"]), (&json!(true), &json!("stop")));
    assert_eq!((&lines[4]["prompt_eval_count"], &lines[4]["eval_count"]), (&json!(15), &json!(7)));
    assert_eq!(lines.len(), 5);
}

#[test]
fn a_request_that_does_not_stream_gets_one_body() {
    let server = FakeServer::start(rich()).unwrap();
    let mut body = hello();
    body["stream"] = json!(false);
    let response = post(&server, CHAT, &body).json();
    assert_eq!(response["message"]["content"], "Let me look.");
    assert_eq!(response["done"], true);
}

#[test]
fn ends_and_errors_have_the_words_of_the_dialect() {
    let reasons = [(StopReason::MaxTokens, "length"), (StopReason::Other("load".into()), "load")];
    for (reason, word) in reasons {
        let script = Script::answering(move |_| Turn::new().text("x").stop(reason.clone()));
        let lines = lines(&ask(&FakeServer::start(script).unwrap()));
        assert_eq!(lines.last().unwrap()["done_reason"], word);
    }
    let script = Script::answering(|_| Turn::new().error(ErrorKind::ContextExceeded, "x"));
    let answer = ask(&FakeServer::start(script).unwrap());
    assert_eq!(answer.status, 400);
    assert!(answer.json()["error"].as_str().unwrap().starts_with("prompt too long"));
    let script = Script::new().turn(|t| t.text("half").error(ErrorKind::Overloaded, "sorry"));
    let answer = ask(&FakeServer::start(script).unwrap());
    assert_eq!(lines(&answer).last().unwrap(), &json!({"error": "sorry"}));
    let server = FakeServer::builder(rich()).models(["known"]).start().unwrap();
    assert_eq!(ask(&server).json(), json!({"error": "model 'm' not found"}));
}

#[test]
fn faults_break_it_where_they_should() {
    let said = |fault: Fault| {
        let server = FakeServer::start(Script::new().turn(|t| t.chunks(["Grüße ", "aus 東京"]))).unwrap();
        server.fault_on(1, fault);
        ask(&server)
    };
    let answer = said(Fault::CutAfterEvents(2));
    assert_eq!((lines(&answer).len(), answer.end), (2, End::Cut));
    let answer = said(Fault::NoTerminal);
    assert!(!answer.text().contains("\"done\":true"));
    assert_eq!(answer.end, End::Complete);
    assert_eq!(said(Fault::DuplicateFinish).text().matches("\"done\":true").count(), 2);
    assert!(!said(Fault::MissingUsage).text().contains("eval_count"));
    assert_eq!(said(Fault::Overloaded(RetryAfter::No)).json(), json!({"error": "Overloaded"}));
    let answer = said(Fault::MalformedEvent(1));
    assert_eq!(answer.text().lines().count(), lines(&answer).len() + 1);
}

#[test]
fn models_are_listed_and_described() {
    let server = FakeServer::builder(rich()).models(["m"]).start().unwrap();
    assert_eq!(send(&server, "GET", "/api/tags", "", b"").json()["models"][0]["model"], "m");
    let shown = post(&server, "/api/show", &json!({"model": "m"})).json();
    assert_eq!(shown["model_info"]["fake.context_length"], 131_072);
    assert_eq!(post(&server, "/api/show", &json!({"model": "n"})).status, 404);
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
        "model": "m", "stream": false,
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
        "messages": [
            {"role": "system", "content": "S"},
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": {}}}]},
            {"role": "tool", "tool_name": "f", "content": "42"},
        ],
    });
    assert_eq!(post(&server, CHAT, &body).json()["message"]["content"], "S/f/42/go");
}
