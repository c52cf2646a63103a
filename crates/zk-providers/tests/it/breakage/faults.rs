//! Faults, and what has to come of them.

use std::io::Write;
use std::time::{Duration, SystemTime};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use zk_core::model::ErrorKind;

use super::streams::{Sample, ends};
use crate::recordings::Dialect;
use crate::server::Reply;

/// Required end of a broken answer.
#[derive(Clone, Debug)]
pub(crate) enum Expect {
    /// As the unbroken one.
    Whole,
    /// As the unbroken one, but for the counts of tokens.
    WithoutUsage,
    /// Error of one of these classes.
    Fails(&'static [ErrorKind]),
    /// Equal to the unbroken answer except token counts, or an error of one of these classes: the network
    /// decides how much arrived before the fault.
    WholeOr(&'static [ErrorKind]),
    /// Partial answer, or an error of one of these classes: a false end was announced.
    PartOr(&'static [ErrorKind]),
}

/// One answer of the server.
pub(crate) struct Case {
    pub(crate) fault: &'static str,
    pub(crate) reply: Reply,
    pub(crate) expect: Expect,
    /// Retry time of the error.
    pub(crate) wait: Option<Duration>,
    /// Whether the server keeps quiet until a clock runs out.
    pub(crate) stalls: bool,
}

impl Case {
    fn new(fault: &'static str, reply: Reply, expect: Expect) -> Self {
        Self { fault, reply, expect, wait: None, stalls: false }
    }
}

const PAUSE: Duration = Duration::from_millis(5);

/// One HTTP chunk.
fn chunk(bytes: &str) -> String {
    format!("{:x}\r\n{bytes}\r\n", bytes.len())
}

fn chunked(dialect: Dialect) -> Reply {
    let kind = dialect.media_type();
    let headers = format!("content-type: {kind}\r\nrequest-id: req_test\r\ntransfer-encoding: chunked\r\n");
    Reply::new("200 OK", &headers, "")
}

fn ping(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Anthropic => "event: ping\ndata: {\"type\":\"ping\"}\n\n",
        Dialect::Ollama => "\n",
        Dialect::Chat | Dialect::Responses | Dialect::Gemini => ": keep-alive\n\n",
    }
}

/// Fault in the bytes themselves.
pub(crate) struct Broken {
    pub(crate) fault: &'static str,
    pub(crate) body: Vec<u8>,
    pub(crate) expect: Expect,
}

/// Expects a whole answer if only the end is missing, and otherwise an error of the class.
fn or_whole(sample: &Sample, at: usize, class: &'static [ErrorKind]) -> Expect {
    match sample.is_complete(at) {
        _ if sample.is_open(at) => Expect::PartOr(class),
        true if at == sample.events.len() => Expect::Whole,
        true => Expect::WithoutUsage,
        false => Expect::Fails(class),
    }
}

fn or_lost(sample: &Sample, at: usize, class: &'static [ErrorKind]) -> Expect {
    match sample.is_complete(at) {
        _ if sample.is_open(at) => Expect::PartOr(class),
        true => Expect::WholeOr(class),
        false => Expect::Fails(class),
    }
}

/// Faults in the bytes after the first `at` events, with giant parts of `padding` bytes.
pub(crate) fn in_bytes(sample: &Sample, at: usize, padding: usize) -> Vec<Broken> {
    let dialect = sample.dialect;
    let (before, after) = sample.events.split_at(at);
    let sent = before.concat();
    let behind = |more: &[u8]| [sent.as_bytes(), more].concat();
    let lost = |class| or_lost(sample, at, class);
    let whole = |class| or_whole(sample, at, class);
    let rest = || after.concat();
    let broken = |fault, body, expect| Broken { fault, body, expect };
    let error = |error: &Value| behind(in_stream(dialect, error).as_bytes());
    let mut all = vec![
        broken("cut", behind(b""), whole(&[ErrorKind::Malformed])),
        broken(
            "malformed event",
            behind((malformed(dialect).to_owned() + &rest()).as_bytes()),
            lost(&[ErrorKind::Malformed]),
        ),
        broken("overloaded in the stream", error(&overloaded(dialect)), lost(&[ErrorKind::Overloaded])),
    ];
    if dialect != Dialect::Ollama {
        // Ollama's errors have no names.
        all.push(broken("rate limit in the stream", error(&limited(dialect)), lost(&[ErrorKind::Rate])));
    }
    let Some((next, others)) = after.split_first() else { return all };
    let half = &next.as_bytes()[..next.len() / 2];
    all.push(broken("cut in an event", behind(half), whole(&[ErrorKind::Malformed])));
    if let Some(giant) = giant(next, padding) {
        all.push(broken("giant chunk", behind((giant + &others.concat()).as_bytes()), Expect::Whole));
    }
    if !sample.is_complete(at) && ends(dialect, next) {
        let twice = [next.clone(), silent(next), others.concat()].concat();
        all.push(broken("duplicate finish", behind(twice.as_bytes()), Expect::Whole));
    }
    all
}

/// The stream with no event counting tokens.
pub(crate) fn uncounted(sample: &Sample) -> Broken {
    let body = sample.events.iter().map(|event| without_usage(event)).collect::<String>();
    Broken { fault: "missing usage", body: body.into_bytes(), expect: Expect::WithoutUsage }
}

/// Size of a giant chunk sent over the network, in bytes.
const GIANT: usize = 256 << 10;

/// The faults behind the first `at` events.
fn at(sample: &Sample, at: usize) -> Vec<Case> {
    let dialect = sample.dialect;
    let (before, after) = sample.events.split_at(at);
    let (sent, rest) = (before.concat(), after.concat());
    let or_whole = |class| or_whole(sample, at, class);
    let or_lost = |class| or_lost(sample, at, class);
    let begun = || dialect.head().send(&sent);
    let in_chunks = || {
        let reply = chunked(dialect);
        if sent.is_empty() { reply } else { reply.send(chunk(&sent)) }
    };
    let mut cases: Vec<Case> = in_bytes(sample, at, GIANT)
        .into_iter()
        .map(|broken| Case::new(broken.fault, dialect.head().send(broken.body), broken.expect))
        .collect();
    cases.extend([
        Case::new("cut in the transfer", in_chunks(), or_whole(&[ErrorKind::Transport])),
        Case::new("reset", in_chunks().sleep(PAUSE).reset(), or_lost(&[ErrorKind::Transport])),
        Case { stalls: true, ..Case::new("half-open", begun().hang(), or_whole(&[ErrorKind::Stalled])) },
        Case {
            stalls: true,
            ..Case::new(
                "pings only",
                begun().repeat(ping(dialect), Duration::from_millis(15)),
                or_whole(&[ErrorKind::Stalled]),
            )
        },
        Case::new(
            "malformed chunk",
            in_chunks().send("zz\r\nno chunk\r\n"),
            or_lost(&[ErrorKind::Transport, ErrorKind::Malformed]),
        ),
    ]);
    let Some(next) = after.first() else { return cases };
    let drip = |reply: Reply, bytes: &[u8]| {
        bytes.chunks(1).fold(reply, |reply, byte| reply.send(byte).sleep(Duration::from_millis(1)))
    };
    let (slow, fast) = rest.as_bytes().split_at(rest.len().min(24));
    cases.push(Case::new("slow drip", drip(begun(), slow).send(fast), Expect::Whole));
    let middle = next.bytes().position(|byte| !byte.is_ascii()).map_or(next.len() / 2, |at| at + 1);
    let (one, two) = rest.as_bytes().split_at(middle);
    cases.push(Case::new("split character", begun().send(one).sleep(PAUSE).send(two), Expect::Whole));
    cases
}

/// All faults, each with the number of events in front of it.
pub(crate) fn all(sample: &Sample) -> impl Iterator<Item = (usize, Case)> {
    let whole = everywhere(sample).into_iter().map(|case| (0, case));
    let at = |at| self::at(sample, at).into_iter().map(move |case| (at, case));
    whole.chain(sample.boundaries().into_iter().flat_map(at))
}

/// Faults without a position in the stream.
fn everywhere(sample: &Sample) -> Vec<Case> {
    let dialect = sample.dialect;
    let body = sample.body();
    let limited = limited(dialect).to_string();
    let overloaded = overloaded(dialect).to_string();
    let status = |line: &str, headers: &str, body: &str| {
        let headers = format!("content-type: application/json\r\nrequest-id: req_test\r\n{headers}");
        Reply::new(line, &headers, body)
    };
    let busy = Expect::Fails(&[ErrorKind::Overloaded]);
    let wait = Duration::from_secs(40);
    let date = httpdate::fmt_http_date(SystemTime::now() + wait);
    let rate = || Expect::Fails(&[ErrorKind::Rate]);
    let named =
        Expect::Fails(if dialect == Dialect::Ollama { &[ErrorKind::Overloaded] } else { &[ErrorKind::Rate] });
    let too_many = |headers: &str| status("429 Too Many Requests", headers, &limited);
    let packed = gzip(body.as_bytes());
    let head = format!("content-type: {}\r\nrequest-id: req_test\r\n", dialect.media_type());
    let zipped = |bytes: &[u8]| Reply::new("200 OK", &format!("{head}content-encoding: gzip\r\n"), bytes);
    let uncounted = uncounted(sample);
    let mut cases = vec![
        Case { wait: Some(wait), ..Case::new("429 with seconds", too_many("retry-after: 40\r\n"), rate()) },
        Case {
            wait: Some(wait),
            ..Case::new("429 with a date", too_many(&format!("retry-after: {date}\r\n")), rate())
        },
        Case::new("429 without a wait", too_many(""), rate()),
        Case::new("503", status("503 Service Unavailable", "", &overloaded), busy.clone()),
        Case::new("529", status("529 Overloaded", "", &overloaded), busy),
        Case::new("200 with an error body", status("200 OK", "", &limited), named),
        Case::new(uncounted.fault, dialect.head().send(uncounted.body), uncounted.expect),
        // Compression is not requested, so a compressed body is unreadable.
        Case::new("gzip", zipped(&packed), Expect::Fails(&[ErrorKind::Malformed])),
        Case::new("gzip cut", zipped(&packed[..packed.len() / 2]), Expect::Fails(&[ErrorKind::Malformed])),
    ];
    if sample.feature == "text" {
        let endless = format!("data: {{\"padding\":\"{}", "x".repeat((16 << 20) + 1));
        let reply = dialect.head().send(endless);
        cases.push(Case::new("endless event", reply, Expect::Fails(&[ErrorKind::Malformed])));
    }
    cases
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).expect("memory takes it");
    encoder.finish().expect("memory takes it")
}

fn malformed(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Anthropic => "event: content_block_delta\ndata: {\"type\":\"content_block_delta\", oops\n\n",
        Dialect::Responses => "event: response.output_text.delta\ndata: {\"type\":\"response.output_te\n\n",
        Dialect::Chat | Dialect::Gemini => "data: {\"choices\":[{\"delta\":\n\n",
        Dialect::Ollama => "{\"message\":{\"content\":\n",
    }
}

