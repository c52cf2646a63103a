use std::sync::Arc;

use serde_json::{Value, json};
use zk_agent::{Agent, AgentBuilder, Behavior, ToolSet};
use zk_compaction::{Tail, Window};
use zk_core::events::{
    AgentBeforeStart, BeforeStart, ContextTransform, MessageEnd, ProviderRequest, RequestPatch, ResultPatch,
    Ruling, SystemTransform, ToolAfter, ToolErrored, ToolGate, ToolPrepare, ToolTransform,
};
use zk_core::kernel::{BoxError, Bus, Cx, Plugin, Scope, plugin_fn};
use zk_core::model::{Block, Effects, Message, ThinkingLevel, ThinkingRequest, ToolContent, ToolOutput};
use zk_core::service::{FixedSection, NewSession, PromptSection, RunControl, SessionStore, section_order};
use zk_permission::{Mode, PermissionGate};
use zk_replay::{Recording, Replay, ReplayLog, compare};
use zk_session::{MemoryStore, Recorder};
use zk_testkit::{Script, ScriptedProvider};

use crate::support::{TestTool, model, tools};

/// Records the session that every change is tried on: a read, a write with a command, a failure, an answer.
async fn base() -> Recording {
    let session =
        MemoryStore::new().create(NewSession { id: None, cwd: "/".into(), parent: None }).await.unwrap();
    let script = Script::new()
        .turn(|t| t.text("Reading.").call("read", json!({"path": "a.rs"})))
        .turn(|t| t.call("write", json!({"path": "b.rs"})).call("shell", json!({"n": 1})))
        .turn(|t| t.call("fail", json!({})))
        .turn(|t| t.text("Done."));
    let bus = Bus::new();
    bus.install(&Recorder::new(session.clone())).unwrap();
    bus.install(&ReplayLog::new()).unwrap();
    let provider = Arc::new(ScriptedProvider::new(script).with_model(model()));
    let builder =
        with_tools(Agent::builder(provider).bus(bus).session(session.id().clone()).unguarded(), tools());
    let builder = builder.plugin(PermissionGate::new(Mode::All));
    let builder = builder.plugin(Window::default()).plugin(Tail::default().threshold(100_000));
    let agent = builder.system("You are helpful.").build().unwrap();
    agent.run("fix it").unwrap().wait().await;
    agent.close().await;
    Recording::of(&session.entries().await.unwrap())
}

fn with_tools(mut builder: AgentBuilder, tools: Vec<TestTool>) -> AgentBuilder {
    for tool in tools {
        builder = builder.tool(Arc::new(tool));
    }
    builder
}

/// Parts of the replayed agent that a change may replace.
struct Setup {
    tools: Vec<TestTool>,
    mode: Mode,
    threshold: usize,
    system: &'static str,
    set: ToolSet,
    behavior: Behavior,
    plugin: Option<Box<dyn Plugin>>,
}

impl Setup {
    fn of_base() -> Self {
        Self {
            tools: tools(),
            mode: Mode::All,
            threshold: 100_000,
            system: "You are helpful.",
            set: ToolSet::All,
            behavior: Behavior::default(),
            plugin: None,
        }
    }

    fn replay(self, recording: Recording) -> Replay {
        let Self { tools, mode, threshold, system, set, behavior, plugin } = self;
        Replay::new(recording).agent(move |builder| {
            let builder = with_tools(builder, tools).plugin(PermissionGate::new(mode));
            let builder =
                builder.plugin(Window::default()).plugin(Tail::default().threshold(threshold).keep_turns(1));
            let builder = builder.system(system).tools(set).behavior(behavior);
            match plugin {
                Some(plugin) => builder.plugin(Boxed(plugin)),
                None => builder,
            }
        })
    }
}

struct Boxed(Box<dyn Plugin>);

impl Plugin for Boxed {
    fn name(&self) -> &str {
        "changed"
    }

    fn register(&self, scope: &Scope) -> Result<(), BoxError> {
        self.0.register(scope)
    }
}

fn plugin(register: impl Fn(&Scope) + Send + Sync + 'static) -> Setup {
    let plugin = plugin_fn("changed", move |scope: &Scope| {
        register(scope);
        Ok::<(), BoxError>(())
    });
    Setup { plugin: Some(Box::new(plugin)), ..Setup::of_base() }
}

/// A name, the change, and the beginning of the first difference.
type Case = (&'static str, fn() -> Setup, &'static str);

