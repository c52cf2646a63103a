//! Quirks of servers in the two dialects, one habit a test, read without a network.

use proptest::prelude::*;
use serde_json::{Value, json};
use zk_core::model::{
    Block, ErrorKind, ModelRef, ProviderError, StopReason, Text, Thinking, Usage, WireData,
};
use zk_core::service::StreamEvent;
use zk_providers::Replay;

type Outcome = (Vec<StreamEvent>, Option<ProviderError>);

fn replay(mut replay: Replay, chunks: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Outcome {
    let mut events = Vec::new();
    let mut drain = |replay: &mut Replay| loop {
        match replay.next() {
            Ok(Some(event)) => events.push(event),
            Ok(None) => return None,
            Err(error) => return Some(error),
        }
    };
    for chunk in chunks {
        replay.feed(chunk.as_ref());
        if let Some(error) = drain(&mut replay) {
            return (events, Some(error));
        }
    }
    replay.finish();
    let error = drain(&mut replay);
    (events, error)
}

fn model() -> ModelRef {
    ModelRef::new("p", "m")
}

fn chat(chunks: &[Value]) -> Outcome {
    let body = chunks.iter().map(|chunk| format!("data: {chunk}\n\n"));
    replay(Replay::chat(model()), body.chain(["data: [DONE]\n\n".to_owned()]))
}

fn anthropic(events: &[Value]) -> Outcome {
    replay(Replay::anthropic(model()), events.iter().map(|event| format!("data: {event}\n\n")))
}

fn delta(delta: Value) -> Value {
    let mut chunk = json!({"choices": [{"index": 0, "finish_reason": null}]});
    chunk["choices"][0]["delta"] = delta;
    chunk
}

fn finish(reason: &str) -> Value {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
}

#[test]
fn of_several_answers_only_the_one_that_began_first_is_read() {
    let of = |index: u64, text: &str, reason: Option<&str>| json!({"choices": [{"index": index, "delta": {"content": text}, "finish_reason": reason}]});
    let stop = Some("stop");
    let (events, error) =
        chat(&[of(0, "Whis", None), of(1, "Aard", None), of(1, "vark", stop), of(0, "per", Some("length"))]);
    let text = events.iter().filter_map(|event| match event {
        StreamEvent::Text { delta, .. } => Some(delta.as_str()),
        _ => None,
    });
    assert_eq!((text.collect::<String>().as_str(), error.is_none()), ("Whisper", true));
    assert!(matches!(events.last(), Some(StreamEvent::Done { stop: StopReason::MaxTokens, .. })));
}

#[test]
fn thoughts_between_tags_are_thoughts() {
    let said = ["<th", "ink>\nOne and", " one</thi", "nk>\n\n", "Two", " <think>"];
    let (events, error) =
        chat(&[&said.map(|text| delta(json!({"content": text})))[..], &[finish("stop")]].concat());
    assert!(error.is_none(), "{error:?}");
    let blocks: Vec<&Block> = events
        .iter()
        .filter_map(|event| match event {
            StreamEvent::Block { content, .. } => Some(content),
            _ => None,
        })
        .collect();
    let [Block::Thinking(thinking), Block::Text(text)] = &blocks[..] else { panic!("{blocks:?}") };
    assert_eq!((thinking.text.as_str(), text.text.as_str()), ("One and one", "Two <think>"));
    assert_eq!(thinking.origin, Some(model()));
}

#[test]
fn what_could_have_become_a_tag_stands_before_the_call_behind_it() {
    let call = json!([{"index": 0, "id": "c1", "function": {"name": "ls", "arguments": "{}"}}]);
    let said = json!({"content": "<", "tool_calls": []});
    let (events, error) = chat(&[delta(said), delta(json!({"tool_calls": call})), finish("tool_calls")]);
    assert!(error.is_none(), "{error:?}");
    let begun: Vec<u32> = events
        .iter()
        .filter_map(|event| match event {
            StreamEvent::Text { block, delta } if delta == "<" => Some(*block),
            StreamEvent::ToolCall { block, .. } => Some(*block),
            _ => None,
        })
        .collect();
    assert_eq!(begun, [0, 1]);
}

fn pieces(calls: Value) -> Value {
    let mut fields = json!({});
    fields["tool_calls"] = calls;
    delta(fields)
}

fn blocks(outcome: &Outcome) -> Vec<&Block> {
    let mut found = Vec::new();
    for event in &outcome.0 {
        if let StreamEvent::Block { content, .. } = event {
            found.push(content);
        }
    }
    found
}

fn calls(outcome: &Outcome) -> Vec<(&str, &str, Value)> {
    let mut found = Vec::new();
    for block in blocks(outcome) {
        if let Block::ToolCall(call) = block {
            let args = call.malformed.as_ref().map_or(call.args.clone(), |raw| json!({ "raw": raw }));
            found.push((call.id.as_str(), call.name.as_str(), args));
        }
    }
    found
}

fn done(outcome: &Outcome) -> (StopReason, Usage) {
    match outcome.0.last() {
        Some(StreamEvent::Done { stop, usage }) => (stop.clone(), *usage),
        other => panic!("not done: {other:?} {:?}", outcome.1),
    }
}

#[test]
fn an_id_and_a_name_in_every_piece_are_set_once() {
    let piece =
        |args: &str| pieces(json!([{"index": 0, "id": "c1", "function": {"name": "f", "arguments": args}}]));
    let outcome = chat(&[piece("{\"a\""), piece(":1"), piece("}"), finish("tool_calls")]);
    assert_eq!(calls(&outcome), [("c1", "f", json!({"a": 1}))]);
}

#[test]
fn nulls_stand_for_nothing() {
    let empty = json!({"role": null, "content": null, "function_call": null, "tool_calls": null, "refusal": null,
        "reasoning_content": null});
    let outcome = chat(&[
        json!({"id": null, "model": null, "choices": null, "usage": null}),
        delta(empty),
        delta(json!({"content": "hi"})),
        json!({"choices": [{"delta": null, "finish_reason": "stop", "usage": null}], "usage": null}),
        json!({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 1, "prompt_tokens_details": null}}),
    ]);
    assert_eq!(blocks(&outcome), [&Block::text("hi")]);
    assert_eq!(done(&outcome), (StopReason::EndTurn, Usage { input: 3, output: 1, ..Usage::default() }));
}

