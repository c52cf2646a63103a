//! Long answers in small pieces, as each dialect sends them.

use std::fmt;

use zk_core::model::ModelRef;
use zk_providers::Replay;

/// Dialect: its reader, and an answer of many pieces of text.
#[derive(Clone, Copy)]
pub(crate) struct Dialect {
    pub(crate) name: &'static str,
    pub(crate) reader: fn(ModelRef) -> Replay,
    pub(crate) body: fn(usize) -> Vec<u8>,
}

/// All dialects.
pub(crate) const DIALECTS: [Dialect; 5] = [
    Dialect { name: "anthropic", reader: Replay::anthropic, body: anthropic },
    Dialect { name: "chat", reader: Replay::chat, body: chat },
    Dialect { name: "gemini", reader: Replay::gemini, body: gemini },
    Dialect { name: "ollama", reader: Replay::ollama, body: ollama },
    Dialect { name: "responses", reader: Replay::responses, body: responses },
];

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl Dialect {
    pub(crate) fn replay(self) -> Replay {
        (self.reader)(ModelRef::new(self.name, "m"))
    }
}

/// Reads `body` in chunks like those of a socket; returns the number of events.
pub(crate) fn read(mut replay: Replay, body: &[u8]) -> usize {
    const CHUNK: usize = 16 << 10;
    let mut events = 0;
    for chunk in body.chunks(CHUNK) {
        replay.feed(chunk);
        while let Ok(Some(event)) = replay.next() {
            std::hint::black_box(event);
            events += 1;
        }
    }
    events
}

fn text(deltas: usize) -> impl Iterator<Item = String> {
    (0..deltas).map(|delta| format!("{delta:08} some words "))
}

fn anthropic(deltas: usize) -> Vec<u8> {
    let mut body = String::from(
        "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"type\":\"message\",\
         \"role\":\"assistant\",\"model\":\"m\",\"content\":[],\"usage\":{\"input_tokens\":9,\"output_tokens\":1}}}\n\n\
         event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":\
         {\"type\":\"text\",\"text\":\"\"}}\n\n",
    );
    for text in text(deltas) {
        body.push_str(&format!(
            "event: content_block_delta\ndata: {{\"type\":\"content_block_delta\",\"index\":0,\"delta\":\
             {{\"type\":\"text_delta\",\"text\":\"{text}\"}}}}\n\n"
        ));
    }
    body.push_str(
        "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n\
         event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\
         \"usage\":{\"output_tokens\":100000}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
    );
    body.into_bytes()
}

fn chat(deltas: usize) -> Vec<u8> {
    let chunk = |delta: &str, finish: &str| {
        format!(
            "data: {{\"id\":\"chatcmpl-0123456789\",\"object\":\"chat.completion.chunk\",\"created\":1795218616,\
             \"model\":\"m\",\"service_tier\":\"default\",\"system_fingerprint\":\"fp_0123456789\",\"choices\":[{{\"index\":0,\"delta\":{delta},\
             \"logprobs\":null,\"finish_reason\":{finish}}}],\"usage\":null}}\n\n"
        )
    };
    let mut body = chunk("{\"role\":\"assistant\",\"content\":\"\"}", "null");
    for text in text(deltas) {
        body.push_str(&chunk(&format!("{{\"content\":\"{text}\"}}"), "null"));
    }
    body.push_str(&chunk("{}", "\"stop\""));
    body.push_str("data: [DONE]\n\n");
    body.into_bytes()
}

fn gemini(deltas: usize) -> Vec<u8> {
    let chunk = |text: &str, finish: &str| {
        format!(
            "data: {{\"candidates\":[{{\"content\":{{\"parts\":[{{\"text\":\"{text}\"}}],\"role\":\"model\"}},\
             {finish}\"index\":0}}],\"usageMetadata\":{{\"promptTokenCount\":9,\"totalTokenCount\":9}},\
             \"modelVersion\":\"m\",\"responseId\":\"0123456789abcdef\"}}\r\n\r\n"
        )
    };
    let mut body: String = text(deltas).map(|text| chunk(&text, "")).collect();
    body.push_str(&chunk("", "\"finishReason\":\"STOP\","));
    body.into_bytes()
}

fn ollama(deltas: usize) -> Vec<u8> {
    let mut body = String::new();
    for text in text(deltas) {
        body.push_str(&format!(
            "{{\"model\":\"m\",\"created_at\":\"2026-08-05T08:10:56.372032Z\",\"message\":{{\"role\":\"assistant\",\
             \"content\":\"{text}\"}},\"done\":false}}\n"
        ));
    }
    body.push_str(
        "{\"model\":\"m\",\"message\":{\"content\":\"\"},\"done\":true,\"done_reason\":\"stop\"}\n",
    );
    body.into_bytes()
}

fn responses(deltas: usize) -> Vec<u8> {
    let item = "{\"id\":\"msg_0123456789\",\"type\":\"message\",\"role\":\"assistant\",\"content\":[]}";
    let mut body = format!(
        "event: response.created\ndata: {{\"type\":\"response.created\",\"sequence_number\":0,\"response\":\
         {{\"id\":\"resp_1\",\"model\":\"m\",\"output\":[]}}}}\n\n\
         event: response.output_item.added\ndata: {{\"type\":\"response.output_item.added\",\"output_index\":0,\
         \"item\":{item}}}\n\n"
    );
    for (number, text) in text(deltas).enumerate() {
        body.push_str(&format!(
            "event: response.output_text.delta\ndata: {{\"type\":\"response.output_text.delta\",\
             \"sequence_number\":{number},\"item_id\":\"msg_0123456789\",\"output_index\":0,\"content_index\":0,\
             \"delta\":\"{text}\",\"logprobs\":[],\"obfuscation\":\"0123456789\"}}\n\n"
        ));
    }
    body.push_str(&format!(
        "event: response.output_item.done\ndata: {{\"type\":\"response.output_item.done\",\"output_index\":0,\
         \"item\":{item}}}\n\nevent: response.completed\ndata: {{\"type\":\"response.completed\",\"response\":\
         {{\"id\":\"resp_1\",\"output\":[],\"usage\":{{\"input_tokens\":9,\"output_tokens\":9}}}}}}\n\n"
    ));
    body.into_bytes()
}
