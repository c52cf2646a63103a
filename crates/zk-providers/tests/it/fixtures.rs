//! The recorded traffic, if it is there.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::read::MultiGzDecoder;
use saphyr::{LoadableYamlNode, Yaml};
use serde_json::Value;

/// One recorded interaction.
pub(crate) struct Recorded {
    pub(crate) file: String,
    /// Which interaction of its file it is, from 0.
    pub(crate) index: usize,
    pub(crate) url: String,
    pub(crate) status: u16,
    pub(crate) content_type: String,
    /// Body of the request.
    pub(crate) request: String,
    /// Without the encodings of the recorder and of the transfer.
    pub(crate) body: String,
    /// Pieces in which the body arrived, if recorded.
    pub(crate) chunks: Vec<String>,
}

/// Folder of the fixtures; prints a note if there is none.
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

/// Everything that was recorded, read once: reading YAML is slow.
pub(crate) fn all() -> &'static [Recorded] {
    static ALL: LazyLock<Vec<Recorded>> =
        LazyLock::new(|| folder().map(|folder| load(&folder, |_| true)).unwrap_or_default());
    &ALL
}

/// Recordings of files that contain this word, and of all small files.
pub(crate) fn with(word: &'static str) -> &'static [Recorded] {
    static READ: Mutex<BTreeMap<&str, &[Recorded]>> = Mutex::new(BTreeMap::new());
    let mut read = READ.lock().expect("nobody fails while reading");
    read.entry(word).or_insert_with(|| {
        let holds = |path: &PathBuf| {
            let is_slow = path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml");
            !is_slow || std::fs::read_to_string(path).is_ok_and(|text| text.contains(word))
        };
        folder().map(|folder| load(&folder, holds)).unwrap_or_default().leak()
    })
}

/// Reads the recordings of one folder or file, of the files whose text has this word in it.
pub(crate) fn below(place: &str, word: &str) -> Option<Vec<Recorded>> {
    let folder = folder()?;
    let mut files = Vec::new();
    match folder.join(place) {
        file if file.is_file() => files.push(file),
        place => walk(&place, &mut files),
    }
    files.sort();
    files.retain(|file| std::fs::read_to_string(file).is_ok_and(|text| text.contains(word)));
    Some(read(&folder, &files))
}

fn load(folder: &Path, holds: impl Fn(&PathBuf) -> bool) -> Vec<Recorded> {
    let mut files = Vec::new();
    walk(folder, &mut files);
    files.retain(holds);
    files.sort();
    let half = files.split_off(files.len() / 2);
    let (mut all, rest) = std::thread::scope(|scope| {
        let rest = scope.spawn(|| read(folder, &half));
        (read(folder, &files), rest.join().expect("the files can be read"))
    });
    all.extend(rest);
    all
}

fn read(folder: &Path, files: &[PathBuf]) -> Vec<Recorded> {
    let mut all = Vec::new();
    for path in files {
        let file = path.strip_prefix(folder).expect("below the folder").display().to_string();
        let Ok(text) = std::fs::read_to_string(path) else { continue };
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

/// Text, with base64 and gzip undone.
fn string(node: Option<&Yaml<'_>>) -> String {
    match node {
        Some(Yaml::Tagged(tag, inner)) if tag.suffix == "binary" => {
            unpacked(inner.as_str().unwrap_or_default())
        }
        Some(Yaml::Representation(text, _, Some(tag))) if tag.suffix == "binary" => unpacked(text),
        Some(node) => match node.as_str().unwrap_or_default() {
            // The reader takes `!!binary` for text.
            packed if packed.starts_with("H4sI") => unpacked(packed),
            text => text.to_owned(),
        },
        None => String::new(),
    }
}

fn unpacked(packed: &str) -> String {
    let packed: String = packed.split_whitespace().collect();
    let bytes = STANDARD.decode(packed).unwrap_or_default();
    if !bytes.starts_with(&[0x1f, 0x8b]) {
        return String::from_utf8(bytes).unwrap_or_default();
    }
    let mut text = String::new();
    MultiGzDecoder::new(&*bytes).read_to_string(&mut text).map(|_| text).unwrap_or_default()
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
    for (index, doc) in yaml(text).into_iter().enumerate() {
        let Some(then) = get(&doc, &["then"]) else { continue };
        let headers = get(then, &["header"]).and_then(Yaml::as_vec).into_iter().flatten();
        let content_type = headers
            .filter(|header| string(get(header, &["name"])).eq_ignore_ascii_case("content-type"))
            .map(|header| string(get(header, &["value"])))
            .next();
        let mut body = string(get(then, &["body"]));
        if body.is_empty() {
            body = unpacked(&string(get(then, &["body_base64"])));
        }
        all.push(Recorded {
            file: file.to_owned(),
            index,
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
        for (index, item) in list.and_then(Yaml::as_vec).into_iter().flatten().enumerate() {
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
                index,
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

/// Events one per line, or a raw stream.
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
        let Some((url, status)) = whole(text).filter(|_| file.ends_with(".json")) else { return };
        all.push(Recorded {
            file: file.to_owned(),
            index: 0,
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
        index: 0,
        url: url.to_owned(),
        request: String::new(),
        status: 200,
        content_type: "text/event-stream".to_owned(),
        body,
        chunks: Vec::new(),
    }));
}

/// Address and status of a whole JSON body.
fn whole(text: &str) -> Option<(&'static str, u16)> {
    let body: Value = serde_json::from_str(text).ok()?;
    let url = match (body["object"].as_str(), body["type"].as_str()) {
        (Some("response"), _) => "/responses",
        (Some("chat.completion"), _) => "/chat/completions",
        (_, Some("message")) => "/v1/messages",
        _ if body["candidates"].is_array() => GEMINI,
        (_, Some("error")) => return Some(("/v1/messages", 400)),
        _ if text.contains("google.rpc.") => return Some((GEMINI, 429)),
        _ if body["error"]["message"].is_string() => return Some(("/responses", 400)),
        _ => return None,
    };
    Some((url, 200))
}

fn pi(file: &str, text: &str, all: &mut Vec<Recorded>) {
    let Ok(doc) = serde_json::from_str::<Value>(text) else { return };
    for (index, item) in doc.get("interactions").and_then(Value::as_array).into_iter().flatten().enumerate() {
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
            index,
            url: text("/request/url"),
            request: text("/request/body"),
            status: u16::try_from(status).unwrap_or_default(),
            content_type: content_type.to_owned(),
            body,
            chunks,
        });
    }
}
