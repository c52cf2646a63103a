//! A real llama.cpp server, in each of its protocols, and the server of llama-cpp-python with its habits.

#![expect(
    clippy::disallowed_methods,
    reason = "the servers are started from outside, and by the environment"
)]

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use zk_core::kernel::Bus;
use zk_core::model::{Block, ErrorKind, Message, StopReason, ToolSpec};
use zk_core::service::{Provider, Request, StreamEvent, ToolChoice};
use zk_providers::{
    Anthropic, AnthropicOptions, Compat, CompatProfile, Connection, Responses, ResponsesOptions, Vendor,
};

use crate::collect::{Answer, collect, request};

const KEY: &str = "test-key";
const PROTOCOLS: [&str; 3] = ["chat", "responses", "anthropic"];

/// A server that ends with the test.
struct Real {
    child: Child,
    port: u16,
}

impl Drop for Real {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Real {
    async fn start(mut command: Command, port: u16) -> Self {
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let real = Self { child: child.spawn().expect("the server starts"), port };
        let begun = Instant::now();
        // Accepting connections is not enough: it answers 503 until the model is loaded.
        while real.get("/v1/models").await.is_none() {
            assert!(begun.elapsed() < Duration::from_secs(60), "the server is not up after a minute");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        real
    }

    async fn llama(folder: &std::path::Path, model: &str) -> Self {
        let port = free_port();
        let mut command = Command::new(folder.join("llama-server"));
        command.arg("-m").arg(folder.join(model));
        command.args(["--alias", "zk-tiny", "--host", "127.0.0.1", "--port", &port.to_string()]);
        command.args(["-c", "8192", "-np", "2", "--jinja", "--api-key", KEY]);
        Self::start(command, port).await
    }

    /// Successful answer, read without the code under test.
    async fn get(&self, path: &str) -> Option<Value> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).await.ok()?;
        let request = format!("GET {path} HTTP/1.0\r\nauthorization: Bearer {KEY}\r\n\r\n");
        stream.write_all(request.as_bytes()).await.ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.ok()?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        head.lines().next()?.contains(" 200 ").then(|| serde_json::from_str(body).ok())?
    }

    fn provider(&self, protocol: &str, key: &str, extra: &Value) -> Arc<dyn Provider> {
        let origin = format!("http://127.0.0.1:{}", self.port);
        let extra_body = extra.as_object().cloned().expect("an object");
        let connection = Connection { extra_body, ..Connection::at(format!("{origin}/v1")).key(key) };
        match protocol {
            "chat" => {
                let profile = Vendor::named("llama.cpp").expect("a row").profile();
                Arc::new(Compat::new(connection, profile).expect("valid"))
            }
            "responses" => {
                Arc::new(Responses::new(connection, ResponsesOptions::compatible()).expect("valid"))
            }
            _ => Arc::new(Anthropic::new(connection, AnthropicOptions::default()).expect("valid")),
        }
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|taken| taken.local_addr()).expect("a free port").port()
}

/// Folder of `llama-server` and its models; prints a note if there is none.
fn folder() -> Option<PathBuf> {
    let folder = std::env::var_os("ZK_LLAMA").map(PathBuf::from).filter(|path| path.is_dir());
    if folder.is_none() {
        println!("skipped: ZK_LLAMA names no folder with llama-server and models");
    }
    folder
}

fn tool(name: &str) -> Arc<ToolSpec> {
    // A random model would fill a free text up to the limit.
    let city = json!({"type": "string", "enum": ["Rome", "Oslo"]});
    let schema = json!({"type": "object", "properties": {"city": city}, "required": ["city"]});
    ToolSpec::new(name, "The weather of a city.", schema)
}

fn asking(provider: &dyn Provider, text: &str) -> Request {
    Request { max_tokens: 64, ..request(provider, "zk-tiny", &[Message::user_text(text).shared()]) }
}

fn with_tools(provider: &dyn Provider) -> Request {
    Request {
        tools: Arc::from([tool("weather")]),
        tool_choice: ToolChoice::Required,
        max_tokens: 512,
        ..asking(provider, "weather in Rome?")
    }
}

async fn ask(provider: &dyn Provider, request: Request) -> Result<Answer, zk_core::model::ProviderError> {
    collect(provider.stream(request, &Bus::new().cx())).await.map_err(|(error, _)| error)
}