/// Rate-limit error of the dialect.
fn limited(dialect: Dialect) -> Value {
    match dialect {
        Dialect::Anthropic => {
            json!({"type": "error", "error": {"type": "rate_limit_error", "message": "Slow down."}})
        }
        Dialect::Chat | Dialect::Responses => {
            json!({"error": {"message": "Slow down.", "type": "requests", "code": "rate_limit_exceeded"}})
        }
        Dialect::Gemini => {
            json!({"error": {"code": 429, "message": "Slow down.", "status": "RESOURCE_EXHAUSTED"}})
        }
        Dialect::Ollama => json!({"error": "too many concurrent requests"}),
    }
}

fn overloaded(dialect: Dialect) -> Value {
    match dialect {
        Dialect::Anthropic => {
            json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})
        }
        Dialect::Chat | Dialect::Responses => {
            json!({"error": {"message": "Come back later.", "type": "server_error", "code": "server_error"}})
        }
        Dialect::Gemini => {
            json!({"error": {"code": 503, "message": "Come back later.", "status": "UNAVAILABLE"}})
        }
        Dialect::Ollama => json!({"error": "an error was encountered while running the model"}),
    }
}

/// An error as an event.
fn in_stream(dialect: Dialect, error: &Value) -> String {
    match dialect {
        Dialect::Anthropic => format!("event: error\ndata: {error}\n\n"),
        Dialect::Responses => {
            let error = &error["error"];
            let event = json!({"type": "error", "code": error["code"], "message": error["message"]});
            format!("event: error\ndata: {event}\n\n")
        }
        Dialect::Chat | Dialect::Gemini => format!("data: {error}\n\n"),
        Dialect::Ollama => format!("{error}\n"),
    }
}

