//! An agent with a scripted model, a few tools, a session in memory and a view of it.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde_json::{Value, json};
use zk_agent::{Agent, AgentBuilder, RunOptions, RunOutcome};
use zk_core::kernel::Bus;
use zk_core::model::{Approved, CommandExit, Concurrency, Display, Effects, ToolError, ToolOutput, ToolSpec};
use zk_core::service::{CallPlace, NewSession, OpenSession, SessionStore, Tool, ToolCx};
use zk_session::{MemoryStore, Recorder};
use zk_testkit::{Script, ScriptedProvider};
use zk_view::{Block, Call, Content, Patch, PluginBlock, Reader, View, ViewDriver, rebuild};

pub(crate) struct Rig {
    pub(crate) agent: Agent,
    pub(crate) driver: ViewDriver,
    pub(crate) session: Arc<dyn OpenSession>,
    reader: Reader,
    pub(crate) patches: Vec<Patch>,
    /// Patches in order, if recorded.
    pub(crate) recorded: Arc<Mutex<Vec<Patch>>>,
}

/// The directory that patches are recorded in.
#[expect(clippy::disallowed_methods, reason = "whoever records says where to")]
pub(crate) fn recordings() -> Option<std::ffi::OsString> {
    std::env::var_os("ZK_RECORD_PATCHES")
}

/// Records the patches of a view until it is closed.
fn record(driver: &ViewDriver) -> Arc<Mutex<Vec<Patch>>> {
    let recorded = Arc::<Mutex<Vec<Patch>>>::default();
    if recordings().is_some() {
        let (mut reader, kept) = (driver.reader(), recorded.clone());
        tokio::spawn(async move {
            while let Some(patches) = reader.next().await {
                kept.lock().unwrap().extend(patches);
            }
        });
    }
    recorded
}

pub(crate) async fn rig(script: Script) -> Rig {
    rig_with(script, |builder| builder).await
}

pub(crate) async fn rig_with(script: Script, change: impl FnOnce(AgentBuilder) -> AgentBuilder) -> Rig {
    rig_of(ViewDriver::new(), script, change).await
}

pub(crate) async fn rig_of(
    driver: ViewDriver,
    script: Script,
    change: impl FnOnce(AgentBuilder) -> AgentBuilder,
) -> Rig {
    let new = NewSession { id: None, cwd: "/".into(), parent: None };
    let session = MemoryStore::new().create(new).await.unwrap();
    let bus = Bus::new();
    bus.install(&Recorder::new(session.clone())).unwrap();
    bus.install(&driver).unwrap();
    let builder = Agent::builder(Arc::new(ScriptedProvider::new(script)))
        .unguarded()
        .bus(bus)
        .tool(TestTool::arc("echo", true))
        .tool(TestTool::arc("run", false))
        .tool(TestTool::arc("fail", false))
        .tool(TestTool::arc("stuck", false));
    let agent = change(builder).build().unwrap();
    let (reader, recorded) = (driver.reader(), record(&driver));
    Rig { agent, driver, session, reader, patches: Vec::new(), recorded }
}

impl Rig {
    pub(crate) async fn run(&mut self, options: impl Into<RunOptions>) -> RunOutcome {
        let outcome = self.agent.run(options).unwrap().wait().await;
        self.check().await;
        outcome
    }

    /// Checks that the stored session shows the same blocks as live, and that replaying the patches gives the
    /// view.
    pub(crate) async fn check(&mut self) {
        self.patches.extend(self.reader.next().await.unwrap());
        let view = self.driver.view();
        let live: Vec<Arc<Block>> = view.blocks.iter().filter(|block| block.is_stored()).cloned().collect();
        assert!(live.iter().all(|block| block.closed), "{live:#?}");
        assert_eq!(rebuild(&self.session.entries().await.unwrap()), live);
        assert_eq!(replay(&self.patches), view);
    }

