//! Every way a provider is known to fail, and what a person is told about it: rows, each met through a socket.

mod anthropic;
mod compatible;
mod gemini;
mod openai;
mod silence;

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::Duration;

use futures_util::StreamExt;
use zk_core::kernel::Bus;
use zk_core::model::{ErrorKind, Phase, ProviderError};
use zk_core::service::Provider;
use zk_providers::{
    Anthropic, AnthropicOptions, Clocks, Compat, CompatProfile, Connection, Gemini, Http, Ollama,
    OllamaOptions, Responses, ResponsesOptions,
};

use crate::collect::{collect, question};
use crate::server::{Reply, Server};

const KEY: &str = "sk-secret-key";
const ID: &str = "req_7f3";
const MODEL: &str = "m-1";

/// One cause: the provider's response, and the expected error.
struct Row {
    provider: &'static str,
    reply: Reply,
    kind: ErrorKind,
    /// Part of the message, on the cause.
    says: &'static str,
    /// Part of the advice.
    helps: &'static str,
    retried: bool,
    wait: Option<Duration>,
    /// Tolerance of the wait, for a time of day.
    passed: Duration,
    phase: Phase,
    code: Option<&'static str>,
    has_id: bool,
}

impl Row {
    /// Row of a cause with an error status.
    fn new(
        provider: &'static str,
        (status, body): (&str, impl AsRef<str>),
        kind: ErrorKind,
        says: &'static str,
        helps: &'static str,
    ) -> Self {
        Self::with(provider, status, "", body, kind, says, helps)
    }

    /// Makes a cause with more headers.
    fn with(
        provider: &'static str,
        status: &str,
        headers: &str,
        body: impl AsRef<str>,
        kind: ErrorKind,
        says: &'static str,
        helps: &'static str,
    ) -> Self {
        let headers = format!("content-type: application/json\r\n{}{headers}", id_header(provider));
        let reply = Reply::new(status, &headers, body.as_ref());
        Self::replying(provider, reply, kind, says, helps)
    }

    /// A cause within a response of status 200.
    fn streaming(
        provider: &'static str,
        body: impl AsRef<str>,
        kind: ErrorKind,
        says: &'static str,
        helps: &'static str,
    ) -> Self {
        let reply = stream(provider, body.as_ref());
        Self { phase: Phase::Stream, ..Self::replying(provider, reply, kind, says, helps) }
    }

    fn replying(
        provider: &'static str,
        reply: Reply,
        kind: ErrorKind,
        says: &'static str,
        helps: &'static str,
    ) -> Self {
        let retried = kind.is_retryable();
        let has_id = !id_header(provider).is_empty();
        Self {
            provider,
            reply,
            kind,
            says,
            helps,
            retried,
            wait: None,
            passed: Duration::ZERO,
            phase: Phase::Response,
            code: None,
            has_id,
        }
    }

    fn retried(self, retried: bool) -> Self {
        Self { retried, ..self }
    }

    /// With the time to wait that the provider asks for, in seconds.
    fn waits(self, seconds: f64) -> Self {
        Self { wait: Some(Duration::from_secs_f64(seconds)), ..self }
    }

    /// Sets the retry time in seconds, given as a time of day.
    fn waits_until(self, seconds: f64) -> Self {
        Self { passed: Duration::from_secs(60), ..self.waits(seconds) }
    }

    fn at(self, phase: Phase) -> Self {
        Self { phase, ..self }
    }

    fn code(self, code: &'static str) -> Self {
        Self { code: Some(code), ..self }
    }

    fn without_id(self) -> Self {
        Self { has_id: false, ..self }
    }
}

/// Header with the provider's request id, if it has one.
fn id_header(provider: &str) -> String {
    let name = match provider {
        "anthropic" => "request-id",
        "openrouter" => "x-generation-id",
        "mistral" => "mistral-correlation-id",
        "gemini" | "ollama" | "llama.cpp" => return String::new(),
        _ => "x-request-id",
    };
    format!("{name}: {ID}\r\n")
}

fn stream(provider: &str, body: &str) -> Reply {
    let kind = if provider == "ollama" { "application/x-ndjson" } else { "text/event-stream" };
    Reply::new("200 OK", &format!("content-type: {kind}\r\n{}", id_header(provider)), body)
}

/// Events without names.
fn data<T: ToString>(events: impl IntoIterator<Item = T>) -> String {
    events.into_iter().map(|event| format!("data: {}\n\n", event.to_string())).collect()
}

/// To read the root certificates once is enough.
static HTTP: LazyLock<Http> = LazyLock::new(Http::new);

