//! The recorded traffic, if it is there.

use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use saphyr::{LoadableYamlNode, Yaml};
use serde_json::Value;

/// One recorded interaction.
pub(crate) struct Recorded {
    pub(crate) file: String,
    pub(crate) url: String,
    pub(crate) status: u16,
    pub(crate) content_type: String,
    /// What was asked.
    pub(crate) request: String,
    /// Bytes that are not text after undoing base64 are left out by the reader.
    pub(crate) body: String,
    /// The pieces in which the body arrived, where the recorder kept them.
    pub(crate) chunks: Vec<String>,
}

/// The folder, or a word to whoever reads the test's output.
pub(crate) fn folder() -> Option<PathBuf> {
    let usual = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/fixtures");
    #[expect(clippy::disallowed_methods, reason = "tests are told by the environment where the data is")]
    let folder = PathBuf::from(std::env::var("ZK_FIXTURES").unwrap_or_else(|_| usual.to_owned()));
    if folder.is_dir() {
        return Some(folder);
    }
    println!("skipped: no fixtures at {}", folder.display());
    None
}

/// What was recorded of Messages and Chat Completions.
pub(crate) fn load(folder: &Path) -> Vec<Recorded> {
    load_about(folder, &["/messages", "/chat/completions", "chat.completion", "message_start"])
}

/// What was recorded in files that hold one of these words: reading YAML is slow, and most files are about
/// other protocols.
pub(crate) fn load_about(folder: &Path, words: &[&str]) -> Vec<Recorded> {
    let mut files = Vec::new();
    walk(folder, &mut files);
    files.sort();
    let mut all = Vec::new();
    for path in files {
        let file = path.strip_prefix(folder).expect("below the folder").display().to_string();
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        if !words.iter().any(|word| text.contains(word)) {
            continue;
        }
        match file.split('/').next() {
            Some("rig") => rig(&file, &text, &mut all),
            Some("ruby_llm" | "simonw-llm") => vcr(&file, &text, &mut all),
            Some("vercel-ai") => vercel(&file, &text, &mut all),
            Some("pi_agent_rust") => pi(&file, &text, &mut all),
            _ => {}
        }
    }
    all
}

fn walk(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() { walk(&path, files) } else { files.push(path) }
    }
}

fn yaml(text: &str) -> Vec<Yaml<'_>> {
    Yaml::load_from_str(text).unwrap_or_default()
}

fn string(node: Option<&Yaml<'_>>) -> String {
    match node {
        Some(Yaml::Tagged(tag, inner)) if tag.suffix == "binary" => {
            let packed: String = inner.as_str().unwrap_or_default().split_whitespace().collect();
            STANDARD.decode(packed).ok().and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default()
        }
        Some(Yaml::Representation(text, _, Some(tag))) if tag.suffix == "binary" => {
            let packed: String = text.split_whitespace().collect();
            STANDARD.decode(packed).ok().and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default()
        }
        Some(node) => node.as_str().unwrap_or_default().to_owned(),
        None => String::new(),
    }
}

fn get<'a, 'b>(node: &'a Yaml<'b>, path: &[&str]) -> Option<&'a Yaml<'b>> {
    path.iter().try_fold(node, |node, key| node.as_mapping_get(key))
}

fn number(node: Option<&Yaml<'_>>) -> u16 {
    let number = node.and_then(Yaml::as_integer).unwrap_or_default();
    u16::try_from(number).unwrap_or_default()
}

/// Several documents, each `when` and `then`.
fn rig(file: &str, text: &str, all: &mut Vec<Recorded>) {
    for doc in yaml(text) {
        let Some(then) = get(&doc, &["then"]) else { continue };
        let headers = get(then, &["header"]).and_then(Yaml::as_vec).into_iter().flatten();
        let content_type = headers
            .filter(|header| string(get(header, &["name"])).eq_ignore_ascii_case("content-type"))
            .map(|header| string(get(header, &["value"])))
            .next();
        let mut body = string(get(then, &["body"]));
        if body.is_empty() {
            let packed = string(get(then, &["body_base64"]));
            body = STANDARD
                .decode(packed)
                .ok()
                .and_then(|bytes| String::from_utf8(bytes).ok())
                .unwrap_or_default();
        }
        all.push(Recorded {
            file: file.to_owned(),
            url: string(get(&doc, &["when", "path"])),
            request: string(get(&doc, &["when", "body"])),
            status: number(get(then, &["status"])),
            content_type: content_type.unwrap_or_default(),
            body,
            chunks: Vec::new(),
        });
    }
}

