use serde_json::{Value, json};
use zk_testkit::rules::{Dialect, Rule, check};

use crate::rules::with;

const DUMMY: &str = "skip_thought_signature_validator";

/// A request that calls `f` twice and answers both: legal in every respect.
fn request() -> Value {
    let call = |id: &str| json!({"functionCall": {"id": id, "name": "f", "args": {}}});
    let answer = |id: &str| json!({"functionResponse": {"id": id, "name": "f", "response": {"output": "1"}}});
    json!({
        "model": "gemini-3.5-flash",
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "tools": [{"functionDeclarations": [{"name": "f", "parametersJsonSchema": {"type": "object"}}]}],
        "generationConfig": {"maxOutputTokens": 100, "thinkingConfig": {"thinkingLevel": "low"}},
        "contents": [
            {"role": "user", "parts": [{"text": "go"}]},
            {"role": "model", "parts": [
                {"text": "hm", "thought": true},
                with(call("a"), "/thoughtSignature", json!("proof")),
                call("b"),
            ]},
            {"role": "user", "parts": [answer("a"), answer("b")]},
            {"role": "user", "parts": [{"text": "and?"}, {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}]},
        ],
    })
}

fn rejected(body: &Value) -> Rule {
    match check(Dialect::Gemini, body) {
        Err(violation) => violation.rule,
        Ok(()) => panic!("{body} is accepted"),
    }
}

#[test]
fn a_proper_request_is_accepted() {
    assert_eq!(check(Dialect::Gemini, &request()), Ok(()));
    let old = with(request(), "/model", json!("models/gemini-2.5-pro"));
    let old = with(old, "/generationConfig/thinkingConfig", json!({"thinkingBudget": 128}));
    let old = with(old, "/contents/1/parts/1/thoughtSignature", json!(null));
    assert_eq!(check(Dialect::Gemini, &old), Ok(()), "before Gemini 3 no call needs a signature");
}

