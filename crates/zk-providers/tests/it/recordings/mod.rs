//! Every recorded exchange with a model, through the real adapters: one table of the dialects, one of the exchanges.

mod blocks;
mod chat_histories;
pub(crate) mod conversations;
mod differences;
mod errors;
mod formats;
mod gemini_echo;
mod gemini_histories;
mod messages_echo;
mod messages_histories;
pub(crate) mod naive;
mod ollama_histories;
mod replayed;
mod responses_histories;
mod splits;
mod vendors;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use zk_core::kernel::Bus;
use zk_core::model::{ModelRef, ProviderError, Usage};
use zk_core::service::{Provider, Request};
use zk_providers::{
    Anthropic, AnthropicOptions, Clocks, Compat, CompatProfile, Connection, Gemini, Ollama, OllamaOptions,
    Replay, Responses, ResponsesOptions, SetupError, ToolChoices,
};

use crate::collect::{Answer, collect, question};
use crate::fixtures::{self, Recorded};
use crate::server::{Reply, Server};

/// A wire dialect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Dialect {
    Anthropic,
    Chat,
    Responses,
    Gemini,
    Ollama,
}

impl Dialect {
    pub(crate) const ALL: [Self; 5] =
        [Self::Anthropic, Self::Chat, Self::Responses, Self::Gemini, Self::Ollama];

    /// Dialect of a URL; `None` if it is no model's endpoint.
    pub(crate) fn of(url: &str) -> Option<Self> {
        let path = url.split('?').next().unwrap_or_default().trim_end_matches('/');
        Self::ALL.into_iter().find(|dialect| path.ends_with(dialect.path()))
    }

    /// Returns the end of the addresses of its questions.
    fn path(self) -> &'static str {
        match self {
            Self::Anthropic => "/messages",
            Self::Chat => "/chat/completions",
            Self::Responses => "/responses",
            Self::Gemini => "enerateContent",
            Self::Ollama => "/api/chat",
        }
    }

    /// The adapter, asking the server at `url`.
    pub(crate) fn provider(self, url: &str, clocks: Clocks) -> Box<dyn Provider> {
        let connection = match self {
            Self::Anthropic => Anthropic::connection(),
            Self::Chat => Connection::at(url),
            Self::Responses => Responses::connection(),
            Self::Gemini => Gemini::connection(),
            Self::Ollama => Ollama::connection(),
        };
        let connection = Connection { clocks: Some(clocks), ..connection.base_url(url).key("k-test") };
        let provider: Result<Box<dyn Provider>, SetupError> = match self {
            Self::Anthropic => boxed(Anthropic::new(connection, AnthropicOptions::default())),
            // The recorded servers call the tool they are given.
            Self::Chat => {
                let profile = CompatProfile { tool_choice: ToolChoices::All, ..CompatProfile::default() };
                boxed(Compat::new(connection, profile))
            }
            Self::Responses => boxed(Responses::new(connection, ResponsesOptions::default())),
            Self::Gemini => boxed(Gemini::new(connection)),
            Self::Ollama => boxed(Ollama::new(connection, OllamaOptions::default())),
        };
        provider.expect("valid options")
    }

    /// The adapter's reading of bytes that no network brings.
    pub(crate) fn replay(self) -> Replay {
        let model = ModelRef::new("recorded", "recorded");
        match self {
            Self::Anthropic => Replay::anthropic(model),
            Self::Chat => Replay::chat(model),
            Self::Responses => Replay::responses(model),
            Self::Gemini => Replay::gemini(model),
            Self::Ollama => Replay::ollama(model),
        }
    }

    /// The head of a streamed answer.
    pub(crate) fn head(self) -> Reply {
        Reply::new("200 OK", &format!("content-type: {}\r\nrequest-id: req_test\r\n", self.media_type()), "")
    }

    pub(crate) fn media_type(self) -> &'static str {
        if self == Self::Ollama { "application/x-ndjson" } else { "text/event-stream" }
    }

    /// Reads a stream as an independent reader does.
    pub(crate) fn naive(self, body: &str) -> Result<Answer, &'static str> {
        match self {
            Self::Anthropic | Self::Chat => {
                let url = if self == Self::Anthropic { "/messages" } else { "/chat/completions" };
                match naive::failure(url, body) {
                    Some(reason) => Err(reason),
                    None if self == Self::Anthropic => Ok(naive::anthropic(body)),
                    None => Ok(naive::chat(body)),
                }
            }
            Self::Responses => {
                naive::responses::failure(body).map_or_else(|| Ok(naive::responses::read(body)), Err)
            }
            Self::Gemini => Ok(naive::gemini::answer(body)),
            Self::Ollama => Ok(naive::ollama(body)),
        }
    }

    /// A stream of an answer that was recorded whole, as the provider would have sent it.
    fn streamed(self, whole: &Value) -> Option<String> {
        let event = |event: Value| {
            format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default())
        };
        match self {
            Self::Anthropic if whole["type"] == "message" => {
                Some(naive::messages::stream(whole).into_iter().map(event).collect())
            }
            Self::Chat if whole["choices"].is_array() => Some(format!("data: {whole}\n\ndata: [DONE]\n\n")),
            Self::Responses if whole["object"] == "response" => {
                Some(event(json!({"type": "response.completed", "response": whole})))
            }
            Self::Gemini if whole["candidates"].is_array() => Some(format!("data: {whole}\n\n")),
            Self::Ollama if whole["message"].is_object() => Some(format!("{whole}\n")),
            _ => None,
        }
    }
}

