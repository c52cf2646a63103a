//! Sessions of many shapes: a seed decides about tools, errors, parallel calls, steering, aborts, compaction and failed answers.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde_json::{Value, json};
use zk_agent::{Agent, AgentBuilder, AgentDefinition, SpawnOptions};
use zk_compaction::{Tail, Window};
use zk_core::events::{SessionEnd, SessionEntry, SessionMessages, StreamEnd, ToolBegin, ToolEnd};
use zk_core::kernel::{AnyEvent, Bus, Cx, Reach};
use zk_core::model::{
    Approved, Concurrency, Disclosure, Effects, ErrorKind, Model, ToolError, ToolOutput, ToolSpec, Usage,
};
use zk_core::service::{
    CallPlace, Entry, EntryKind, NewSession, RunControl, SessionStore, SideCall, Tool, ToolCx,
};
use zk_replay::{Recording, Replay, ReplayError, ReplayLog};
use zk_session::{MemoryStore, Recorder};
use zk_testkit::{Script, ScriptedProvider, Turn};
use zk_view::ViewDriver;

/// Callback during a call.
type Meanwhile = Arc<dyn Fn(&Cx) + Send + Sync>;

/// Tool of a test: its declaration and its answers.
pub(crate) struct TestTool {
    spec: Arc<ToolSpec>,
    effects: fn(&Value) -> Effects,
    answer: fn(&Value) -> Result<String, String>,
    /// Runs in the live session only.
    meanwhile: Option<Meanwhile>,
}

impl TestTool {
    pub(crate) fn new(
        name: &str,
        effects: fn(&Value) -> Effects,
        answer: fn(&Value) -> Result<String, String>,
    ) -> Self {
        let schema =
            json!({"type": "object", "properties": {"path": {"type": "string"}, "n": {"type": "integer"}}});
        let (name, description) = (name.to_owned(), "a tool of a test".to_owned());
        let spec = ToolSpec { name, description, schema, disclosure: Disclosure::Always };
        Self { spec: Arc::new(spec), effects, answer, meanwhile: None }
    }

    /// Sets the description.
    pub(crate) fn described(mut self, description: &str) -> Self {
        self.spec = Arc::new(ToolSpec { description: description.to_owned(), ..ToolSpec::clone(&self.spec) });
        self
    }
}

#[async_trait]
impl Tool for TestTool {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn effects(&self, args: &Value, _: &CallPlace) -> Effects {
        (self.effects)(args)
    }

    fn concurrency(&self, _: &Value) -> Concurrency {
        Concurrency::Shared
    }

    async fn call(&self, call: &Approved, cx: &ToolCx) -> Result<ToolOutput, ToolError> {
        if let Some(meanwhile) = &self.meanwhile {
            meanwhile(&cx.cx);
        }
        (self.answer)(call.args()).map(ToolOutput::text).map_err(ToolError::failed)
    }
}

fn path_of(args: &Value) -> Vec<PathBuf> {
    vec![PathBuf::from(args["path"].as_str().unwrap_or("."))]
}

/// The tools of all sessions: `read`, `write`, `shell` and `fail`.
pub(crate) fn tools() -> Vec<TestTool> {
    vec![
        TestTool::new(
            "read",
            |args| Effects::reads(path_of(args)),
            |args| Ok(format!("content of {}\n{}", args["path"], "line of the file\n".repeat(4))),
        ),
        TestTool::new(
            "write",
            |args| Effects::writes(path_of(args)),
            |args| Ok(format!("wrote {}", args["path"])),
        ),
        TestTool::new("shell", |_| Effects::executes("make test"), |_| Ok("all 12 tests passed".to_owned())),
        TestTool::new("fail", |_| Effects::none(), |_| Err("no such file".to_owned())),
    ]
}

/// Knowledge of the model of every session.
pub(crate) fn model() -> Model {
    Model { window: Some(200_000), ..Model::unknown("", "") }
}

/// A recorded session, and the events that were emitted when it was recorded.
pub(crate) struct Live {
    pub(crate) entries: Vec<Entry>,
    pub(crate) events: Vec<(String, Value)>,
    pub(crate) blocks: Vec<Value>,
}