/// Ruby's and Python's VCR.
fn vcr(file: &str, text: &str, all: &mut Vec<Recorded>) {
    for doc in yaml(text) {
        let list = get(&doc, &["http_interactions"]).or_else(|| get(&doc, &["interactions"]));
        for item in list.and_then(Yaml::as_vec).into_iter().flatten() {
            let Some(response) = get(item, &["response"]) else { continue };
            let headers = get(response, &["headers"]).and_then(Yaml::as_mapping);
            let content_type = headers.into_iter().flatten().find_map(|(name, value)| {
                let is_it = string(Some(name)).eq_ignore_ascii_case("content-type");
                is_it.then(|| string(value.as_vec().and_then(|all| all.first()).or(Some(value))))
            });
            let request = get(item, &["request"]);
            let url = request.and_then(|request| get(request, &["uri"]).or_else(|| get(request, &["url"])));
            let body = get(response, &["body"]);
            let asked = request.and_then(|request| get(request, &["body"]));
            all.push(Recorded {
                file: file.to_owned(),
                url: string(url),
                request: string(asked.and_then(|body| get(body, &["string"])).or(asked)),
                status: number(get(response, &["status", "code"])),
                content_type: content_type.unwrap_or_default(),
                body: string(body.and_then(|body| get(body, &["string"])).or(body)),
                chunks: Vec::new(),
            });
        }
    }
}

/// The address of files that name none.
const GEMINI: &str = "/v1beta/models/recorded:streamGenerateContent";

/// Events one to a line, or a stream as it is.
fn vercel(file: &str, text: &str, all: &mut Vec<Recorded>) {
    let body = if file.ends_with(".chunks.txt") {
        let event = |line: &str| {
            let kind = serde_json::from_str::<Value>(line).ok()?.get("type")?.as_str()?.to_owned();
            Some(format!("event: {kind}\ndata: {line}\n\n"))
        };
        let lines = text.lines().filter(|line| !line.trim().is_empty());
        lines.map(|line| event(line).unwrap_or_else(|| format!("data: {line}\n\n"))).collect()
    } else if file.ends_with(".sse") {
        text.to_owned()
    } else {
        let (url, status) = match text {
            _ if !file.ends_with(".json") => return,
            text if text.contains("\"object\": \"response\"") => ("/responses", 200),
            text if text.contains("\"candidates\"") => (GEMINI, 200),
            text if text.contains("google.rpc.") => (GEMINI, 429),
            _ => return,
        };
        all.push(Recorded {
            file: file.to_owned(),
            url: url.to_owned(),
            request: String::new(),
            status,
            content_type: "application/json".to_owned(),
            body: text.to_owned(),
            chunks: Vec::new(),
        });
        return;
    };
    let url = match body.get(..2000.min(body.len())).unwrap_or(&body) {
        start if start.contains("message_start") => "/v1/messages",
        start if start.contains("chat.completion.chunk") => "/chat/completions",
        start if start.contains("response.created") => "/responses",
        start if start.contains("\"candidates\"") => GEMINI,
        _ => return,
    };
    // Some files hold the responses of a whole tool loop, one after the other.
    let mut responses = vec![String::new()];
    for event in body.split_inclusive("\n\n") {
        let has = |mark: &str| responses.last().is_some_and(|last| last.contains(mark));
        let is_next = (has("event: message_stop") && event.starts_with("event: message_start"))
            || (has("event: response.completed") && event.starts_with("event: response.created"));
        if is_next {
            responses.push(String::new());
        }
        if let Some(last) = responses.last_mut() {
            last.push_str(event);
        }
    }
    all.extend(responses.into_iter().map(|body| Recorded {
        file: file.to_owned(),
        url: url.to_owned(),
        request: String::new(),
        status: 200,
        content_type: "text/event-stream".to_owned(),
        body,
        chunks: Vec::new(),
    }));
}

fn pi(file: &str, text: &str, all: &mut Vec<Recorded>) {
    let Ok(doc) = serde_json::from_str::<Value>(text) else { return };
    for item in doc.get("interactions").and_then(Value::as_array).into_iter().flatten() {
        let text = |path: &str| item.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
        let chunks: Vec<String> = item
            .pointer("/response/body_chunks")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(|chunk| Some(chunk.as_str()?.to_owned()))
            .collect();
        let body = match text("/response/body") {
            whole if whole.is_empty() => chunks.concat(),
            whole => whole,
        };
        let status = item.pointer("/response/status").and_then(Value::as_u64).unwrap_or_default();
        let content_type = if body.starts_with("event:") || body.starts_with("data:") {
            "text/event-stream"
        } else {
            "application/json"
        };
        all.push(Recorded {
            file: file.to_owned(),
            url: text("/request/url"),
            request: text("/request/body"),
            status: u16::try_from(status).unwrap_or_default(),
            content_type: content_type.to_owned(),
            body,
            chunks,
        });
    }
}
