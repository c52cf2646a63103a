//! Answers of single vendors, one habit a test.

use serde_json::{Value, json};
use zk_core::kernel::Bus;
use zk_core::model::{ErrorKind, Model, ProviderError, StopReason};
use zk_core::service::StreamEvent;
use zk_providers::Replay;

use crate::collect::{collect, question};
use crate::server::{Reply, Server};
use crate::vendor_quirks::profile;
use crate::vendors::provider;

pub(crate) fn read(
    name: &str,
    window: Option<u64>,
    chunks: &[Value],
) -> Result<Vec<StreamEvent>, ProviderError> {
    let model = Model { window, ..Model::unknown("p", "m") };
    let mut replay = Replay::compat(&model, &profile(name));
    for chunk in chunks {
        replay.feed(format!("data: {chunk}\n\n").as_bytes());
    }
    replay.finish();
    let mut events = Vec::new();
    while let Some(event) = replay.next()? {
        events.push(event);
    }
    Ok(events)
}

fn stop(events: &[StreamEvent]) -> Option<&StopReason> {
    match events.last() {
        Some(StreamEvent::Done { stop, .. }) => Some(stop),
        _ => None,
    }
}

pub(crate) fn chunk(delta: Value, finish: Option<&str>) -> Value {
    let mut chunk = json!({"choices": [{"index": 0, "finish_reason": finish}]});
    chunk["choices"][0]["delta"] = delta;
    chunk
}

#[test]
fn text_that_is_only_in_the_details_is_read() {
    let delta = json!({"reasoning_details": [{"type": "reasoning.summary", "index": 0, "summary": "hm"}]});
    let events = read("openrouter", None, &[chunk(delta, Some("stop"))]).expect("a response");
    assert!(events.contains(&StreamEvent::Thinking { block: 0, delta: "hm".into() }), "{events:?}");
}

#[test]
fn an_error_beside_its_code_keeps_the_code() {
    let error =
        read("xai", None, &[json!({"code": "invalid-argument", "error": "no such thing"})]).unwrap_err();
    assert_eq!((error.code.as_deref(), &*error.message), (Some("invalid-argument"), "no such thing"));
}

#[tokio::test]
async fn a_call_groq_could_not_read_is_worth_a_retry() {
    let error = json!({"error": {"message": "Failed to call a function.", "type": "invalid_request_error",
        "code": "tool_use_failed", "failed_generation": "<function=now>\nprompt is too long"}});
    let in_stream = read("groq", None, &[chunk(json!({"content": "x"}), None), error.clone()]).unwrap_err();
    let server = Server::start([Reply::json("400 Bad Request", error.to_string())]).await;
    let provider = provider(&server.url, profile("groq"));
    let stream = provider.stream(question(&*provider, "m"), &Bus::new().cx());
    let (at_once, _) = collect(stream).await.expect_err("an error status is an error");
    for error in [in_stream, at_once] {
        assert_eq!((error.code.as_deref(), error.should_retry), (Some("tool_use_failed"), Some(true)));
        assert_ne!(error.kind, ErrorKind::ContextExceeded, "that is what the model wrote");
        assert!(error.message.contains("The model wrote: <function=now> prompt is too long"), "{error}");
    }
}

#[test]
fn a_full_window_is_seen_however_it_is_said() {
    let said = |usage: u64| {
        let usage = json!({"prompt_tokens": usage, "completion_tokens": 2});
        let mut last = chunk(json!({"content": "hm"}), Some("stop"));
        last["usage"] = usage;
        last
    };
    let silent = read("zai", Some(100), &[said(101)]).expect("a response");
    assert_eq!(stop(&silent), Some(&StopReason::ContextExceeded));
    for fits in [read("zai", Some(100), &[said(97)]), read("deepseek", Some(100), &[said(101)])] {
        assert_eq!(stop(&fits.expect("a response")), Some(&StopReason::EndTurn));
    }
    let mut native = chunk(json!({"content": "hm"}), Some("length"));
    native["choices"][0]["native_finish_reason"] = "model_context_window_exceeded".into();
    let native = read("openrouter", None, &[native]).expect("a response");
    assert_eq!(stop(&native), Some(&StopReason::ContextExceeded));
    for (input, output, expected) in
        [(99, 0, StopReason::ContextExceeded), (98, 0, StopReason::MaxTokens), (99, 1, StopReason::MaxTokens)]
    {
        let mut last = chunk(json!({"content": ""}), Some("length"));
        last["usage"] = json!({"prompt_tokens": input, "completion_tokens": output});
        let ended = read("openai_compat", Some(100), &[last]).expect("a response");
        assert_eq!(stop(&ended), Some(&expected), "{input} in, {output} out");
    }
    let error = json!({"error": {"code": "1261", "message": "Prompt 超长"}});
    assert_eq!(read("zai", None, &[error]).unwrap_err().kind, ErrorKind::ContextExceeded);
}