fn rewrite(tool: &'static str) -> Setup {
    plugin(move |scope| {
        scope.on_sync(move |prepare: &ToolPrepare, _: &Cx| {
            (prepare.call.name == tool).then(|| json!({"path": "/tmp/elsewhere"}))
        });
    })
}

fn refuse(tool: &'static str) -> Setup {
    plugin(move |scope| {
        scope.on_sync(move |gate: &ToolGate, _: &Cx| {
            (gate.call.name == tool).then(|| Ruling::refuse("not today"))
        });
    })
}

fn change_result(tool: &'static str) -> Setup {
    plugin(move |scope| {
        scope.on_sync(move |transform: &ToolTransform, _: &Cx| {
            let content = Some(ToolContent::Text("something else".to_owned()));
            (transform.call.name == tool).then(|| ResultPatch { content, ..ResultPatch::default() })
        });
    })
}

fn described() -> Vec<TestTool> {
    let mut tools = tools();
    tools[0] = TestTool::new("read", |_| Effects::none(), |_| Ok(String::new())).described("reads a file");
    tools
}

const CASES: [Case; 22] = [
    ("argument of a read", || rewrite("read"), "turn 1: call `read` (call_1): arguments differ at /path"),
    ("argument of a command", || rewrite("shell"), "turn 2: call `shell` (call_3): arguments differ at /n"),
    ("read refused", || refuse("read"), "turn 1: call `read` (call_1): the rules allowed it, now"),
    ("write refused", || refuse("write"), "turn 2: call `write` (call_2): the rules allowed it, now"),
    (
        "mode",
        || Setup { mode: Mode::ReadOnly, ..Setup::of_base() },
        "turn 2: call `write` (call_2): the rules allowed it, now the rules refuse it",
    ),
    (
        "mode that asks",
        || Setup { mode: Mode::Ask, ..Setup::of_base() },
        "turn 2: call `write` (call_2): the rules allowed it, now a person would be asked",
    ),
    (
        "result of a read",
        || change_result("read"),
        "turn 1: call `read` (call_1): the result differs in line 1",
    ),
    ("result of a command", || change_result("shell"), "turn 2: call `shell` (call_3): the result differs"),
    ("result of a failure", || change_result("fail"), "turn 3: call `fail` (call_4): the result differs"),
    (
        "error answered",
        || {
            plugin(|scope| {
                scope.on_sync(|_: &ToolErrored, _: &Cx| Some(ToolContent::Text("no such file".to_owned())));
            })
        },
        "turn 3: call `fail` (call_4): the result no longer counts as an error",
    ),
    (
        "substitute",
        || {
            plugin(|scope| {
                scope.on_sync(|gate: &ToolGate, _: &Cx| {
                    (gate.call.name == "shell").then(|| Ruling::Substitute(ToolOutput::text("cached")))
                });
            })
        },
        "turn 2: call `shell` (call_3): the rules allowed it, now it does not run",
    ),
    (
        "system prompt",
        || Setup { system: "You are terse.", ..Setup::of_base() },
        "request 1: system prompt differs in section `system` (16 bytes, now 14)",
    ),
    (
        "section",
        || {
            plugin(|scope| {
                let section = FixedSection::new(section_order::PROJECT, "Write tests first.");
                scope.provide::<dyn PromptSection>("house-rules", Arc::new(section)).unwrap();
            })
        },
        "request 1: system prompt has a new section `house-rules` (18 bytes)",
    ),
    (
        "system prompt in a later turn",
        || {
            plugin(|scope| {
                scope.on_sync(|system: &SystemTransform, _: &Cx| {
                    (system.turn == 3).then(|| format!("{} Hurry.", system.system))
                });
            })
        },
        "request 3: system prompt differs",
    ),
    (
        "dropped tool",
        || Setup {
            set: ToolSet::Except(Box::new(ToolSet::All), vec!["write".to_owned()]),
            ..Setup::of_base()
        },
        "request 1: tools changed: −write",
    ),
    (
        "added tool",
        || {
            let mut setup = Setup::of_base();
            setup.tools.push(TestTool::new("extra", |_| Effects::none(), |_| Ok(String::new())));
            setup
        },
        "request 1: tools changed: +extra",
    ),
    (
        "description",
        || Setup { tools: described(), ..Setup::of_base() },
        "request 1: tools changed: read has another description or schema",
    ),
    ("compaction", || Setup { threshold: 50, ..Setup::of_base() }, "turn 3: the context is now reduced here"),
    (
        "history",
        || {
            plugin(|scope| {
                scope.on_sync(|context: &ContextTransform, _: &Cx| {
                    let mut messages = context.messages.clone();
                    if messages.len() > 3 {
                        messages.push(Message::injected("be quick", "changed").shared());
                        return Some(messages);
                    }
                    None
                });
            })
        },
        "request 3: history differs from message",
    ),
    (
        "steering",
        || {
            plugin(|scope| {
                scope.on_sync(|after: &ToolAfter, cx: &Cx| {
                    if after.call.name == "fail"
                        && let Some(control) = cx.service::<dyn RunControl>()
                    {
                        control.steer(Message::injected("try again", "changed")).unwrap();
                    }
                });
            })
        },
        "turn 3: a message of changed is added: try again",
    ),
    (
        "answer",
        || {
            plugin(|scope| {
                scope.on_sync(|end: &MessageEnd, _: &Cx| {
                    (end.message.text() == "Done.").then(|| vec![Block::text("Done!")])
                });
            })
        },
        "turn 4: the answer differs in line 1: recorded `Done.`, now `Done!`",
    ),
    (
        "turn limit",
        || Setup { behavior: Behavior { max_turns: Some(2), ..Behavior::default() }, ..Setup::of_base() },
        "turn 3: the recorded answer is no longer asked for",
    ),
];