    /// Shown blocks, one per line.
    pub(crate) fn lines(&self) -> String {
        let view = self.driver.view();
        view.blocks.iter().map(|block| format!("{}\n", line(block))).collect()
    }

    pub(crate) fn calls(&self) -> Vec<Call> {
        let view = self.driver.view();
        view.blocks.iter().filter_map(|block| call(block).cloned()).collect()
    }
}

pub(crate) fn call(block: &Block) -> Option<&Call> {
    match &block.content {
        Content::Call(call) => Some(call),
        _ => None,
    }
}

/// Serialises and reads a log of patches, and replays it to a view.
pub(crate) fn replay(patches: &[Patch]) -> View {
    let mut view = View::default();
    for patch in patches {
        let json = serde_json::to_string(patch).unwrap();
        view.apply(&serde_json::from_str(&json).unwrap());
    }
    view
}

fn line(block: &Block) -> String {
    let what = match &block.content {
        Content::User { text, .. } => format!("› {text}"),
        Content::Injected { by, text } => format!("({by}) {text}"),
        Content::Thinking { text, .. } => format!("thinks: {text}"),
        Content::Answer { text, end } => format!("says: {text} {end:?}"),
        Content::Call(call) => {
            let body = call.body.as_ref();
            let lines: Vec<&str> =
                body.iter().flat_map(|body| &body.lines).map(|line| line.as_str()).collect();
            let total = body.map_or(0, |body| body.total_lines);
            format!("{:?} {} → {total}: {}", call.state, call.summary, lines.join(" / "))
        }
        Content::Provider { text } => format!("◦ {text}"),
        Content::Summary { text } => format!("summary: {text}"),
        Content::Plugin(plugin) => {
            let PluginBlock { source, kind, title, body } = &**plugin;
            format!("{source} {kind}: {title} ({} lines)", body.total_lines)
        }
        Content::End(end) => format!("end: {:?}, {} turns", end.status, end.turns),
        Content::Note { text, .. } => format!("note: {text}"),
    };
    let agent = block.agent.as_ref().map_or(String::new(), |agent| format!("[{}] ", agent.name));
    format!("{} {agent}{what}", block.id)
}

struct TestTool {
    spec: Arc<ToolSpec>,
    reads: bool,
}

impl TestTool {
    fn arc(name: &str, reads: bool) -> Arc<dyn Tool> {
        let schema = json!({"type": "object", "properties": {"text": {"type": "string"}}});
        Arc::new(Self { spec: ToolSpec::new(name, "A tool.", schema), reads })
    }
}

#[async_trait]
impl Tool for TestTool {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    async fn call(&self, call: &Approved, cx: &ToolCx) -> Result<ToolOutput, ToolError> {
        let text = call.args()["text"].as_str().unwrap_or_default().to_owned();
        match &*self.spec.name {
            "stuck" => std::future::pending().await,
            "fail" => Err(ToolError::failed(format!("it failed\n{text}"))),
            "run" => {
                cx.progress.show(&text);
                let lines: Vec<String> = text.lines().map(str::to_owned).collect();
                let exit = CommandExit::Code { code: 0 };
                let display = Display::Command { total_lines: lines.len() as u64, lines, exit };
                Ok(ToolOutput::text(text).with_display(display))
            }
            _ if text == "megabyte" => Ok(ToolOutput::text("y".repeat(1 << 20) + &"\nz".repeat(100))),
            _ => Ok(ToolOutput::text(text)),
        }
    }

    fn effects(&self, _: &Value, _: &CallPlace) -> Effects {
        if self.reads { Effects::none() } else { Effects::Unknown }
    }

    fn concurrency(&self, _: &Value) -> Concurrency {
        if self.reads { Concurrency::Shared } else { Concurrency::Exclusive }
    }

    fn summary(&self, args: &Value) -> String {
        format!("{} {}", self.spec.name, args["text"].as_str().unwrap_or_default())
    }
}