/// Names of the events that a session stores.
const STORED: [&str; 10] = [
    "session:start",
    "session:messages",
    "session:open-turn",
    "tool:begin",
    "tool:end",
    "tool-results:after",
    "side-call:end",
    "session:entry",
    "session:end",
    "thinking:select",
];

/// The stored fields of an event; `None` for an event that no session stores.
pub(crate) fn stored(event: &dyn AnyEvent) -> Option<(String, Value)> {
    if !STORED.contains(&event.name()) {
        return None;
    }
    if event.downcast::<ToolBegin>().is_some_and(|begin| begin.read_only) {
        return None;
    }
    let mut data = event.to_json().unwrap();
    let fields = data.as_object_mut()?;
    for field in ["session_id", "effects", "title", "kind", "locations", "exit_code"] {
        fields.remove(field);
    }
    if let Some(end) = event.downcast::<ToolEnd>() {
        assert_eq!(end.exit_code, None);
    }
    // Positions in the history, which a repaired history moves.
    if event.downcast::<SessionEnd>().is_some() {
        fields.remove("from");
        fields.remove("to");
        fields.remove("entries");
    }
    if event.name() == "session:start" {
        fields.remove("messages");
    }
    if let Some(messages) = event.downcast::<SessionMessages>() {
        assert!(messages.usage.is_some() || !messages.messages.is_empty());
    }
    Some((event.name().to_owned(), data))
}

/// Parts of a session that a seed turns on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape(pub(crate) u64);

impl Shape {
    fn has(self, bit: u32) -> bool {
        self.0 >> bit & 1 == 1
    }

    /// Plugins and options of the session; the same for the replay of it.
    pub(crate) fn set_up(self, mut builder: AgentBuilder) -> AgentBuilder {
        builder = builder.system("You are helpful.");
        if self.has(0) {
            builder = builder.plugin(Window::default()).plugin(Tail::default().threshold(700).keep_turns(1));
        }
        if self.has(1) {
            builder = builder.spawn(SpawnOptions::default()).sub_agent(helper());
        }
        builder
    }

    fn script(self) -> Script {
        let mut draw = fastrand::Rng::with_seed(self.0);
        let shape = self;
        let mut script = Script::new();
        for run in 0..1 + self.0 % 3 {
            let turns = draw.u32(1..5);
            for turn in 0..turns {
                let (kind, calls) = (draw.u32(..), draw.u32(1..4));
                script = script.turn(move |mut t| {
                    t = t.usage(Usage { input: 100 + u64::from(turn), output: 7, ..Usage::default() });
                    if kind % 2 == 0 {
                        t = t.thinking(format!("thought {turn}"));
                    }
                    t = t.text(format!("step {run}.{turn}"));
                    for call in 0..calls {
                        t = shape.call(t, kind.wrapping_add(call));
                    }
                    t
                });
            }
            if self.has(1) && run == 0 {
                script = script
                    .turn(|t| t.call("spawn", json!({"agent": "helper", "prompt": "look"})))
                    .turn(|t| t.text("The helper looked."));
            }
            script = match (self.has(2), run) {
                (true, 1) => script.turn(|t| t.text("half an ans").error(ErrorKind::Rejected, "broken")),
                (true, 2) => script.turn(|t| t.error(ErrorKind::Rejected, "nothing")),
                _ => script.turn(move |t| {
                    t.text(format!("Done with {run}.")).usage(Usage { input: 9, ..Usage::default() })
                }),
            };
        }
        script.forever(|_| Turn::new().text("Understood."))
    }

    fn call(self, turn: Turn, kind: u32) -> Turn {
        match kind % 7 {
            0 | 1 => turn.call("read", json!({"path": format!("src/{kind}.rs")})),
            2 => turn.call("write", json!({"path": "out.txt"})),
            3 => turn.call("shell", json!({"n": 3})),
            4 => turn.call("fail", json!({})),
            5 => turn.call("read", json!({"path": "a", "n": "12"})),
            _ if self.has(3) => turn.raw_call("read", "{\"path\": "),
            _ => turn.call("no_such_tool", json!({})),
        }
    }
}

fn helper() -> AgentDefinition {
    AgentDefinition::new("helper", "looks", "You look.")
}