#[test]
fn an_answer_that_ends_in_an_error_says_which() {
    let mut last = chunk(json!({"content": ""}), Some("error"));
    last["choices"][0]["native_finish_reason"] = "MALFORMED_FUNCTION_CALL".into();
    let error = read("openrouter", None, &[chunk(json!({"content": "x"}), None), last]).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Overloaded);
    assert!(error.message.contains("`error` (`MALFORMED_FUNCTION_CALL`)"), "{error}");
    let refused =
        read("zai", None, &[chunk(json!({"content": "x"}), Some("sensitive"))]).expect("a response");
    assert_eq!(stop(&refused), Some(&StopReason::Refusal(None)));
}

#[test]
fn a_second_end_changes_nothing_but_the_counts() {
    let mut last = chunk(json!({"content": "", "role": "assistant"}), Some("tool_calls"));
    last["usage"] = json!({"prompt_tokens": 7, "completion_tokens": 3, "cost": 0.1, "is_byok": false});
    let call =
        json!({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "now", "arguments": "{}"}}]});
    let events = read("openrouter", None, &[chunk(call, None), chunk(json!({}), Some("tool_calls")), last]);
    match events.expect("a response").last() {
        Some(StreamEvent::Done { stop: StopReason::ToolUse, usage }) => {
            assert_eq!((usage.input, usage.output, usage.billed), (7, 3, Some(100_000_000)));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_a_gateway_bills_holds_what_the_vendor_takes_from_ones_own_key() {
    for (usage, billed) in [
        (json!({"cost": 0.001_25, "cost_details": {"upstream_inference_cost": 0.001}}), Some(1_250_000)),
        (
            json!({"cost": 0.0005, "is_byok": true, "cost_details": {"upstream_inference_cost": 0.01}}),
            Some(10_500_000),
        ),
        (json!({"cost": 0}), Some(0)),
        (json!({"cost": null}), None),
        (json!({"cost": {"total": 1}}), None),
        (json!({}), None),
    ] {
        let mut last = chunk(json!({"content": "hm"}), Some("stop"));
        last["usage"] = json!({"prompt_tokens": 1, "completion_tokens": 1});
        last["usage"]
            .as_object_mut()
            .expect("an object")
            .extend(usage.as_object().cloned().expect("an object"));
        let events = read("openrouter", None, &[last]).expect("a response");
        let Some(StreamEvent::Done { usage: counted, .. }) = events.last() else { panic!("{events:?}") };
        assert_eq!(counted.billed, billed, "{usage}");
    }
}

#[tokio::test]
async fn the_names_vendors_give_to_requests_are_kept() {
    for (vendor, header) in
        [("openai", "x-request-id"), ("openrouter", "X-Generation-Id"), ("mistral", "mistral-correlation-id")]
    {
        let head = format!("content-type: application/json\r\n{header}: id-1\r\n");
        let server = Server::start([Reply::new("400 Bad Request", &head, "{\"error\":\"no\"}")]).await;
        let provider = provider(&server.url, profile(vendor));
        let stream = provider.stream(question(&*provider, "m"), &Bus::new().cx());
        let (error, _) = collect(stream).await.expect_err("an error status is an error");
        assert_eq!(error.request_id.as_deref(), Some("id-1"), "{vendor}");
    }
}
