//! Every profile has its proof: a response of its server, read and answered as that server wants it.

use std::sync::Arc;

use serde_json::{Value, json};
use zk_core::kernel::Bus;
use zk_core::model::{Block, Message, ThinkingLevel, ThinkingRequest, ToolSpec};
use zk_core::service::{Provider, Request, ToolChoice};
use zk_providers::{Compat, CompatProfile, Connection, PROFILES};

use crate::collect::{Answer, collect, question, request};
use crate::fixtures;
use crate::recordings::naive;
use crate::server::{Received, Reply, Server};

const OK: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"ok\"},\"finish_reason\":\"stop\"}]}\n\n";

pub(crate) fn provider(url: &str, profile: CompatProfile) -> Box<dyn Provider> {
    Box::new(Compat::new(Connection::at(url), profile).expect("a valid connection"))
}

/// Returns the request as a profile makes it.
pub(crate) async fn sent(profile: &CompatProfile, build: impl Fn(&dyn Provider) -> Request) -> Received {
    let server = Server::start([Reply::sse(OK)]).await;
    let provider = provider(&server.url, profile.clone());
    collect(provider.stream(build(&*provider), &Bus::new().cx())).await.expect("the server answers");
    server.received().remove(0)
}

/// Source of a row's response.
enum Proof {
    /// Recorded, in this file: its first stream with thoughts, or its first.
    Recorded(&'static str),
    /// Written by hand from the vendor's documentation, without a recording.
    Synthetic(Vec<Value>),
}

struct Row {
    profile: &'static str,
    model: &'static str,
    proof: Proof,
    /// Required parts of the following request; `null` for fields that must be absent.
    body: Value,
    /// Required parts of its assistant message; `"…"` is the received reasoning.
    assistant: Value,
    headers: &'static [(&'static str, &'static str)],
}

/// Thinking in this field, then a call, in the chunks of most servers.
fn thinks_in(field: &str) -> Vec<Value> {
    let delta = |delta: Value| json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]});
    let mut thought = json!({"role": "assistant", "content": null});
    thought[field] = "Which one?".into();
    let call = |args: &str| json!({"tool_calls": [{"index": 0, "function": {"arguments": args}}]});
    let begin = json!({"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": {"name": "now", "arguments": ""}}]});
    let usage = json!({"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14});
    vec![
        delta(thought),
        delta(begin),
        delta(call("{\"a\":")),
        delta(call("1}")),
        json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}),
        json!({"choices": [], "usage": usage, "time_info": {"queue_time": 0.1}}),
    ]
}

/// Chunks of thinking and a call, with the usage at Moonshot's position.
fn usage_in_the_choice() -> Vec<Value> {
    let mut chunks = thinks_in("reasoning_content");
    let usage = chunks.pop().expect("the last chunk")["usage"].take();
    chunks.last_mut().expect("a chunk")["choices"][0]["usage"] = usage;
    chunks
}