/// Records a session of this shape through the real loop.
pub(crate) async fn record(shape: Shape) -> Live {
    let store = MemoryStore::new();
    let session = store.create(NewSession { id: None, cwd: "/".into(), parent: None }).await.unwrap();
    let provider = ScriptedProvider::new(shape.script()).with_model(model());
    let (bus, view) = (Bus::new(), ViewDriver::new());
    bus.install(&Recorder::new(session.clone())).unwrap();
    bus.install(&ReplayLog::new()).unwrap();
    bus.install(&view).unwrap();
    let events: Arc<Mutex<Vec<(String, Value)>>> = Arc::default();
    let (seen, held) = (events.clone(), Mutex::new(Vec::new()));
    let _ = bus.scope("test").observe_at(Reach::Own, move |event, _| {
        let mut seen = seen.lock().unwrap();
        // Replayed events have each of these entries on its own.
        for entry in event.downcast::<SessionEnd>().iter().flat_map(|end| &end.entries) {
            seen.extend(stored(&SessionEntry { entry: entry.clone() }));
        }
        // A call that only reads is stored with the results of its turn.
        if event.downcast::<ToolEnd>().is_some_and(|end| end.read_only) {
            held.lock().unwrap().extend(stored(event));
            return;
        }
        if event.name() == "tool-results:after" {
            seen.append(&mut held.lock().unwrap());
        }
        seen.extend(stored(event));
    });
    let happened = Arc::new(Mutex::new(0_u32));
    let mut builder =
        Agent::builder(Arc::new(provider)).bus(bus.clone()).session(session.id().clone()).unguarded();
    for mut tool in tools() {
        if tool.spec.name != "read" {
            let happened = happened.clone();
            tool.meanwhile = Some(Arc::new(move |cx: &Cx| {
                let mut happened = happened.lock().unwrap();
                *happened += 1;
                let Some(control) = cx.service::<dyn RunControl>() else { return };
                match *happened {
                    1 if shape.has(4) => {
                        drop(control.steer(zk_core::model::Message::injected("and the docs", "steer")))
                    }
                    2 if shape.has(5) => {
                        drop(
                            control.follow_up(zk_core::model::Message::injected("then commit", "follow-up")),
                        );
                    }
                    3 if shape.has(6) => control.abort("escape"),
                    _ => {}
                }
            }));
        }
        builder = builder.tool(Arc::new(tool));
    }
    if shape.has(7) {
        let _ = bus.scope("titles").on_async(async |_: &StreamEnd, cx: &Cx| {
            if cx.origin().depth > 0 {
                return;
            }
            if let Some(control) = cx.service::<dyn RunControl>() {
                let _ = control
                    .side_call(SideCall::new(&zk_core::kernel::Source::new("titles"), "title", "a title"))
                    .await;
            }
        });
    }
    let agent = shape.set_up(builder).build().unwrap();
    for prompt in ["fix the test", "now the docs", "and the rest"].iter().take(1 + (shape.0 % 3) as usize) {
        agent.run(*prompt).unwrap().wait().await;
    }
    agent.close().await;
    bus.close().await;
    let shown = view.view();
    let kept = shown.blocks.iter().filter(|block| block.is_stored());
    let blocks = kept.map(|block| serde_json::to_value(block).unwrap()).collect();
    let mut events = std::mem::take(&mut *events.lock().unwrap());
    let entries = session.entries().await.unwrap();
    // A stop may overtake the announcement of a call, which then neither is stored nor runs.
    let is_stored = |call: &Value| {
        let is_it = |kind: &EntryKind| matches!(kind, EntryKind::CallBegin { call_id, .. } if call == call_id.as_str());
        entries.iter().any(|entry| is_it(&entry.kind))
    };
    events.retain(|(name, data)| name != "tool:begin" || is_stored(&data["call"]["call_id"]));
    Live { entries, events, blocks }
}

/// Replays a recording with the tools and plugins of its shape.
pub(crate) fn replay_of(recording: Recording, shape: Shape) -> Replay {
    Replay::new(recording).agent(move |mut builder| {
        for tool in tools() {
            builder = builder.tool(Arc::new(tool));
        }
        shape.set_up(builder)
    })
}

/// Replays unchanged.
pub(crate) async fn replayed(recording: &Recording, shape: Shape) -> Result<Recording, ReplayError> {
    replay_of(recording.clone(), shape).run().await
}