#[tokio::test(start_paused = true)]
async fn each_seeded_change_is_found_at_its_first_difference() {
    let recording = base().await;
    let unchanged = Setup::of_base().replay(recording.clone()).run().await.unwrap();
    let same: Vec<String> = compare(&recording, &unchanged).iter().map(ToString::to_string).collect();
    assert!(same.is_empty(), "{same:#?}");
    let mut wrong = Vec::new();
    for (name, change, expected) in CASES {
        let run = change().replay(recording.clone()).run().await.unwrap();
        let found: Vec<String> = compare(&recording, &run).iter().map(ToString::to_string).collect();
        if !found.first().is_some_and(|first| first.starts_with(expected)) {
            wrong.push(format!("{name}: expected {expected}, found {found:#?}"));
        }
        let again = change().replay(recording.clone()).run().await.unwrap();
        let again: Vec<String> = compare(&recording, &again).iter().map(ToString::to_string).collect();
        assert_eq!(found, again, "{name}: a replay is deterministic");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test(start_paused = true)]
async fn added_context_and_other_reasoning_are_found() {
    let recording = base().await;
    let added = plugin(|scope| {
        scope.on_sync(|_: &AgentBeforeStart, _: &Cx| {
            let messages = vec![Message::injected("remember the style", "changed")];
            Some(BeforeStart { messages, ..BeforeStart::default() })
        });
    });
    let run = added.replay(recording.clone()).run().await.unwrap();
    let first = compare(&recording, &run)[0].to_string();
    assert_eq!(first, "run 1: a message of changed is added: remember the style");
    let thinking = plugin(|scope| {
        scope.on_sync(|_: &ProviderRequest, _: &Cx| {
            let thinking = Some(ThinkingRequest { level: ThinkingLevel::High, budget: None });
            Some(RequestPatch { thinking, ..RequestPatch::default() })
        });
    });
    let run = thinking.replay(recording.clone()).run().await.unwrap();
    let found = compare(&recording, &run);
    assert_eq!(found[0].to_string(), "request 1: asks for thinking high instead of off");
    let json: Value = serde_json::to_value(&found[0]).unwrap();
    assert_eq!(
        json,
        json!({"run": 1, "request": 1, "difference": "thinking", "recorded": "off", "replayed": "high"})
    );
}

#[tokio::test(start_paused = true)]
async fn answers_of_another_recording_are_compared_with_this_one() {
    let recording = base().await;
    let mut other = recording.clone();
    let last = other.runs[0].turns.last_mut().unwrap();
    last.answer =
        Message { content: vec![Block::text("Finished.")], ..Message::clone(&last.answer) }.shared();
    let run = Setup::of_base().replay(recording.clone()).answered_by(other).run().await.unwrap();
    let found: Vec<String> = compare(&recording, &run).iter().map(ToString::to_string).collect();
    assert_eq!(found, ["turn 4: the answer differs in line 1: recorded `Done.`, now `Finished.`"]);
}