/// Event with an unknown field of `padding` bytes; `None` for a value that is no object.
fn giant(event: &str, padding: usize) -> Option<String> {
    let open = event.find('{')?;
    let (head, rest) = event.split_at(open + 1);
    let comma = if rest.trim_start().starts_with('}') { "" } else { "," };
    Some(format!("{head}\"padding\":\"{}\"{comma}{rest}", "x".repeat(padding)))
}

/// Event with altered data.
fn altered(event: &str, alter: impl FnOnce(&mut Value)) -> String {
    let Some(open) = event.find('{') else { return event.to_owned() };
    let (head, data) = event.split_at(open);
    let Ok(mut value) = serde_json::from_str::<Value>(data) else { return event.to_owned() };
    alter(&mut value);
    let end = &data[data.trim_end().len()..];
    format!("{head}{value}{end}")
}

fn without_usage(event: &str) -> String {
    altered(event, strip)
}

/// Second end of an answer, without the content of the first.
fn silent(event: &str) -> String {
    altered(event, |value| {
        for (place, nothing) in [
            ("/candidates/0/content", json!({"role": "model", "parts": [{"text": ""}]})),
            ("/choices/0/delta", json!({})),
            ("/choices/0/message", json!({})),
            ("/message", json!({"role": "assistant", "content": ""})),
        ] {
            if let Some(said) = value.pointer_mut(place) {
                *said = nothing;
            }
        }
    })
}

fn strip(value: &mut Value) {
    const COUNTS: &[&str] = &["usage", "usageMetadata", "x_groq", "prompt_eval_count", "eval_count"];
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| !COUNTS.contains(&name.as_str()));
            fields.values_mut().for_each(strip);
        }
        Value::Array(items) => items.iter_mut().for_each(strip),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
