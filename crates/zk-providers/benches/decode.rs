//! How fast an answer goes from bytes to events: 2 MB of text in 100,000 pieces, in chunks of 16 KB as a
//! socket gives them. Items are events, bytes are those of the stream.
//!
//! The bar is 1,000,000 events a second for Anthropic and Chat Completions.

use divan::Bencher;
use divan::counter::{BytesCount, ItemsCount};
use zk_core::model::ModelRef;
use zk_providers::Replay;
use zk_providers::sse::SseDecoder;

const DELTAS: usize = 100_000;
const CHUNK: usize = 16 << 10;

fn main() {
    divan::main();
}

fn anthropic_stream() -> Vec<u8> {
    let mut body = String::from(
        "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"type\":\"message\",\
         \"role\":\"assistant\",\"model\":\"m\",\"content\":[],\"usage\":{\"input_tokens\":9,\"output_tokens\":1}}}\n\n\
         event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":\
         {\"type\":\"text\",\"text\":\"\"}}\n\n",
    );
    for delta in 0..DELTAS {
        body.push_str(&format!(
            "event: content_block_delta\ndata: {{\"type\":\"content_block_delta\",\"index\":0,\"delta\":\
             {{\"type\":\"text_delta\",\"text\":\"{delta:08} some words \"}}}}\n\n"
        ));
    }
    body.push_str(
        "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n\
         event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\
         \"usage\":{\"output_tokens\":100000}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
    );
    body.into_bytes()
}

fn chat_stream() -> Vec<u8> {
    let chunk = |delta: &str, finish: &str| {
        format!(
            "data: {{\"id\":\"chatcmpl-0123456789\",\"object\":\"chat.completion.chunk\",\"created\":1795218616,\
             \"model\":\"m\",\"system_fingerprint\":\"fp_0123456789\",\"choices\":[{{\"index\":0,\"delta\":{delta},\
             \"logprobs\":null,\"finish_reason\":{finish}}}],\"usage\":null}}\n\n"
        )
    };
    let mut body = chunk("{\"role\":\"assistant\",\"content\":\"\"}", "null");
    for delta in 0..DELTAS {
        body.push_str(&chunk(&format!("{{\"content\":\"{delta:08} some words \"}}"), "null"));
    }
    body.push_str(&chunk("{}", "\"stop\""));
    body.push_str("data: [DONE]\n\n");
    body.into_bytes()
}

fn gemini_stream() -> Vec<u8> {
    let chunk = |text: &str, finish: &str| {
        format!(
            "data: {{\"candidates\":[{{\"content\":{{\"parts\":[{{\"text\":\"{text}\"}}],\"role\":\"model\"}},\
             {finish}\"index\":0}}],\"usageMetadata\":{{\"promptTokenCount\":9,\"totalTokenCount\":9}},\
             \"modelVersion\":\"m\",\"responseId\":\"0123456789abcdef\"}}\r\n\r\n"
        )
    };
    let mut body = String::new();
    for delta in 0..DELTAS {
        body.push_str(&chunk(&format!("{delta:08} some words "), ""));
    }
    body.push_str(&chunk("", "\"finishReason\":\"STOP\","));
    body.into_bytes()
}

fn ollama_stream() -> Vec<u8> {
    let mut body = String::new();
    for delta in 0..DELTAS {
        body.push_str(&format!(
            "{{\"model\":\"m\",\"created_at\":\"2026-08-05T08:10:56.372032Z\",\"message\":{{\"role\":\"assistant\",\
             \"content\":\"{delta:08} some words \"}},\"done\":false}}\n"
        ));
    }
    body.push_str(
        "{\"model\":\"m\",\"message\":{\"content\":\"\"},\"done\":true,\"done_reason\":\"stop\"}\n",
    );
    body.into_bytes()
}

fn read(mut replay: Replay, body: &[u8]) -> usize {
    let mut events = 0;
    for chunk in body.chunks(CHUNK) {
        replay.feed(chunk);
        while let Ok(Some(event)) = replay.next() {
            divan::black_box(event);
            events += 1;
        }
    }
    events
}

fn bench(bencher: Bencher<'_, '_>, body: &[u8], run: impl Fn(&[u8]) -> usize + Sync) {
    bencher.counter(ItemsCount::new(DELTAS)).counter(BytesCount::new(body.len())).bench(|| {
        let events = run(divan::black_box(body));
        assert!(events > DELTAS, "every delta is an event");
    });
}

#[divan::bench(sample_count = 20)]
fn anthropic(bencher: Bencher<'_, '_>) {
    let model = ModelRef::new("anthropic", "m");
    bench(bencher, &anthropic_stream(), |body| read(Replay::anthropic(model.clone()), body));
}

#[divan::bench(sample_count = 20)]
fn chat(bencher: Bencher<'_, '_>) {
    let model = ModelRef::new("openai_compat", "m");
    bench(bencher, &chat_stream(), |body| read(Replay::chat(model.clone()), body));
}

#[divan::bench(sample_count = 20)]
fn gemini(bencher: Bencher<'_, '_>) {
    let model = ModelRef::new("gemini", "m");
    bench(bencher, &gemini_stream(), |body| read(Replay::gemini(model.clone()), body));
}

#[divan::bench(sample_count = 20)]
fn ollama(bencher: Bencher<'_, '_>) {
    let model = ModelRef::new("ollama", "m");
    bench(bencher, &ollama_stream(), |body| read(Replay::ollama(model.clone()), body));
}

#[divan::bench(sample_count = 20)]
fn events_alone(bencher: Bencher<'_, '_>) {
    bench(bencher, &anthropic_stream(), |body| {
        let mut decoder = SseDecoder::new();
        let mut events = 0;
        for chunk in body.chunks(CHUNK) {
            decoder.feed(chunk);
            while let Ok(Some(event)) = decoder.next() {
                divan::black_box(event);
                events += 1;
            }
        }
        events
    });
}