#[test]
fn a_new_id_begins_a_new_call_whatever_the_index_says() {
    let whole = |id: &str, index: Value| {
        pieces(json!([{"index": index, "id": id, "function": {"name": "f", "arguments": "{}"}}]))
    };
    for index in [json!(0), Value::Null] {
        let outcome = chat(&[whole("a", index.clone()), whole("b", index.clone()), finish("stop")]);
        assert_eq!(calls(&outcome), [("a", "f", json!({})), ("b", "f", json!({}))]);
        assert_eq!(done(&outcome).0, StopReason::ToolUse, "`stop` with calls is tool use");
    }
}

#[test]
fn calls_without_id_and_index_are_told_apart_by_their_names() {
    let whole = |name: &str| pieces(json!([{"function": {"name": name, "arguments": "{\"a\":1}"}}]));
    let outcome = chat(&[whole("f"), whole("g"), finish("tool_calls")]);
    let found = calls(&outcome);
    assert_eq!(found.iter().map(|(_, name, _)| *name).collect::<Vec<_>>(), ["f", "g"]);
    assert!(found[0].0 != found[1].0 && found.iter().all(|(id, ..)| !id.is_empty()));
}

#[test]
fn interleaved_pieces_find_their_calls() {
    let outcome = chat(&[
        pieces(
            json!([{"index": 0, "id": "a", "function": {"name": "f", "arguments": ""}}, {"index": 1, "id": "b", "function": {"name": "g"}}]),
        ),
        pieces(
            json!([{"index": 1, "function": {"arguments": "{\"y\":"}}, {"index": 0, "function": {"arguments": "{\"x\":1}"}}]),
        ),
        pieces(json!([{"index": 1, "id": "", "function": {"name": "", "arguments": "2}"}}])),
        finish("tool_calls"),
    ]);
    assert_eq!(calls(&outcome), [("a", "f", json!({"x": 1})), ("b", "g", json!({"y": 2}))]);
}

#[test]
fn arguments_may_be_an_object() {
    let outcome = chat(&[
        pieces(json!([{"id": "a", "function": {"name": "f", "arguments": {"x": [1]}}}])),
        finish("tool_calls"),
    ]);
    assert_eq!(calls(&outcome), [("a", "f", json!({"x": [1]}))]);
}

#[test]
fn the_old_form_of_a_call_is_understood_and_its_twin_ignored() {
    let old = |args: &str| json!({"name": "f", "arguments": args});
    let outcome = chat(&[
        delta(json!({"function_call": old("{\"a\":")})),
        delta(json!({"function_call": old("1}")})),
        finish("function_call"),
    ]);
    assert_eq!(calls(&outcome).iter().map(|call| call.2.clone()).collect::<Vec<_>>(), [json!({"a": 1})]);

    let twin = |args: &str| {
        delta(
            json!({"function_call": old(args), "tool_calls": [{"index": 0, "id": "a", "function": old(args)}]}),
        )
    };
    let outcome = chat(&[twin("{\"a\":"), twin("1}"), finish("tool_calls")]);
    assert_eq!(calls(&outcome), [("a", "f", json!({"a": 1}))]);
}