fn boxed<P: Provider + 'static>(provider: Result<P, SetupError>) -> Result<Box<dyn Provider>, SetupError> {
    provider.map(|provider| Box::new(provider) as Box<dyn Provider>)
}

/// Form in which an answer was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Form {
    Streamed,
    Whole,
    Error,
    /// Nothing that can be replayed.
    Blank,
}

/// One recorded exchange with a model.
pub(crate) struct Exchange {
    pub(crate) recorded: &'static Recorded,
    pub(crate) dialect: Dialect,
    pub(crate) form: Form,
    /// The answer as a stream; of an error its body.
    pub(crate) body: String,
}

impl Exchange {
    fn new(recorded: &'static Recorded) -> Option<Self> {
        let dialect = Dialect::of(&recorded.url)?;
        let raw = &recorded.body;
        let is_stream = dialect == Dialect::Ollama && recorded.content_type.contains("ndjson")
            || recorded.content_type.contains("event-stream")
            || raw.starts_with("event:")
            || raw.starts_with("data:");
        let (form, body) = if recorded.status != 200 {
            (Form::Error, raw.clone())
        } else if is_stream && !raw.trim().is_empty() {
            (Form::Streamed, raw.clone())
        } else {
            let whole = serde_json::from_str(raw).ok().and_then(|whole| dialect.streamed(&whole));
            whole.map_or((Form::Blank, String::new()), |body| (Form::Whole, body))
        };
        Some(Self { recorded, dialect, form, body })
    }

    /// The request, if it was recorded.
    pub(crate) fn request(&self) -> Option<Value> {
        serde_json::from_str(&self.recorded.request).ok()
    }

    /// The model that was asked.
    pub(crate) fn model(&self) -> String {
        if self.dialect == Dialect::Gemini {
            let path = self.recorded.url.split(':').rev().nth(1).unwrap_or_default();
            return path.rsplit('/').next().unwrap_or_default().to_owned();
        }
        let asked = self.request().unwrap_or_default();
        asked["model"].as_str().unwrap_or("recorded").to_owned()
    }

    /// Returns the provider that answered.
    pub(crate) fn provider(&self) -> &str {
        let file = &self.recorded.file;
        // Recorded elsewhere, and put into a recording of OpenAI.
        if file.contains("test_tools_streaming_variant") {
            return "unknown";
        }
        let mut parts = file.split('/');
        match parts.next() {
            Some("rig") => parts.nth(2).unwrap_or_default(),
            Some("vercel-ai") => parts.nth(1).unwrap_or_default(),
            Some("pi_agent_rust") => "anthropic",
            _ => {
                const HOSTS: &[(&str, &str)] = &[
                    ("anthropic.com", "anthropic"),
                    ("openai.com", "openai"),
                    ("generativelanguage", "gemini"),
                    ("aiplatform", "vertex"),
                    ("deepseek.com", "deepseek"),
                    ("mistral.ai", "mistral"),
                    ("openrouter.ai", "openrouter"),
                    ("api.x.ai", "xai"),
                    ("ollama.com", "ollama"),
                    ("GPUSTACK", "gpustack"),
                    ("OLLAMA", "ollama"),
                ];
                let host = HOSTS.iter().find(|(part, _)| self.recorded.url.contains(part));
                host.map_or("unknown", |(_, name)| name)
            }
        }
    }