#[expect(clippy::too_many_lines, reason = "it is a table")]
fn rows() -> Vec<Row> {
    use Proof::{Recorded, Synthetic};
    let row =
        |profile, model, proof, body, assistant| Row { profile, model, proof, body, assistant, headers: &[] };
    let all = |is_on: bool| json!({"enable_thinking": is_on, "thinking": is_on});
    vec![
        row(
            "openai_compat",
            "claude-haiku-4-5-20251001",
            Recorded(
                "vercel-ai/packages/openai-compatible/src/chat/__fixtures__/anthropic-fallback-tool-call.sse",
            ),
            json!({"tool_choice": "required", "max_tokens": 4096, "stream_options": {"include_usage": true}}),
            json!({"reasoning": null, "reasoning_content": null, "reasoning_details": null}),
        ),
        row(
            "openai",
            "gpt-4o",
            Recorded(
                "rig/tests/cassettes/openai/completions_api/completions_api_raw_followup_uses_tool_result_without_new_tool_calls.yaml",
            ),
            json!({"store": false, "max_completion_tokens": 4096, "max_tokens": null, "prompt_cache_key": "s_1"}),
            json!({"reasoning_content": null}),
        ),
        Row {
            headers: &[
                ("http-referer", "https://github.com/zk-agent/zk"),
                ("x-title", "zk"),
                ("x-session-id", "s_1"),
            ],
            ..row(
                "openrouter",
                "anthropic/claude-haiku-4.5",
                Recorded(
                    "rig/tests/cassettes/openrouter/reasoning_tool_order_matrix/streaming_signed_agent_roundtrip.yaml",
                ),
                json!({"reasoning": {"effort": "high"}, "tool_choice": "required", "reasoning_effort": null}),
                json!({"reasoning": null, "reasoning_content": null, "reasoning_details": [{
                    "type": "reasoning.text", "index": 0, "format": "anthropic-claude-v1", "text": "…",
                    "signature": "signature_REDACTED_1",
                }]}),
            )
        },
        row(
            "cerebras",
            "gpt-oss-120b",
            Synthetic(thinks_in("reasoning")),
            json!({"reasoning_effort": "high", "max_completion_tokens": 4096, "store": null, "reasoning_format": null}),
            json!({"reasoning": "…"}),
        ),
        row(
            "groq",
            "qwen/qwen3-32b",
            Recorded("vercel-ai/packages/groq/src/__fixtures__/groq-reasoning.chunks.txt"),
            json!({"reasoning_format": "parsed", "max_completion_tokens": 4096}),
            json!({"reasoning": null}),
        ),
        row(
            "deepseek",
            "deepseek-v4-flash",
            Recorded("rig/tests/cassettes/deepseek/reasoning_tool_roundtrip/streaming.yaml"),
            // A forced call ends the thinking.
            json!({"thinking": {"type": "disabled"}, "tool_choice": "required", "reasoning_effort": null}),
            json!({"reasoning_content": "…"}),
        ),
        row(
            "mistral",
            "magistral-medium-latest",
            Recorded("vercel-ai/packages/mistral/src/__fixtures__/mistral-reasoning.chunks.txt"),
            json!({"tool_choice": "any", "stream_options": null, "max_tokens": 4096}),
            json!({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "…"}]}, "+"]}),
        ),
        Row {
            headers: &[("x-grok-conv-id", "s_1")],
            ..row(
                "xai",
                "grok-3-mini",
                Recorded("vercel-ai/packages/xai/src/__fixtures__/xai-tool-call.chunks.txt"),
                json!({"max_completion_tokens": 4096, "reasoning_effort": "high"}),
                json!({"reasoning_content": null}),
            )
        },
        row(
            "zai",
            "glm-5.2",
            Synthetic(thinks_in("reasoning_content")),
            json!({"thinking": {"type": "enabled"}, "tool_stream": true, "tool_choice": null}),
            json!({"reasoning_content": "…"}),
        ),
        row(
            "moonshot",
            "kimi-k2.6",
            Synthetic(usage_in_the_choice()),
            json!({"thinking": {"type": "disabled"}, "prompt_cache_key": "s_1", "max_tokens": 4096}),
            json!({"reasoning_content": "…"}),
        ),
        Row {
            headers: &[("x-session-affinity", "s_1")],
            ..row(
                "fireworks",
                "accounts/fireworks/models/glm-5p3",
                Synthetic(thinks_in("reasoning_content")),
                json!({"reasoning_effort": "high"}),
                json!({"reasoning_content": "…"}),
            )
        },
        row(
            "baseten",
            "moonshotai/Kimi-K3",
            Synthetic(thinks_in("reasoning_content")),
            json!({"chat_template_args": all(true)}),
            json!({"reasoning_content": "…"}),
        ),
        row(
            "together",
            "Qwen/Qwen3.5-9B",
            Synthetic(thinks_in("reasoning")),
            json!({"reasoning": {"enabled": true}}),
            json!({"reasoning": "…"}),
        ),
        row(
            "huggingface",
            "deepseek-ai/DeepSeek-V3.2",
            Synthetic(thinks_in("reasoning_content")),
            json!({"reasoning_effort": "high"}),
            json!({"reasoning_content": null, "reasoning": null}),
        ),
        row(
            "nvidia",
            "moonshotai/kimi-k2.6",
            Synthetic(thinks_in("reasoning_content")),
            json!({"chat_template_kwargs": all(true)}),
            json!({"reasoning_content": null}),
        ),
        row(
            "vllm",
            "Qwen/Qwen3-8B",
            Synthetic(thinks_in("reasoning")),
            json!({"chat_template_kwargs": all(true), "tool_choice": "required"}),
            json!({"reasoning": "…"}),
        ),
        row(
            "lmstudio",
            "qwen3-8b",
            Synthetic(thinks_in("reasoning_content")),
            json!({"tool_choice": "required", "reasoning_effort": "high"}),
            json!({"reasoning_content": null}),
        ),
        row(
            "llama.cpp",
            "Qwen3-1.7B-Q4_K_M",
            Recorded(
                "rig/tests/cassettes/llamacpp/streaming_tools/streaming_tools_emit_tool_call_before_later_text.yaml",
            ),
            json!({"chat_template_kwargs": all(true)}),
            json!({"reasoning_content": "…"}),
        ),
    ]
}

