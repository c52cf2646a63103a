//! Chat Completions as its vendors understood it.

use serde_json::{Value, json};
use zk_testkit::rules::{Rule, Strictness, check_with};
use zk_testkit::{FakeServer, Script};

use crate::client::{Answer, chat};
use crate::rules::{self, with};

fn rejected(strictness: Strictness, body: &Value) -> Rule {
    match check_with(&strictness, body) {
        Err(violation) => violation.rule,
        Ok(()) => panic!("{body} is accepted"),
    }
}

#[test]
fn deepseek_is_owed_reasoning_while_the_model_thinks() {
    let strict = Strictness::deepseek();
    assert_eq!(rejected(strict, &rules::chat()), Rule::Thinking);
    let paid = with(rules::chat(), "/messages/2/reasoning_content", json!(""));
    assert_eq!(check_with(&strict, &paid), Ok(()));
    let off = with(rules::chat(), "/thinking", json!({"type": "disabled"}));
    assert_eq!(check_with(&strict, &off), Ok(()));
    for choice in [json!("required"), json!({"type": "function", "function": {"name": "f"}})] {
        assert_eq!(rejected(strict, &with(paid.clone(), "/tool_choice", choice.clone())), Rule::ToolChoice);
        assert_eq!(check_with(&strict, &with(off.clone(), "/tool_choice", choice)), Ok(()));
    }
    assert_eq!(check_with(&strict, &with(paid.clone(), "/tool_choice", json!("auto"))), Ok(()));
    let image = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}});
    let seeing = with(paid.clone(), "/messages/5/content/-", image);
    assert_eq!(rejected(strict, &seeing), Rule::Media);
    assert_eq!(check_with(&Strictness::chat(), &seeing), Ok(()));
    assert_eq!(rejected(strict, &with(paid, "/messages/0/role", json!("developer"))), Rule::Role);
}

#[test]
fn mistral_takes_thinking_in_parts() {
    let strict = Strictness::mistral();
    let part = |text: &str| json!({"type": "thinking", "thinking": [{"type": "text", "text": text}]});
    let said = |content: Value| {
        let body = json!({"model": "m", "messages": [{"role": "user", "content": "go"}]});
        let body = with(body, "/messages/-", json!({"role": "assistant", "content": content}));
        with(body, "/messages/-", json!({"role": "user", "content": "and?"}))
    };
    let both = json!([part("hm"), {"type": "text", "text": "So."}]);
    assert_eq!(check_with(&strict, &said(both.clone())), Ok(()));
    assert_eq!(rejected(Strictness::chat(), &said(both)), Rule::Shape);
    assert_eq!(rejected(strict, &said(json!([]))), Rule::EmptyMessage);
    assert_eq!(rejected(strict, &said(json!([{"type": "text", "text": " "}]))), Rule::EmptyText);
    assert_eq!(rejected(strict, &said(json!([{"type": "reasoning"}]))), Rule::Shape);
}

#[test]
fn some_servers_want_the_assistant_between_tool_and_user() {
    let strict = Strictness { assistant_after_tools: true, ..Strictness::chat() };
    assert_eq!(rejected(strict, &rules::chat()), Rule::Role);
    let mut body = rules::chat();
    let said = json!({"role": "assistant", "content": "I have read the results."});
    body["messages"].as_array_mut().unwrap().insert(5, said);
    assert_eq!(check_with(&strict, &body), Ok(()));
}

#[test]
fn openrouter_takes_reasoning_once() {
    let strict = Strictness::openrouter();
    let detail = json!([{"type": "reasoning.text", "text": "hm", "signature": "s", "index": 0}]);
    let body = with(rules::chat(), "/messages/2/reasoning_details", detail);
    assert_eq!(check_with(&strict, &body), Ok(()));
    assert_eq!(rejected(strict, &with(body, "/messages/2/reasoning", json!("hm"))), Rule::Thinking);
    let odd = with(rules::chat(), "/messages/2/reasoning_details", json!([{"type": "thinking"}]));
    assert_eq!(rejected(strict, &odd), Rule::Shape);
    let empty =
        with(rules::chat(), "/messages/2/reasoning_details", json!([{"type": "reasoning.encrypted"}]));
    assert_eq!(rejected(strict, &empty), Rule::Shape);
}

#[test]
fn cerebras_takes_fewer_fields() {
    assert_eq!(check_with(&Strictness::cerebras(), &rules::chat()), Ok(()));
    let body = with(rules::chat(), "/store", json!(false));
    assert_eq!(rejected(Strictness::cerebras(), &body), Rule::Parameter);
    assert_eq!(check_with(&Strictness::chat(), &body), Ok(()));
}

fn thinking(strictness: Strictness) -> FakeServer {
    let script = Script::new()
        .turn(|t| t.signed_thinking("hm", "proof").text("So.").call("f", json!({"a": 1})))
        .turn(|t| t.text("done"));
    FakeServer::builder(script).strictness(strictness).start().unwrap()
}

fn ask(server: &FakeServer, messages: &[Value]) -> Answer {
    let tools = rules::chat()["tools"].take();
    chat(server, &json!({"model": "m", "stream": true, "tools": tools, "messages": messages}))
}

#[test]
fn every_vendor_tells_reasoning_in_its_own_place() {
    let user = json!({"role": "user", "content": "go"});
    let deltas = |strictness: Strictness| -> Vec<Value> {
        let events = ask(&thinking(strictness), std::slice::from_ref(&user)).events();
        events.iter().map(|event| event["choices"][0]["delta"].clone()).collect()
    };
    let usage = ask(&thinking(Strictness::openrouter()), std::slice::from_ref(&user)).text();
    assert!(usage.contains("prompt_tokens"), "it is told unasked");
    let usage = ask(&thinking(Strictness::deepseek()), std::slice::from_ref(&user)).text();
    assert!(!usage.contains("prompt_tokens"));
    let mut told = deltas(Strictness::openrouter());
    let details = |at: usize| &told[at]["reasoning_details"][0];
    assert_eq!((&told[1]["reasoning"], &details(1)["text"]), (&json!("hm"), &json!("hm")));
    assert_eq!((&details(2)["signature"], &details(2)["text"]), (&json!("proof"), &json!(null)));
    told = deltas(Strictness::mistral());
    let part = json!({"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]});
    assert_eq!((&told[1]["content"], &told[2]["content"]), (&json!([part]), &json!("So.")));
    let call = &told[3]["tool_calls"][0];
    assert_eq!((&call["id"], &call["function"]["arguments"]), (&json!("call00001"), &json!("{\"a\":1}")));
    assert_eq!(deltas(Strictness::deepseek())[1]["reasoning_content"], "hm");
}

#[test]
fn openrouter_takes_back_only_the_proofs_it_gave() {
    let user = json!({"role": "user", "content": "go"});
    for (proof, status) in [("proof", 200), ("forged", 400)] {
        let server = thinking(Strictness::openrouter());
        ask(&server, std::slice::from_ref(&user));
        let item = json!({
            "type": "reasoning.text", "text": "hm", "signature": proof, "format": "anthropic-claude-v1", "index": 0,
        });
        let call = json!({"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}});
        let said =
            json!({"role": "assistant", "content": "So.", "reasoning_details": [item], "tool_calls": [call]});
        let result = json!({"role": "tool", "tool_call_id": "call_1", "content": "1"});
        assert_eq!(ask(&server, &[user.clone(), said, result]).status, status);
        let broken: Vec<Rule> = server.violations().iter().map(|violation| violation.rule).collect();
        assert_eq!(broken, if status == 200 { vec![] } else { vec![Rule::Proof] });
    }
}
