//! Schemas of answers that the providers accept and reject.

use serde_json::{Value, json};
use zk_testkit::rules::{Dialect, Rule, Violation, check};

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {"n": {"type": "integer"}, "of": {"$ref": "#/$defs/thing"}},
        "required": ["n", "of"],
        "additionalProperties": false,
        "$defs": {"thing": {"type": ["string", "null"]}},
    })
}

fn with(pointer: &str, value: Value) -> Value {
    crate::rules::with(schema(), pointer, value)
}

/// Checks a request for an answer with this schema.
fn asked(dialect: Dialect, schema: &Value) -> Result<(), Violation> {
    let user = json!([{"role": "user", "content": "go"}]);
    let body = match dialect {
        Dialect::Anthropic => json!({"model": "m", "max_tokens": 10, "messages": user,
            "output_config": {"format": {"type": "json_schema", "schema": schema}}}),
        Dialect::Chat => json!({"model": "m", "messages": user,
            "response_format": {"type": "json_schema",
                "json_schema": {"name": "answer", "strict": true, "schema": schema}}}),
        Dialect::Responses => json!({"model": "m", "input": user,
            "text": {"format": {"type": "json_schema", "name": "answer", "strict": true, "schema": schema}}}),
        Dialect::Gemini => json!({"model": "gemini-2.5-flash",
            "contents": [{"role": "user", "parts": [{"text": "go"}]}],
            "generationConfig": {"responseMimeType": "application/json", "responseJsonSchema": schema}}),
        Dialect::Ollama => json!({"model": "m", "messages": user, "format": schema}),
        Dialect::Codex => panic!("it is Responses with another face"),
    };
    check(dialect, &body)
}

#[test]
fn every_provider_takes_a_schema_that_says_all_it_has_to() {
    for dialect in [Dialect::Anthropic, Dialect::Chat, Dialect::Responses, Dialect::Gemini, Dialect::Ollama] {
        assert_eq!(asked(dialect, &schema()), Ok(()), "{dialect:?}");
    }
}

#[test]
fn who_holds_strictly_refuses_what_cannot_be_held() {
    let many: Value = (0..25).map(|n| (format!("p{n}"), json!({"type": "string"}))).collect();
    let optional = with("/properties", many);
    let node = json!({"type": "object", "properties": {"next": {"$ref": "#/$defs/thing"}}, "required": ["next"],
        "additionalProperties": false});
    for (what, schema, anthropic, openai) in [
        ("free keys", with("/additionalProperties", Value::Null), false, false),
        ("no object", with("/type", json!("array")), false, false),
        ("no such definition", with("/$defs", Value::Null), false, false),
        ("a condition", with("/properties/n/not", json!({"const": 1})), false, false),
        ("alternatives by another name", with("/properties/n/oneOf", json!([])), false, false),
        ("a limit", with("/properties/n/minimum", json!(1)), false, true),
        ("an optional property", with("/required", json!(["n"])), true, false),
        ("many optional properties", crate::rules::with(optional, "/required", json!([])), false, false),
        ("recursion", with("/$defs/thing", node), false, true),
    ] {
        for (dialect, is_fine) in
            [(Dialect::Anthropic, anthropic), (Dialect::Chat, openai), (Dialect::Responses, openai)]
        {
            match asked(dialect, &schema) {
                Ok(()) => assert!(is_fine, "{dialect:?} takes {what}"),
                Err(violation) => {
                    assert!(!is_fine, "{dialect:?}: {what}: {violation}");
                    assert_eq!(violation.rule, Rule::Output, "{what}");
                }
            }
        }
    }
}

#[test]
fn before_gemini_3_a_schema_and_functions_exclude_each_other() {
    let body = |model: &str| {
        json!({"model": model,
            "contents": [{"role": "user", "parts": [{"text": "go"}]}],
            "tools": [{"functionDeclarations": [{"name": "f"}]}],
            "generationConfig": {"responseMimeType": "application/json", "responseJsonSchema": schema()}})
    };
    assert_eq!(check(Dialect::Gemini, &body("gemini-3-flash")), Ok(()));
    assert_eq!(check(Dialect::Gemini, &body("gemini-2.5-flash")).unwrap_err().rule, Rule::Output);
    let silent =
        crate::rules::with(body("gemini-3-flash"), "/generationConfig/responseMimeType", Value::Null);
    assert_eq!(check(Dialect::Gemini, &silent).unwrap_err().rule, Rule::Output);
}