fn body_of(chunks: &[Value]) -> String {
    chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).chain(["data: [DONE]\n\n".to_owned()]).collect()
}

/// Response of a row in bytes; `None` if its recording is missing.
fn response(row: &Row) -> Option<String> {
    match &row.proof {
        Proof::Synthetic(chunks) => Some(body_of(chunks)),
        Proof::Recorded(file) => {
            let streams = fixtures::below(file, "")?;
            let is_stream = |body: &str| body.starts_with("data:") || body.starts_with(':');
            let bodies = streams.into_iter().filter(|item| item.status == 200).map(|item| item.body);
            let bodies: Vec<String> = bodies.filter(|body| is_stream(body)).collect();
            let thinks = |body: &&String| !naive::chat(body).thinking.is_empty();
            let found = bodies.iter().find(thinks).or(bodies.first()).cloned();
            Some(found.unwrap_or_else(|| panic!("{file} holds no stream")))
        }
    }
}

/// Request that continues after `answer`.
fn next(provider: &dyn Provider, model: &str, answer: &Answer) -> Request {
    let results = answer.calls.iter().map(|(id, ..)| Block::result(id.as_str(), "12:00", false));
    let history = [
        Message::user_text("begin").shared(),
        Message::assistant(answer.blocks.clone()).shared(),
        Message::user(results.chain([Block::text("go on")]).collect()).shared(),
    ];
    let tools: Arc<[_]> =
        [ToolSpec::new("now", "The time.", json!({"type": "object", "properties": {}}))].into();
    Request {
        system: "Be brief.".into(),
        tools,
        tool_choice: ToolChoice::Required,
        thinking: ThinkingRequest { level: ThinkingLevel::High, budget: None },
        session: Some("s_1".into()),
        ..request(provider, model, &history)
    }
}

/// Whether `actual` contains `expected`, with `"…"` for the reasoning and `"+"` for any value.
fn has(actual: &Value, expected: &Value, reasoning: &str) -> bool {
    match expected {
        Value::String(word) if word == "…" => *actual == reasoning,
        Value::String(word) if word == "+" => !actual.is_null(),
        Value::Object(fields) => fields.iter().all(|(name, value)| has(&actual[name], value, reasoning)),
        Value::Array(items) => {
            let found = actual.as_array().map(Vec::as_slice).unwrap_or_default();
            found.len() == items.len()
                && items.iter().zip(found).all(|(item, found)| has(found, item, reasoning))
        }
        other => actual == other,
    }
}

#[test]
fn every_profile_names_its_proof() {
    let proven: Vec<&str> = rows().iter().map(|row| row.profile).collect();
    for profile in PROFILES {
        let count = proven.iter().filter(|name| **name == profile.name).count();
        assert_eq!(count, 1, "{}: a row of the table needs one row here", profile.name);
    }
    assert_eq!(proven.len(), PROFILES.len(), "a proof of no profile");
}

#[tokio::test]
async fn every_profile_reads_its_proof_and_goes_on_from_there() {
    let mut wrong = Vec::new();
    for row in rows() {
        let profile = CompatProfile::named(row.profile).expect("it is in the table");
        let Some(body) = response(&row) else { continue };
        let server = Server::start([Reply::sse(&body)]).await;
        let provider = provider(&server.url, profile.clone());
        let stream = provider.stream(question(&*provider, row.model), &Bus::new().cx());
        let answer = match collect(stream).await {
            Ok(answer) => answer,
            Err((error, _)) => {
                wrong.push(format!("{}: {error}", row.profile));
                continue;
            }
        };
        let read = Answer { blocks: Vec::new(), ..answer.clone() };
        assert_eq!(read, naive::chat(&body), "{}", row.profile);

        let received = sent(&profile, |provider| next(provider, row.model, &answer)).await;
        let body = received.json();
        let assistant =
            body["messages"].as_array().and_then(|all| all.iter().find(|one| one["role"] == "assistant"));
        let assistant = assistant.expect("the answer goes back");
        if !has(&body, &row.body, &answer.thinking) || !has(assistant, &row.assistant, &answer.thinking) {
            wrong.push(format!("{}: {:#}", row.profile, body));
        }
        for (name, value) in row.headers {
            assert_eq!(received.header(name), Some(*value), "{} {name}", row.profile);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