#[tokio::test]
async fn a_real_server_chats_fails_and_is_cancelled_in_every_protocol() {
    let Some(folder) = folder() else { return };
    let server = Real::llama(&folder, "tiny-chat.gguf").await;
    for protocol in PROTOCOLS {
        let provider = server.provider(protocol, KEY, &json!({"temperature": 0}));
        let answer = ask(&*provider, asking(&*provider, "hi")).await.expect(protocol);
        assert!(!answer.text.is_empty() && answer.usage.output > 0, "{protocol}: {answer:?}");
        // A repeated prompt is in the server's cache.
        let again = ask(&*provider, asking(&*provider, "hi")).await.expect(protocol);
        assert_eq!(again.text, answer.text, "{protocol}: nothing about the request changed");

        let long = "word ".repeat(9000);
        let error = ask(&*provider, asking(&*provider, &long)).await.expect_err("too long");
        assert_eq!(error.kind, ErrorKind::ContextExceeded, "{protocol}: {error}");

        let stranger = server.provider(protocol, "wrong", &json!({}));
        let error = ask(&*stranger, asking(&*stranger, "hi")).await.expect_err("a wrong key");
        assert_eq!((error.kind, error.status), (ErrorKind::Auth, Some(401)), "{protocol}: {error}");

        let endless = server.provider(protocol, KEY, &json!({"ignore_eos": true}));
        let request = Request { max_tokens: 3500, ..asking(&*endless, "hi") };
        let begun = Instant::now();
        let stream = loop {
            let mut stream = endless.stream(request.clone(), &Bus::new().cx());
            while !matches!(stream.next().await, Some(Ok(StreamEvent::Text { .. }))) {}
            // So small a model may be done before anybody asks.
            if server.works().await {
                break stream;
            }
            assert!(begun.elapsed() < Duration::from_secs(20), "{protocol}: it generates");
        };
        drop(stream);
        let begun = Instant::now();
        while server.works().await {
            assert!(begun.elapsed() < Duration::from_secs(5), "{protocol}: it goes on without a reader");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        println!("llama.cpp {protocol}: chat, overflow, 401 and cancel are as they should be");
    }
}

impl Real {
    async fn works(&self) -> bool {
        let slots = self.get("/slots").await.unwrap_or_default();
        slots.as_array().into_iter().flatten().any(|slot| slot["is_processing"] == true)
    }
}

#[tokio::test]
async fn a_real_server_calls_tools_in_every_protocol() {
    let Some(folder) = folder() else { return };
    let server = Real::llama(&folder, "tiny-tools.gguf").await;
    for protocol in PROTOCOLS {
        let provider = server.provider(protocol, KEY, &json!({}));
        let asked = with_tools(&*provider);
        let answer = ask(&*provider, asked.clone()).await.expect(protocol);
        let (id, name, args) = answer.calls.first().expect("a call").clone();
        if answer.stop == Some(StopReason::ToolUse) {
            assert_eq!(name, "weather");
            assert!(args.is_some_and(|args| args["city"].is_string()), "{protocol}: {:?}", answer.calls);
        }
        // The answer and its results are accepted as history.
        let results = answer.calls.iter().map(|(id, ..)| Block::result(id.as_str(), "18 °C", false));
        let history = [
            Message::user_text("weather in Rome?").shared(),
            Message::assistant(answer.blocks.clone()).shared(),
            Message::user(results.collect()).shared(),
        ];
        let next = Request {
            max_tokens: 64,
            tools: asked.tools.clone(),
            ..request(&*provider, "zk-tiny", &history)
        };
        let told = ask(&*provider, next).await;
        assert!(told.is_ok(), "{protocol}: {told:?}");

        let cut = Request { max_tokens: 12, ..with_tools(&*provider) };
        let answer = ask(&*provider, cut).await.expect(protocol);
        assert_eq!(answer.stop, Some(StopReason::MaxTokens), "{protocol}: {answer:?}");
        let last = answer.calls.last();
        assert!(last.is_none_or(|(_, _, args)| args.is_none()), "{protocol}: a cut call is never guessed");
        println!("llama.cpp {protocol}: tools, results and cut arguments are as they should be ({id})");
    }
}

#[tokio::test]
async fn a_real_server_calls_several_tools_at_once_in_every_protocol() {
    let Some(folder) = folder() else { return };
    let server = Real::llama(&folder, "tiny-par.gguf").await;
    for protocol in PROTOCOLS {
        let provider = server.provider(protocol, KEY, &json!({"parallel_tool_calls": true}));
        let mut most = 0;
        // A random model's answer differs from time to time.
        for _ in 0..8 {
            let asked = Request { max_tokens: 400, tool_choice: ToolChoice::Auto, ..with_tools(&*provider) };
            let answer = ask(&*provider, asked).await.expect(protocol);
            let ids: std::collections::BTreeSet<_> = answer.calls.iter().map(|(id, ..)| id).collect();
            assert_eq!(ids.len(), answer.calls.len(), "{protocol}: every call has an id of its own");
            most = most.max(answer.calls.len());
            if most > 1 {
                break;
            }
        }
        assert!(most > 1, "{protocol}: it never made two calls");
        println!("llama.cpp {protocol}: up to {most} calls at once");
    }
}

#[tokio::test]
async fn the_bad_habits_of_a_real_server_do_no_harm() {
    let Some(folder) = folder() else { return };
    let python = folder.join("python");
    if !python.exists() {
        println!("skipped: no `python` with llama_cpp in {}", folder.display());
        return;
    }
    let port = free_port();
    let mut command = Command::new(python);
    command.args(["-m", "llama_cpp.server", "--model"]).arg(folder.join("tiny-chat.gguf"));
    command.args(["--model_alias", "zk-tiny", "--host", "127.0.0.1", "--port", &port.to_string()]);
    command.args(["--n_ctx", "2048", "--chat_format", "chatml-function-calling"]);
    let server = Real::start(command, port).await;
    let connection = Connection::at(format!("http://127.0.0.1:{port}/v1"));
    let provider = Compat::new(connection, CompatProfile::default()).expect("valid");
    let answer = ask(&provider, asking(&provider, "hi")).await.expect("an answer");
    assert!(!answer.text.is_empty(), "{answer:?}");
    // Id and name are in every piece, and the call is sent in the old form as well.
    let asked = Request { tool_choice: ToolChoice::Tool("weather".into()), ..with_tools(&provider) };
    let answer = ask(&provider, asked).await.expect("a call");
    let names: Vec<_> = answer.calls.iter().map(|(_, name, _)| name.as_str()).collect();
    assert_eq!(names, ["weather"], "{answer:?}");
    // A prompt that is too long is answered 200 with an empty stream.
    let error = ask(&provider, asking(&provider, &"word ".repeat(3000))).await.expect_err("too long");
    assert_eq!(error.kind, ErrorKind::Malformed);
    assert!(error.hint.is_some_and(|hint| hint.contains("too long")));
    println!("llama-cpp-python: chat, one call, empty stream are as they should be");
    drop(server);
}