#[test]
fn gemini_rejects_what_breaks_a_rule() {
    let declared = |function: Value| json!([{ "functionDeclarations": [function] }]);
    let calling = |config: Value| json!({ "functionCallingConfig": config });
    let text = |text: &str| json!({ "text": text });
    let table = [
        ("/model", json!(null), Rule::NoModel),
        ("/messages", json!([]), Rule::Parameter),
        ("/generationConfig/maxOutputTokens", json!(0), Rule::Parameter),
        ("/systemInstruction/parts/0/text", json!(""), Rule::EmptyText),
        ("/generationConfig/thinkingConfig/thinkingBudget", json!(1), Rule::ThinkingParams),
        ("/generationConfig/thinkingConfig/thinkingLevel", json!("utmost"), Rule::ThinkingParams),
        ("/generationConfig/thinkingConfig", json!({"thinkingBudget": -2}), Rule::ThinkingParams),
        ("/tools", json!({}), Rule::Shape),
        ("/tools", json!([{}]), Rule::Shape),
        ("/tools", declared(json!({"name": "1st"})), Rule::ToolName),
        ("/tools", declared(json!({"name": "no spaces"})), Rule::ToolName),
        ("/tools", declared(json!({"name": "x".repeat(129)})), Rule::ToolName),
        ("/tools/-", request()["tools"][0].clone(), Rule::ToolName),
        ("/tools/0/functionDeclarations/0/parametersJsonSchema", json!({}), Rule::ToolSchema),
        ("/tools/0/functionDeclarations/0/parameters", json!({"type": "object"}), Rule::ToolSchema),
        (
            "/tools",
            declared(json!({"name": "f", "parameters": {"type": "object", "additionalProperties": false}})),
            Rule::ToolSchema,
        ),
        ("/toolConfig", calling(json!({"mode": "FORCED"})), Rule::ToolChoice),
        ("/toolConfig", calling(json!({"mode": "ANY", "allowedFunctionNames": ["g"]})), Rule::ToolChoice),
        ("/toolConfig", calling(json!({"mode": "AUTO", "allowedFunctionNames": ["f"]})), Rule::ToolChoice),
        ("/contents", json!(null), Rule::NoMessages),
        ("/contents", json!([]), Rule::NoMessages),
        ("/contents", json!("go"), Rule::Shape),
        ("/contents/0", json!(null), Rule::FirstNotUser),
        ("/contents/0/role", json!("assistant"), Rule::Role),
        ("/contents/0/parts", json!([]), Rule::EmptyMessage),
        ("/contents/0/parts/0/text", json!(""), Rule::EmptyText),
        ("/contents/0/parts/0/type", json!("text"), Rule::Shape),
        ("/contents/0/parts/0/inlineData", json!({"mimeType": "image/png", "data": "AAAA"}), Rule::Shape),
        ("/contents/0/parts/0", request()["contents"][1]["parts"][2].clone(), Rule::Role),
        ("/contents/1/parts/-", request()["contents"][2]["parts"][0].clone(), Rule::Role),
        ("/contents/1/parts/2/thoughtSignature", json!(DUMMY), Rule::Thinking),
        ("/contents/1/parts/0/thoughtSignature", json!(DUMMY), Rule::Thinking),
        ("/contents/1/parts/1/functionCall/name", json!(""), Rule::ToolName),
        ("/contents/1/parts/1/functionCall/id", json!("not legal!"), Rule::IllegalId),
        ("/contents/1/parts/1/functionCall/args", json!("{}"), Rule::Arguments),
        ("/contents/1/parts/2", json!(null), Rule::OrphanResult),
        ("/contents/2/parts/1", json!(null), Rule::UnansweredCall),
        ("/contents/2", json!(null), Rule::UnansweredCall),
        ("/contents/2/parts/0/functionResponse/name", json!("g"), Rule::OrphanResult),
        ("/contents/2/parts/0/functionResponse/id", json!("b"), Rule::OrphanResult),
        ("/contents/2/parts/0/functionResponse/response", json!("1"), Rule::Shape),
        ("/contents/3/parts/1/inlineData/data", json!("data:image/png;base64,AAAA"), Rule::Media),
        ("/contents/3/parts/1/inlineData/mimeType", json!(null), Rule::Media),
        ("/contents/3/parts/1/inlineData/mimeType", json!("image/gif"), Rule::Media),
        ("/contents/-", json!({"role": "user", "parts": [text("more")]}), Rule::SameRole),
        ("/contents/-", json!({"role": "model", "parts": [text("I was")]}), Rule::LastNotUser),
        ("/contents/3/parts/0/text", json!("a\u{0}b"), Rule::Nul),
    ];
    for (pointer, value, rule) in table {
        assert_eq!(rejected(&with(request(), pointer, value.clone())), rule, "{pointer} = {value}");
    }
    let body = with(request(), "/contents/3", json!(null));
    assert_eq!(rejected(&with(body, "/contents/2", json!(null))), Rule::LastNotUser);
}

#[test]
fn what_the_model_did_not_call_goes_by_the_documented_dummy() {
    let body = with(request(), "/contents/1/parts/1/thoughtSignature", json!(DUMMY));
    assert_eq!(check(Dialect::Gemini, &body), Ok(()));
}

#[test]
fn only_calls_of_the_current_turn_need_their_signature() {
    let body = with(request(), "/contents/1/parts/1/thoughtSignature", json!(null));
    assert_eq!(check(Dialect::Gemini, &body), Ok(()), "the user has spoken since");
    let silent = with(body.clone(), "/contents/3/parts/0", json!(null));
    assert_eq!(rejected(&silent), Rule::Thinking, "a picture after the answers is none of the user's words");
    let body = with(body, "/contents/3", json!(null));
    let violation = check(Dialect::Gemini, &body).unwrap_err();
    assert_eq!(violation.rule, Rule::Thinking);
    assert!(
        violation.message.starts_with("Function call is missing a thought_signature in functionCall parts.")
    );
}

#[test]
fn images_in_answers_are_for_gemini_3() {
    let image = json!([{"inlineData": {"mimeType": "image/png", "data": "AAAA"}}]);
    let body = with(request(), "/contents/2/parts/0/functionResponse/parts", image);
    assert_eq!(check(Dialect::Gemini, &body), Ok(()));
    let body = with(body, "/generationConfig", json!(null));
    assert_eq!(rejected(&with(body, "/model", json!("gemini-2.5-flash"))), Rule::Media);
}

#[test]
fn levels_are_for_gemini_3() {
    assert_eq!(rejected(&with(request(), "/model", json!("gemini-2.5-flash"))), Rule::ThinkingParams);
}