#[test]
fn usage_is_found_wherever_it_stands() {
    let counts = json!({"prompt_tokens": 10, "completion_tokens": 4, "total_tokens": 17,
        "prompt_tokens_details": {"cached_tokens": 6, "cache_write_tokens": 1},
        "completion_tokens_details": {"reasoning_tokens": 3}});
    let expected =
        Usage { input: 3, output: 7, cache_read: 6, cache_write: 1, reasoning: 3, ..Usage::default() };
    for last in [
        json!({"choices": [], "usage": counts}),
        json!({"choices": [{"delta": {}, "finish_reason": "stop"}], "usage": counts}),
        json!({"choices": [{"delta": {}, "usage": counts}]}),
        json!({"choices": [], "x_groq": {"usage": counts}}),
    ] {
        assert_eq!(done(&chat(&[delta(json!({"content": "x"})), finish("stop"), last])).1, expected);
    }
    for (counts, cache_read) in [
        (json!({"prompt_tokens": 5, "completion_tokens": 1, "prompt_cache_hit_tokens": 4}), 4),
        (json!({"prompt_tokens": 5, "completion_tokens": 1, "cached_tokens": 2}), 2),
        (json!({"prompt_tokens": 5.0, "completion_tokens": 1}), 0),
    ] {
        let usage = done(&chat(&[finish("stop"), json!({"choices": [], "usage": counts})])).1;
        assert_eq!((usage.input, usage.cache_read), (5 - cache_read, cache_read));
    }
}

#[test]
fn reasoning_is_read_from_every_field_it_comes_in() {
    let twice = json!({"reasoning": "hm", "reasoning_content": "hm"});
    for thought in [
        json!({"reasoning_content": "hm"}),
        json!({"reasoning": "hm"}),
        json!({"reasoning_text": "hm"}),
        twice,
        json!({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]}),
    ] {
        let outcome = chat(&[
            delta(thought),
            delta(json!({"content": [{"type": "text", "text": "so"}]})),
            finish("stop"),
        ]);
        let thinking =
            Block::Thinking(Thinking { text: "hm".into(), origin: Some(model()), ..Thinking::default() });
        assert_eq!(blocks(&outcome), [&thinking, &Block::text("so")]);
    }
}

#[test]
fn reasons_mean_the_same_under_all_their_names() {
    for (reason, expected) in [
        ("stop", StopReason::EndTurn),
        ("end", StopReason::EndTurn),
        ("eos", StopReason::EndTurn),
        ("length", StopReason::MaxTokens),
        ("model_length", StopReason::MaxTokens),
        ("content_filter", StopReason::Refusal(None)),
        ("model_context_window_exceeded", StopReason::ContextExceeded),
        ("something_new", StopReason::Other("something_new".into())),
    ] {
        assert_eq!(done(&chat(&[delta(json!({"content": "x"})), finish(reason)])).0, expected);
    }
    for reason in ["error", "network_error", "insufficient_system_resource"] {
        let (_, error) = chat(&[delta(json!({"content": "x"})), finish(reason)]);
        assert_eq!(error.map(|error| error.kind), Some(ErrorKind::Overloaded));
    }
}

#[test]
fn a_refusal_is_the_reason_and_not_the_answer() {
    let outcome =
        chat(&[delta(json!({"refusal": "I "})), delta(json!({"refusal": "won't"})), finish("stop")]);
    assert_eq!(done(&outcome).0, StopReason::Refusal(Some("I won't".into())));
    assert!(blocks(&outcome).is_empty());
}

#[test]
fn an_error_in_the_middle_ends_the_answer() {
    for chunk in [
        json!({"error": {"code": 502, "message": "upstream"}, "choices": [{"delta": {"content": ""}, "finish_reason": "error"}]}),
        json!({"error": "upstream"}),
        json!({"choices": [{"delta": {}, "error": {"code": 502, "message": "upstream"}}]}),
    ] {
        let (events, error) = chat(&[delta(json!({"content": "x"})), chunk]);
        assert_eq!(
            error.map(|error| (error.kind, error.message)),
            Some((ErrorKind::Overloaded, "upstream".into()))
        );
        assert_eq!(events.len(), 2, "what came before was handed out");
    }
}

