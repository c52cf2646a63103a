//! An agent whose telemetry goes to a collector of the test.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use zk_agent::{Agent, AgentBuilder, RetryPolicy};
use zk_auth::Http;
use zk_core::model::{Approved, Concurrency, ToolError, ToolOutput, ToolSpec};
use zk_core::service::{Tool, ToolCx};
use zk_otel::{OtelConfig, OtelPlugin, OtelSettings, Telemetry};
use zk_testkit::{Script, ScriptedProvider};

use crate::collector::{Collector, Manner, Seen};

/// Text that is in prompts, arguments, results and answers, and must not leave.
pub(crate) const PRIVATE: &str = "private-words";

pub(crate) struct Rig {
    pub(crate) agent: Agent,
    pub(crate) collector: Collector,
    pub(crate) notices: Arc<Mutex<Vec<String>>>,
}

pub(crate) fn variables(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

impl Rig {
    pub(crate) fn new(script: Script, change: impl FnOnce(AgentBuilder) -> AgentBuilder) -> Self {
        Self::with(&[], Manner::Takes, script, change)
    }

    pub(crate) fn with(
        more: &[(&str, &str)],
        manner: Manner,
        script: Script,
        change: impl FnOnce(AgentBuilder) -> AgentBuilder,
    ) -> Self {
        let collector = Collector::start(manner);
        let mut variables = variables(more);
        variables.insert("OTEL_EXPORTER_OTLP_ENDPOINT".into(), collector.endpoint.clone());
        let read = OtelConfig::read(&OtelSettings::default(), |name| variables.get(name).cloned());
        let notices = Arc::new(Mutex::new(Vec::new()));
        let telling = notices.clone();
        let telemetry = Telemetry::start(read.unwrap().unwrap(), Http::new(), move |notice| {
            telling.lock().unwrap().push(notice.to_owned());
        });
        let plugin = OtelPlugin::new(&telemetry.unwrap());
        let policy = RetryPolicy {
            base: Duration::ZERO,
            cap: Duration::ZERO,
            floor: Duration::ZERO,
            ..RetryPolicy::default()
        };
        let builder = Agent::builder(Arc::new(ScriptedProvider::new(script)))
            .tool(echo())
            .tool(TestTool::tool("fail", async |_, _| Err(ToolError::failed(PRIVATE))))
            .retry(policy)
            .plugin(plugin)
            .unguarded();
        Self { agent: change(builder).build().unwrap(), collector, notices }
    }

    /// Runs a prompt to its end, however it ends.
    pub(crate) async fn run(&self) {
        self.agent.run(format!("{PRIVATE}: go")).unwrap().wait().await;
    }

    /// Closes the agent, and gives the spans that were received.
    pub(crate) async fn spans(&self) -> Vec<Seen> {
        self.agent.bus().close().await;
        self.collector.spans()
    }
}

/// Draws spans as a tree, a line each: its name, class of error, and events.
pub(crate) fn tree(spans: &[Seen]) -> String {
    let mut lines = Vec::new();
    let is_root = |span: &&Seen| spans.iter().all(|other| other.id != span.parent);
    for root in spans.iter().filter(is_root) {
        draw(root, spans, 0, &mut lines);
    }
    lines.join("\n")
}

fn draw(span: &Seen, all: &[Seen], depth: usize, lines: &mut Vec<String>) {
    let error = span.attributes.get("error.type").map(|error| format!(" !{error}")).unwrap_or_default();
    let events = if span.events.is_empty() { String::new() } else { format!(" {:?}", span.events) };
    lines.push(format!("{}{}{error}{events}", "  ".repeat(depth), span.name));
    let mut below: Vec<&Seen> = all.iter().filter(|other| other.parent == span.id).collect();
    // Of calls that run side by side, either begins first.
    below.sort_by_key(|one| {
        one.name.starts_with("execute_tool").then(|| one.attributes["gen_ai.tool.call.id"].clone())
    });
    for one in below {
        assert!(one.began >= span.began && one.ended <= span.ended, "{one:?} is inside of {span:?}");
        assert_eq!(one.trace, span.trace);
        draw(one, all, depth + 1, lines);
    }
}

type Answering = Pin<Box<dyn Future<Output = Result<ToolOutput, ToolError>> + Send>>;

/// A tool made of a closure.
pub(crate) struct TestTool {
    spec: Arc<ToolSpec>,
    body: Box<dyn Fn(Value, ToolCx) -> Answering + Send + Sync>,
}

impl TestTool {
    pub(crate) fn tool<F, Fut>(name: &str, body: F) -> Arc<dyn Tool>
    where
        F: Fn(Value, ToolCx) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<ToolOutput, ToolError>> + Send + 'static,
    {
        let schema = json!({"type": "object", "properties": {"text": {"type": "string"}}});
        Self::with_schema(name, schema, body)
    }

    fn with_schema<F, Fut>(name: &str, schema: Value, body: F) -> Arc<dyn Tool>
    where
        F: Fn(Value, ToolCx) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<ToolOutput, ToolError>> + Send + 'static,
    {
        Arc::new(Self {
            spec: ToolSpec::new(name, format!("The tool {name}."), schema),
            body: Box::new(move |args, cx| Box::pin(body(args, cx))),
        })
    }
}

fn echo() -> Arc<dyn Tool> {
    let schema = json!({"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]});
    TestTool::with_schema("echo", schema, async |args: Value, _| {
        Ok(ToolOutput::text(args["text"].as_str().unwrap_or_default()))
    })
}

#[async_trait]
impl Tool for TestTool {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    async fn call(&self, call: &Approved, cx: &ToolCx) -> Result<ToolOutput, ToolError> {
        (self.body)(call.args().clone(), cx.clone()).await
    }

    fn concurrency(&self, _: &Value) -> Concurrency {
        Concurrency::Shared
    }
}
