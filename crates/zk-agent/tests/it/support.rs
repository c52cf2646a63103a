//! An agent with a scripted model, a few tools, a recorder and a store that keeps what it is told.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde_json::{Value, json};
use zk_agent::{Agent, AgentBuilder, RunOptions, RunOutcome};
use zk_core::events::{SessionMessages, ToolResultsAfter};
use zk_core::kernel::{BoxError, Cx, Plugin, Scope};
use zk_core::model::wire::Repair;
use zk_core::model::{
    Approved, Block, CallLocation, Concurrency, Disclosure, Effects, Message, Role, ToolError, ToolOutput,
    ToolSpec, WireReady, WireRules,
};
use zk_core::service::{CallPlace, Provider, Tool, ToolCx};
use zk_testkit::{Recorder, Script, ScriptedProvider};

pub(crate) struct Rig {
    pub(crate) agent: Agent,
    pub(crate) provider: ScriptedProvider,
    pub(crate) recorder: Recorder,
    pub(crate) store: Store,
}

/// An agent with the tools `echo` and `fail`.
pub(crate) fn rig(script: Script) -> Rig {
    rig_with(script, |builder| builder)
}

pub(crate) fn rig_with(script: Script, change: impl FnOnce(AgentBuilder) -> AgentBuilder) -> Rig {
    rig_on(ScriptedProvider::new(script), change)
}

pub(crate) fn rig_on(provider: ScriptedProvider, change: impl FnOnce(AgentBuilder) -> AgentBuilder) -> Rig {
    let (recorder, store) = (Recorder::new(), Store::default());
    let builder = Agent::builder(Arc::new(provider.clone()))
        .tool(TestTool::echo())
        .tool(TestTool::fail())
        .plugin(recorder.clone())
        .plugin(store.clone())
        .unguarded();
    let agent = change(builder).build().unwrap();
    Rig { agent, provider, recorder, store }
}

impl Rig {
    /// Runs to the end, and checks that the history is valid and stored.
    pub(crate) async fn run(&self, options: impl Into<RunOptions>) -> RunOutcome {
        let outcome = self.agent.run(options).unwrap().wait().await;
        self.assert_sound();
        outcome
    }

    /// Checks that the store has the history, and that the history needs no repair.
    pub(crate) fn assert_sound(&self) {
        assert_sound(&self.agent.history());
        assert_eq!(self.store.messages(), self.agent.history(), "what was stored is what happened");
    }

    /// Resets the agent, and the store with it.
    pub(crate) fn forget(&self) {
        self.agent.reset().unwrap();
        self.store.kept.lock().unwrap().clear();
    }

    /// Registers a handler for the agent's whole life.
    pub(crate) fn scope(&self, name: &str) -> Scope {
        self.agent.bus().scope(name)
    }

    /// The results the `number`th request (from 1) ends with, as `tool: text`, errors marked.
    pub(crate) fn results(&self, number: usize) -> Vec<String> {
        let asked = self.provider.asked();
        let results = asked[number - 1].results();
        results
            .iter()
            .map(|one| format!("{}{}: {}", one.tool, if one.is_error { "!" } else { "" }, one.text))
            .collect()
    }

    /// The recorded events that `keep` picks by the beginning of their names, one line each.
    pub(crate) fn lines(&self, keep: &[&str]) -> String {
        let transcript = self.recorder.transcript();
        let kept = transcript.lines().filter(|line| keep.iter().any(|prefix| line.starts_with(prefix)));
        kept.collect::<Vec<_>>().join("\n")
    }

    /// The names of the recorded events that `keep` picks.
    pub(crate) fn names(&self, keep: &[&str]) -> Vec<&'static str> {
        let names = self.recorder.names();
        names.into_iter().filter(|name| keep.iter().any(|prefix| name.starts_with(prefix))).collect()
    }
}

/// Checks that a history can be sent unchanged: no missing, orphaned or duplicate results.
pub(crate) fn assert_sound(history: &[Arc<Message>]) {
    let mut next = history.to_vec();
    next.push(Message::user_text("go on").shared());
    let rules = WireRules::tolerant(ScriptedProvider::new(Script::new()).model("scripted-1").reference());
    let ready = WireReady::normalise(&next, &rules);
    let mended: Vec<&Repair> =
        ready.repairs().iter().filter(|repair| !matches!(repair, Repair::FailedResponse)).collect();
    assert!(mended.is_empty(), "{mended:?} in {}", told(history));
}

/// A history as a few lines.
pub(crate) fn told(history: &[Arc<Message>]) -> String {
    let lines: Vec<String> = history.iter().map(|message| line(message)).collect();
    lines.join("\n")
}

fn line(message: &Message) -> String {
    let who = match message.role {
        Role::User => "user",
        Role::Assistant => "model",
    };
    let blocks: Vec<String> = message
        .content
        .iter()
        .map(|block| match block {
            Block::Text(text) => text.text.clone(),
            Block::ToolCall(call) => format!("{}({})", call.name, call.args),
            Block::ToolResult(result) => {
                format!("{}{}", if result.is_error { "!" } else { "=" }, result.content.to_text())
            }
            Block::Thinking(thinking) => format!("({})", thinking.text),
            Block::Image(_) => "[image]".into(),
            Block::Document(_) => "[document]".into(),
            Block::Compaction(_) => "[compaction]".into(),
            Block::Provider(block) => format!("<{}>", block.text),
        })
        .collect();
    let by = message.injected_by.as_ref().map(|by| format!(" [{by}]")).unwrap_or_default();
    format!("{who}{by}: {}", blocks.join(" | "))
}