#[test]
fn a_call_without_arguments_is_complete_unless_the_limit_cut_it() {
    for (reason, expected) in [("tool_use", json!({})), ("max_tokens", json!({"raw": ""}))] {
        let outcome = anthropic(&[
            json!({"type": "message_start", "message": {"model": "m"}}),
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "a", "name": "f", "input": {}}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": ""}}),
            json!({"type": "content_block_stop", "index": 0}),
            json!({"type": "message_delta", "delta": {"stop_reason": reason}}),
            json!({"type": "message_stop"}),
        ]);
        assert_eq!(calls(&outcome), [("a", "f", expected)]);
    }
}

#[test]
fn unknown_events_blocks_and_reasons_are_no_errors() {
    let outcome = anthropic(&[
        json!({"type": "message_start", "message": {}}),
        json!({"type": "weather_report", "sky": "clear"}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "hologram", "rays": [1]}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "ray_delta", "ray": 2}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": "seen"}}),
        json!({"type": "content_block_delta", "index": 1, "delta": {"type": "citations_delta", "citation": {}}}),
        json!({"type": "content_block_stop", "index": 1}),
        json!({"type": "message_delta", "delta": {"stop_reason": "bored"}, "usage": {"output_tokens": null}}),
        json!({"type": "message_stop"}),
    ]);
    let hologram = json!({"type": "hologram", "rays": [1], "ray": 2});
    let cited = WireData { origin: model(), data: json!({"citations": [{}]}) };
    let seen = Block::Text(Text { text: "seen".into(), wire: Some(cited) });
    assert_eq!(blocks(&outcome), [&Block::provider("hologram", &model(), hologram), &seen]);
    assert_eq!(done(&outcome).0, StopReason::Other("bored".into()));
}

#[test]
fn the_kind_of_an_event_may_come_last_or_only_in_its_name() {
    let body = "data: {\"message\":{\"model\":\"m\"},\"type\":\"message_start\"}\n\n\
        event: content_block_start\ndata: {\"index\":0,\"content_block\":{\"text\":\"\",\"type\":\"text\"}}\n\n\
        data: {\"index\":0,\"delta\":{\"text\":\"hi\",\"type\":\"text_delta\"},\"type\":\"content_block_delta\"}   \n\n\
        data: {\"index\":0,\"type\":\"content_block_stop\"}\n\ndata: {\"type\":\"message_stop\"}\n\n";
    let outcome = replay(Replay::anthropic(model()), [body]);
    assert_eq!(blocks(&outcome), [&Block::text("hi")]);
}

#[test]
fn later_counts_replace_earlier_ones_and_nulls_replace_nothing() {
    let outcome = anthropic(&[
        json!({"type": "message_start", "message": {"usage": {"input_tokens": 5, "cache_read_input_tokens": 7, "output_tokens": 1}}}),
        json!({"type": "message_delta", "delta": {}, "usage": {"input_tokens": null, "output_tokens": 4}}),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"},
            "usage": {"input_tokens": 9, "output_tokens": 6, "output_tokens_details": {"thinking_tokens": 2}}}),
        json!({"type": "message_stop"}),
    ]);
    let expected =
        Usage { input: 9, output: 6, cache_read: 7, cache_write: 0, reasoning: 2, ..Usage::default() };
    assert_eq!(done(&outcome).1, expected);
}

/// Generated streams with many relevant words, and many invalid streams.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let words = [
        "data: ",
        "\n\n",
        "{\"type\":\"content_block_delta\",\"index\":0,\"delta\":",
        "{\"type\":\"message_start\",\"message\":{}}",
        "{\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"tool_use\",\"id\":\"a\",\"name\":\"f\"}}",
        "{\"partial_json\":\"{\\\"a\\\"\"}}",
        "{\"choices\":[{\"delta\":",
        "{\"tool_calls\":[{\"index\":0,",
        "\"id\":\"a\",",
        "\"function\":{\"name\":\"f\",\"arguments\":\"{\"}}]}",
        "}]}",
        "{\"content\":\"x\"}",
        "\"finish_reason\":\"length\"",
        "[DONE]",
        "{\"type\":\"message_stop\"}",
        "null",
        ",",
        "{\"error\":{\"message\":\"x\"}}",
    ];
    let word = proptest::sample::select(words.map(str::as_bytes).map(<[u8]>::to_vec).to_vec());
    let noise = proptest::collection::vec(any::<u8>(), 0..8);
    proptest::collection::vec(prop_oneof![6 => word, 1 => noise], 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_bytes_can_bring_a_decoder_down(bytes in bytes()) {
        for new in [Replay::anthropic, Replay::chat] {
            let (events, error) = replay(new(model()), [&bytes]);
            let ends = events.iter().filter(|event| matches!(event, StreamEvent::Done { .. })).count();
            prop_assert_eq!(ends + usize::from(error.is_some()), 1, "one end, {:?}", error);
        }
    }
}
