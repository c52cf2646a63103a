use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};

/// Time for which a reply that hangs says nothing.
const HANG: Duration = Duration::from_secs(60);

/// Models that the server lists.
const MODELS: [&str; 3] = ["claude-opus-5", "claude-sonnet-5-5", "claude-haiku-5"];

/// Reply of the model.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reply {
    /// Words that end the turn.
    Say(&'static str),
    /// Words, and calls of tools with their arguments in JSON.
    Call(&'static str, &'static [(&'static str, &'static str)]),
    /// Words after which nothing comes.
    Hang(&'static str),
}

/// A model that gives its replies in their order, over the protocol of Anthropic.
#[derive(Debug)]
pub(crate) struct ScriptedModel {
    url: String,
}

impl ScriptedModel {
    /// Serves until the program ends.
    pub(crate) fn begin(replies: &'static [Reply]) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).context("no port for the scripted model")?;
        let url = format!("http://{}", listener.local_addr()?);
        std::thread::spawn(move || {
            let mut replies = replies.iter();
            for stream in listener.incoming().flatten() {
                // A connection that breaks is the program's affair.
                let _ = answer(stream, &mut replies);
            }
        });
        Ok(Self { url })
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }
}

fn answer(mut stream: TcpStream, replies: &mut std::slice::Iter<'static, Reply>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut first = String::new();
    reader.read_line(&mut first)?;
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 || line.trim().is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    if first.starts_with("GET") {
        let models: Vec<Value> =
            MODELS.iter().map(|id| json!({"type": "model", "id": id, "display_name": id})).collect();
        let list = json!({"data": models, "has_more": false}).to_string();
        return write!(
            stream,
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{list}",
            list.len()
        );
    }
    let reply = replies.next().copied().unwrap_or(Reply::Say("Done."));
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")?;
    stream.write_all(events(reply, length).as_bytes())?;
    stream.flush()?;
    if matches!(reply, Reply::Hang(_)) {
        std::thread::spawn(move || {
            std::thread::sleep(HANG);
            drop(stream);
        });
    }
    Ok(())
}

/// The events of a reply to a request of so many bytes.
fn events(reply: Reply, length: usize) -> String {
    let (text, calls): (&str, &[(&str, &str)]) = match reply {
        Reply::Say(text) | Reply::Hang(text) => (text, &[]),
        Reply::Call(text, calls) => (text, calls),
    };
    let usage = json!({"input_tokens": length / 4, "output_tokens": 1});
    let message = json!({"id": "msg_1", "type": "message", "role": "assistant", "content": [],
        "model": "claude-sonnet-5-5", "stop_reason": null, "stop_sequence": null, "usage": usage});
    let mut out = event(&json!({"type": "message_start", "message": message}));
    let mut index = 0;
    if !text.is_empty() {
        out += &event(
            &json!({"type": "content_block_start", "index": index, "content_block": {"type": "text", "text": ""}}),
        );
        let delta = json!({"type": "text_delta", "text": text});
        out += &event(&json!({"type": "content_block_delta", "index": index, "delta": delta}));
        if matches!(reply, Reply::Hang(_)) {
            return out;
        }
        out += &event(&json!({"type": "content_block_stop", "index": index}));
        index += 1;
    }
    for (tool, args) in calls {
        let block =
            json!({"type": "tool_use", "id": format!("toolu_{length}_{index}"), "name": tool, "input": {}});
        out += &event(&json!({"type": "content_block_start", "index": index, "content_block": block}));
        let delta = json!({"type": "input_json_delta", "partial_json": args});
        out += &event(&json!({"type": "content_block_delta", "index": index, "delta": delta}));
        out += &event(&json!({"type": "content_block_stop", "index": index}));
        index += 1;
    }
    let stop = if calls.is_empty() { "end_turn" } else { "tool_use" };
    let delta = json!({"stop_reason": stop, "stop_sequence": null});
    out += &event(
        &json!({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 24 + text.len() / 4}}),
    );
    out + &event(&json!({"type": "message_stop"}))
}

fn event(data: &Value) -> String {
    let name = data.get("type").and_then(Value::as_str).unwrap_or_default();
    format!("event: {name}\ndata: {data}\n\n")
}