fn provider(name: &str, url: &str) -> Box<dyn Provider> {
    let clocks = Clocks {
        first_event: Duration::from_millis(1500),
        liveness: Duration::from_millis(700),
        progress: Duration::from_millis(1500),
        ending: Duration::from_millis(100),
    };
    let at = Connection::at(url).named(name).key(KEY);
    let at = Connection { http: HTTP.clone(), clocks: Some(clocks), ..at };
    match name {
        "anthropic" => Box::new(Anthropic::new(at, AnthropicOptions::default()).expect("valid options")),
        "responses" => Box::new(Responses::new(at, ResponsesOptions::default()).expect("valid options")),
        "codex" => {
            let at = Connection { account: Some("account".to_owned()), ..at };
            Box::new(Responses::new(at, ResponsesOptions::subscription()).expect("valid options"))
        }
        "gemini" => Box::new(Gemini::new(at).expect("valid options")),
        "ollama" => Box::new(Ollama::new(at, OllamaOptions::default()).expect("valid options")),
        profile => {
            let profile = CompatProfile::named(profile).unwrap_or_else(|| panic!("no profile {profile}"));
            Box::new(Compat::new(at, profile).expect("valid options"))
        }
    }
}

async fn meet(row: &Row) -> ProviderError {
    let again = row.reply.clone();
    let server = Server::answering(move |_, _| again.clone()).await;
    let provider = provider(row.provider, &server.url);
    let answer = collect(provider.stream(question(&*provider, MODEL), &Bus::new().cx())).await;
    answer.expect_err(row.says).0
}

/// Missing properties of a row's error.
fn faults(row: &Row, error: &ProviderError) -> Vec<String> {
    let told = error.to_string();
    let hint = error.hint.as_deref().unwrap_or_default();
    let is_waited = match (row.wait, error.retry_after) {
        (Some(asked), Some(found)) => found <= asked && asked - found <= row.passed,
        (asked, found) => asked == found,
    };
    // A broken-off answer may succeed next time.
    let is_cut = ["cuts long", "too long for them"].iter().any(|advice| hint.contains(advice));
    let checks = [
        ("class", error.kind == row.kind),
        ("retry", error.is_retryable() == (row.retried || is_cut)),
        ("wait", is_waited),
        ("phase", error.phase == row.phase && told.contains(&format!("while {}", row.phase))),
        ("code", row.code.is_none_or(|code| error.code.as_deref() == Some(code) && told.contains(code))),
        ("cause", error.message.contains(row.says) && !error.message.is_empty()),
        ("advice", !hint.is_empty() && hint.contains(row.helps) && told.ends_with(hint)),
        ("provider and model", told.starts_with(&format!("{}/{MODEL}: ", row.provider))),
        ("time", !error.elapsed.is_zero() && told.contains(&after(error))),
        ("id", row.has_id == told.contains(&format!("[request {ID}]"))),
        ("secret", !told.contains(KEY)),
    ];
    checks.into_iter().filter(|(_, holds)| !holds).map(|(what, _)| what.to_owned()).collect()
}

fn after(error: &ProviderError) -> String {
    match error.elapsed.as_millis() {
        short @ 0..1000 => format!(" after {} ms: ", short.max(1)),
        _ => format!(" after {:.1} s: ", error.elapsed.as_secs_f64()),
    }
}

fn rows() -> Vec<Row> {
    let all = [anthropic::rows(), openai::rows(), compatible::rows(), gemini::rows(), silence::rows()];
    all.into_iter().flatten().collect()
}

#[tokio::test]
async fn every_cause_is_told_with_its_place_and_what_to_do_and_as_no_other() {
    let rows = rows();
    let met = futures_util::stream::iter(&rows).map(|row| async move { (row, meet(row).await) });
    let met: Vec<_> = met.buffered(16).collect().await;
    let mut wrong = Vec::new();
    let (mut told, mut advice) = (BTreeMap::new(), BTreeMap::new());
    for (row, error) in &met {
        let missing = faults(row, error);
        if !missing.is_empty() {
            wrong.push(format!("{}: {error}\n  {error:?}", missing.join(", ")));
        }
        let text = error.to_string().replace(&after(error), ": ");
        if let Some(other) = told.insert(text, row.says) {
            wrong.push(format!("`{other}` and `{}` are told alike: {error}", row.says));
        }
        let hint = error.hint.clone().unwrap_or_default();
        // A wrong address has many symptoms.
        let is_address = hint.contains("base URL");
        let kind = *advice.entry(hint).or_insert(error.kind);
        if kind != error.kind && !is_address {
            wrong.push(format!("the same advice as for {kind:?}: {error}"));
        }
    }
    println!("{} causes, {} kinds of advice", met.len(), advice.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