/// Compares lines without regard to the indentation of the expected ones.
#[track_caller]
pub(crate) fn assert_lines(actual: &str, expected: &str) {
    let clean = |text: &str| text.trim().lines().map(|line| line.trim().to_owned()).collect::<Vec<_>>();
    assert_eq!(clean(actual).join("\n"), clean(expected).join("\n"), "\nactual:\n{actual}\n");
}

/// In-memory session store.
#[derive(Clone, Default)]
pub(crate) struct Store {
    kept: Arc<Mutex<Vec<Arc<Message>>>>,
}

impl Store {
    pub(crate) fn messages(&self) -> Vec<Arc<Message>> {
        self.kept.lock().unwrap().clone()
    }
}

impl Plugin for Store {
    fn name(&self) -> &str {
        "store"
    }

    fn register(&self, scope: &Scope) -> Result<(), BoxError> {
        let kept = self.kept.clone();
        scope.on_sync(move |turns: &SessionMessages, _: &Cx| {
            kept.lock().unwrap().extend(turns.messages.clone())
        });
        let kept = self.kept.clone();
        scope.on_sync(move |pair: &ToolResultsAfter, _: &Cx| {
            kept.lock().unwrap().extend([pair.assistant.clone(), pair.results.clone()]);
        });
        Ok(())
    }
}

type Answering = Pin<Box<dyn Future<Output = Result<ToolOutput, ToolError>> + Send>>;
type Body = Box<dyn Fn(Value, ToolCx) -> Answering + Send + Sync>;
type Kind = Box<dyn Fn(&Value) -> Concurrency + Send + Sync>;

/// A tool made of a closure.
pub(crate) struct TestTool {
    spec: Arc<ToolSpec>,
    body: Body,
    kind: Kind,
    cancels_siblings: bool,
    effects: Effects,
}

impl TestTool {
    pub(crate) fn new<F, Fut>(name: &str, body: F) -> Self
    where
        F: Fn(Value, ToolCx) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<ToolOutput, ToolError>> + Send + 'static,
    {
        Self {
            spec: ToolSpec::new(
                name,
                format!("The tool {name}."),
                json!({"type": "object", "properties": {}}),
            ),
            body: Box::new(move |args, cx| Box::pin(body(args, cx))),
            kind: Box::new(|_| Concurrency::Exclusive),
            cancels_siblings: false,
            effects: Effects::Unknown,
        }
    }

    /// Tool that returns its argument `text`; may run concurrently.
    pub(crate) fn echo() -> Arc<dyn Tool> {
        Self::new("echo", async |args: Value, _| {
            Ok(ToolOutput::text(args["text"].as_str().unwrap_or_default()))
        })
        .schema(json!({"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}))
        .shared()
        .arc()
    }

    /// Fails with its argument `why`.
    pub(crate) fn fail() -> Arc<dyn Tool> {
        Self::new("fail", async |args: Value, _| {
            Err(ToolError::failed(args["why"].as_str().unwrap_or("it failed")))
        })
        .arc()
    }

    /// Never ends, and does not look at its stop token.
    pub(crate) fn stuck(name: &str) -> Self {
        Self::new(name, async |_, _| std::future::pending().await)
    }

    pub(crate) fn schema(mut self, schema: Value) -> Self {
        self.spec = ToolSpec::new(self.spec.name.clone(), self.spec.description.clone(), schema);
        self
    }

    pub(crate) fn disclosure(mut self, disclosure: Disclosure) -> Self {
        self.spec = Arc::new(ToolSpec { disclosure, ..ToolSpec::clone(&self.spec) });
        self
    }

    pub(crate) fn shared(self) -> Self {
        self.kind(|_| Concurrency::Shared)
    }

    pub(crate) fn kind(mut self, kind: impl Fn(&Value) -> Concurrency + Send + Sync + 'static) -> Self {
        self.kind = Box::new(kind);
        self
    }

    /// Makes the tool a read-only tool on files.
    pub(crate) fn reading(mut self) -> Self {
        self.effects = Effects::reads(["."]);
        self
    }

    pub(crate) fn cancels_siblings(mut self) -> Self {
        self.cancels_siblings = true;
        self
    }

    pub(crate) fn arc(self) -> Arc<dyn Tool> {
        Arc::new(self)
    }
}

#[async_trait]
impl Tool for TestTool {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    async fn call(&self, call: &Approved, cx: &ToolCx) -> Result<ToolOutput, ToolError> {
        (self.body)(call.args().clone(), cx.clone()).await
    }

    fn effects(&self, _: &Value, _: &CallPlace) -> Effects {
        self.effects.clone()
    }

    /// The file in its argument `path`.
    fn locations(&self, args: &Value) -> Vec<CallLocation> {
        let path = args["path"].as_str().map(Into::into);
        path.map(|path| CallLocation { path, line: None }).into_iter().collect()
    }

    fn concurrency(&self, args: &Value) -> Concurrency {
        (self.kind)(args)
    }

    fn summary(&self, args: &Value) -> String {
        format!("{} {args}", self.spec.name)
    }

    fn failure_cancels_siblings(&self) -> bool {
        self.cancels_siblings
    }
}