    /// File and number, for messages.
    pub(crate) fn place(&self) -> String {
        format!("{}#{}", self.recorded.file, self.recorded.index)
    }

    /// Output limit of the recorded request; the default limit without one.
    fn limit(&self) -> u32 {
        let asked = self.request().unwrap_or_default();
        let limit = asked.pointer("/options/num_predict").and_then(Value::as_u64);
        limit.and_then(|limit| u32::try_from(limit).ok()).unwrap_or(4096)
    }

    /// Returns the answer that the adapter makes of `reply`.
    pub(crate) async fn ask(&self, reply: Reply) -> Result<Answer, (ProviderError, Answer)> {
        let server = Server::start([reply]).await;
        let provider = match self.dialect {
            Dialect::Chat => vendors::provider(self, &server.url),
            other => Arc::from(other.provider(&server.url, Clocks::remote())),
        };
        let request = Request { max_tokens: self.limit(), ..question(&*provider, &self.model()) };
        collect(provider.stream(request, &Bus::new().cx())).await
    }

    /// The recorded answer, served as it was.
    pub(crate) fn reply(&self) -> Reply {
        match self.form {
            Form::Error => Reply::json(&format!("{} Recorded", self.recorded.status), &self.body),
            Form::Streamed | Form::Whole | Form::Blank => self.dialect.head().send(&self.body),
        }
    }
}

/// Every recorded exchange with a model.
pub(crate) fn exchanges() -> Vec<Exchange> {
    fixtures::all().iter().filter_map(Exchange::new).collect()
}

/// Returns the exchanges of one dialect.
pub(crate) fn exchanges_of(dialect: Dialect) -> Vec<Exchange> {
    let all = fixtures::with(dialect.path()).iter().filter_map(Exchange::new);
    all.filter(|exchange| exchange.dialect == dialect).collect()
}

/// Reduces both answers to comparable content: without generated ids and the cost of several models, and only
/// with signatures that both readers support.
pub(crate) fn comparable(dialect: Dialect, mut got: Answer, mut expected: Answer) -> (Answer, Answer) {
    for (mine, theirs) in got.calls.iter_mut().zip(&expected.calls) {
        if theirs.0.is_empty() {
            mine.0 = String::new();
        }
    }
    for answer in [&mut got, &mut expected] {
        answer.blocks.clear();
        if dialect == Dialect::Anthropic {
            answer.usage = Usage { billed: None, unpriced: 0, ..answer.usage };
        }
        if dialect == Dialect::Gemini {
            answer.signatures.clear();
        }
    }
    (got, expected)
}

/// Counts as a table: one line for each row, one column for each outcome.
pub(crate) fn print_table(title: &str, counts: &BTreeMap<(String, String), usize>) {
    let mut columns: Vec<&String> = counts.keys().map(|(_, column)| column).collect();
    columns.sort_unstable();
    columns.dedup();
    let mut rows: Vec<&String> = counts.keys().map(|(row, _)| row).collect();
    rows.dedup();
    let width = rows.iter().map(|row| row.len()).max().unwrap_or_default().max(title.len());
    let line = |name: &str, cells: Vec<String>| {
        let cells: Vec<String> = cells
            .iter()
            .zip(&columns)
            .map(|(cell, column)| format!("{cell:>width$}", width = column.len()))
            .collect();
        println!("{name:width$}  {}", cells.join("  "));
    };
    line(title, columns.iter().map(ToString::to_string).collect());
    for row in rows {
        let cell =
            |column: &&String| counts.get(&(row.clone(), (*column).clone())).copied().unwrap_or_default();
        line(row, columns.iter().map(|column| cell(column).to_string()).collect());
    }
    let total = |column: &&String| -> usize {
        counts.iter().filter(|((_, name), _)| name == *column).map(|(_, count)| count).sum()
    };
    line("total", columns.iter().map(|column| total(column).to_string()).collect());
}
