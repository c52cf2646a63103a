//! An agent from its making to its end.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::json;
use zk_agent::{Agent, RunOptions};
use zk_core::events::{
    AgentBeforeStart, AgentWarmUp, BeforeStart, Input, InputReply, ModelSelect, TurnAfter,
};
use zk_core::kernel::{BoxError, Bus, Cx, Plugin, plugin_fn};
use zk_core::model::{AgentError, Block, Image, Message, Model, ToolOutput, WireRules};
use zk_core::service::{ContextId, EventStream, Provider, Request};
use zk_testkit::{Script, ScriptedProvider, Turn};

use crate::support::{TestTool, assert_lines, rig, rig_with, told};

fn chatty() -> Script {
    Script::answering(|asked| Turn::new().text(format!("answer {}", asked.number)))
}

fn is_usage(error: &AgentError, part: &str) -> bool {
    matches!(error, AgentError::Usage(text) if text.contains(part))
}

#[tokio::test]
async fn a_second_run_while_one_is_going_on_is_an_error() {
    let rig = rig(chatty());
    let run = rig.agent.run("go").unwrap();
    let error = rig.agent.run("me too").unwrap_err();
    assert!(is_usage(&error, "is running"), "{error}");
    assert!(is_usage(&rig.agent.reset().unwrap_err(), "is running"));
    assert!(is_usage(&rig.agent.inject(Message::user_text("x")).unwrap_err(), "is running"));
    run.wait().await.result.unwrap();
    rig.run("now").await.result.unwrap();
}

#[tokio::test]
async fn an_agent_connects_to_nothing_until_it_is_warmed_up_and_then_once() {
    let connected: Arc<Mutex<usize>> = Arc::default();
    let plugin = |count: Arc<Mutex<usize>>| {
        plugin_fn("server", move |scope| {
            let count = count.clone();
            scope.on_async_with(count, async |count: &Arc<Mutex<usize>>, warm: &AgentWarmUp, _: &Cx| {
                assert_eq!(&*warm.model.provider, "scripted");
                tokio::task::yield_now().await;
                *count.lock().unwrap() += 1;
            });
            Ok(())
        })
    };
    let build = |eager: bool| {
        let builder = Agent::builder(Arc::new(ScriptedProvider::new(chatty())));
        let builder = builder.plugin(plugin(connected.clone()));
        if eager { builder.eager() } else { builder }.build().unwrap()
    };
    let agent = build(false);
    tokio::task::yield_now().await;
    assert_eq!(*connected.lock().unwrap(), 0);
    let (first, second) = tokio::join!(agent.warm_up(), agent.warm_up());
    assert!(first.is_ok() && second.is_ok());
    agent.warm_up().await.unwrap();
    assert_eq!(*connected.lock().unwrap(), 1);
    // A plugin that should be warm from the start is not awaited, and joins later.
    let eager = build(true);
    assert_eq!(*connected.lock().unwrap(), 1);
    eager.warm_up().await.unwrap();
    tokio::task::yield_now().await;
    assert_eq!(*connected.lock().unwrap(), 2);
    agent.close().await;
    eager.close().await;
}

#[test]
fn an_agent_that_was_built_without_a_runtime_is_warmed_up_by_its_first_run() {
    let warm: Arc<Mutex<bool>> = Arc::default();
    let seen = warm.clone();
    let plugin = plugin_fn("server", move |scope| {
        let seen = seen.clone();
        scope.on_sync(move |_: &AgentWarmUp, _: &Cx| *seen.lock().unwrap() = true);
        Ok(())
    });
    let provider = ScriptedProvider::new(chatty());
    let agent = Agent::builder(Arc::new(provider)).plugin(plugin).eager().build().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { agent.run("go").unwrap().wait().await.result.unwrap() });
    assert!(*warm.lock().unwrap());
}

// A prompt is required unless the history ends with the user; then there is no `session:messages`.
#[tokio::test]
async fn a_run_without_a_prompt_resumes_only_what_waits_for_an_answer() {
    let rig = rig(chatty());
    for nothing in [RunOptions::resume(), RunOptions::from(" \n"), RunOptions::prompt(Vec::new())] {
        assert!(is_usage(&rig.agent.run(nothing).unwrap_err(), "nothing to do"));
    }
    rig.run("go").await.result.unwrap();
    assert!(is_usage(&rig.agent.run(RunOptions::resume()).unwrap_err(), "nothing to do"));
    rig.agent.inject(Message::user_text("a note")).unwrap();
    rig.recorder.clear();
    rig.run(RunOptions::resume()).await.result.unwrap();
    let causes: Vec<_> = rig.recorder.named("session:messages").iter().map(|e| e["cause"].clone()).collect();
    assert_eq!(causes, ["harness", "answer"]);
    assert_eq!(rig.recorder.named("input").len(), 0);
}

// A conversation continues from its last state, also in another process.
#[tokio::test]
async fn a_conversation_continues_from_a_given_history() {
    let history = vec![Message::user_text("go").identified().shared()];
    let provider = ScriptedProvider::new(chatty());
    let agent = Agent::builder(Arc::new(provider.clone())).history(history.clone()).build().unwrap();
    let outcome = agent.run(RunOptions::resume()).unwrap().wait().await;
    outcome.result.unwrap();
    assert!(Arc::ptr_eq(&agent.history()[0], &history[0]));
    assert_lines(&told(&agent.history()), "user: go\nmodel: answer 1");
}

#[tokio::test]
async fn a_handler_may_deal_with_the_input_itself() {
    let rig = rig(chatty());
    rig.scope("commands")
        .on_sync(|input: &Input, _: &Cx| input.text.starts_with('/').then_some(InputReply::Handled));
    let outcome = rig.run("/help").await;
    outcome.result.unwrap();
    assert_eq!((outcome.text.as_str(), outcome.stats.turns), ("", 0));
    assert_eq!(rig.agent.history().len(), 0);
    assert_eq!(rig.names(&["agent:done"]), ["agent:done"]);
    rig.run("help").await.result.unwrap();
}

#[tokio::test]
async fn handlers_transform_the_input_one_after_the_other() {
    let rig = rig(chatty());
    let scope = rig.scope("expanders");
    let append = |what: &'static str| {
        move |input: &Input, _: &Cx| {
            Some(InputReply::Transform { text: format!("{}{what}", input.text), images: None })
        }
    };
    scope.on_sync(append(" b"));
    scope.on_sync(append(" c"));
    let image = Block::Image(Image::new("image/png", "AAAA"));
    rig.run(RunOptions::prompt(vec![image, Block::text("a")])).await.result.unwrap();
    assert_lines(&told(&rig.agent.history()), "user: a b c | [image]\nmodel: answer 1");
}

#[tokio::test]
async fn images_that_a_handler_of_the_input_gives_take_the_place_of_those_of_the_prompt() {
    let image = |data: &str| Image::new("image/png", data);
    for images in [vec![], vec![image("BBBB"), image("CCCC")]] {
        let rig = rig(chatty());
        let given = images.clone();
        rig.scope("painter").on_sync(move |input: &Input, _: &Cx| {
            Some(InputReply::Transform { text: input.text.clone(), images: Some(given.clone()) })
        });
        let prompt = vec![Block::Image(image("AAAA")), Block::text("a")];
        rig.run(RunOptions::prompt(prompt)).await.result.unwrap();
        let sent = rig.agent.history()[0].content.clone();
        let sent: Vec<&Block> = sent.iter().filter(|block| matches!(block, Block::Image(_))).collect();
        let images: Vec<Block> = images.into_iter().map(Block::Image).collect();
        assert_eq!(sent, images.iter().collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn an_input_that_is_transformed_away_is_an_error() {
    let rig = rig(chatty());
    rig.scope("eraser")
        .on_sync(|_: &Input, _: &Cx| Some(InputReply::Transform { text: String::new(), images: None }));
    let error = rig.run("go").await.result.unwrap_err();
    assert!(is_usage(&error, "nothing of the prompt"), "{error}");
    assert_eq!(rig.agent.history().len(), 0);
}

// Messages are collected, the system prompt is chained.
#[tokio::test]
async fn before_start_adds_messages_and_chains_the_system_prompt() {
    let rig = rig_with(chatty(), |b| b.system("Base."));
    let scope = rig.scope("context");
    for name in ["one", "two"] {
        scope.on_sync(move |start: &AgentBeforeStart, _: &Cx| {
            Some(BeforeStart {
                messages: vec![Message::injected(format!("note {name}"), "context")],
                system: Some(format!("{} {name}.", start.system)),
            })
        });
    }
    rig.run("go").await.result.unwrap();
    assert_eq!(rig.provider.asked()[0].system, "Base. one. two.");
    assert_lines(
        &told(&rig.agent.history()),
        "user: go
        user [context]: note one
        user [context]: note two
        model: answer 1",
    );
    // For that run only: the next one begins with the agent's own prompt again.
    rig.run("again").await.result.unwrap();
    assert_eq!(rig.provider.asked()[1].system, "Base. one. two.");
}

// Only with the run's own prompt, which cannot be changed.
#[tokio::test]
async fn system_before_tells_of_the_runs_own_prompt() {
    let rig = rig_with(chatty(), |b| b.system("Base."));
    rig.run("go").await.result.unwrap();
    rig.run(RunOptions::from("go").system("Other.")).await.result.unwrap();
    let told = rig.recorder.named("system:before");
    assert_eq!(told.len(), 1);
    assert_eq!(told[0]["system"], "Other.");
    assert_eq!(rig.provider.asked()[1].system, "Other.");
}

#[tokio::test]
async fn reset_forgets_and_wait_for_idle_waits() {
    let rig = rig(chatty());
    rig.agent.wait_for_idle().await;
    let mut run = rig.agent.run("go").unwrap();
    run.start();
    rig.agent.wait_for_idle().await;
    assert_eq!(rig.agent.history().len(), 2);
    rig.agent.reset().unwrap();
    assert_eq!(rig.agent.history().len(), 0);
    run.wait().await.result.unwrap();
}

#[tokio::test]
async fn a_model_can_be_chosen_for_a_run_or_from_now_on() {
    let rig = rig(chatty());
    let (a, b) = (rig.provider.model("a"), rig.provider.model("b"));
    rig.run(RunOptions::from("one").model(a)).await.result.unwrap();
    rig.agent.set_model(b).await.unwrap();
    rig.run("two").await.result.unwrap();
    let models: Vec<String> = rig.provider.asked().into_iter().map(|one| one.model).collect();
    assert_eq!(models, ["a", "b"]);
    assert_eq!(rig.recorder.of::<ModelSelect>()[0]["to"]["model"], "b");
    let stranger = rig.agent.set_model(Model::unknown("elsewhere", "m")).await.unwrap_err();
    assert!(is_usage(&stranger, "`elsewhere`"), "{stranger}");
    assert_eq!(rig.agent.model().id, "b");
}

#[tokio::test]
async fn a_model_that_is_chosen_during_a_run_answers_from_its_next_turn_on() {
    let script = Script::answering(|asked| match asked.number {
        1 => Turn::new().call("look", json!({})),
        _ => Turn::new().text("Seen."),
    });
    let chosen: Arc<Mutex<Option<Agent>>> = Arc::default();
    let agent = chosen.clone();
    let look = TestTool::new("look", move |_, _| {
        let agent = agent.lock().unwrap().clone().unwrap();
        async move {
            agent.set_model(Model::unknown("scripted", "larger")).await.unwrap();
            Ok(ToolOutput::text("a file"))
        }
    });
    let rig = rig_with(script, |builder| builder.tool(look.arc()));
    *chosen.lock().unwrap() = Some(rig.agent.clone());
    rig.run(RunOptions::from("go").model(rig.provider.model("small"))).await.result.unwrap();
    let models: Vec<String> = rig.provider.asked().into_iter().map(|one| one.model).collect();
    assert_eq!(models, ["small", "larger"]);
    chosen.lock().unwrap().take();
}

#[tokio::test]
async fn a_model_of_another_registered_provider_answers() {
    let rig = rig(chatty());
    let other = ScriptedProvider::new(Script::new().turn(|t| t.text("from elsewhere"))).named("other");
    rig.scope("host").provide::<dyn Provider>("other", Arc::new(other.clone())).unwrap();
    let outcome = rig.run(RunOptions::from("go").model(other.model("m"))).await;
    outcome.result.unwrap();
    assert_eq!(outcome.text, "from elsewhere");
}

/// Counts the requests that go through it.
struct Counted {
    inner: Arc<dyn Provider>,
    requests: Arc<AtomicUsize>,
}

impl Provider for Counted {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn inner(&self) -> Option<&dyn Provider> {
        Some(&*self.inner)
    }

    fn model(&self, id: &str) -> Model {
        self.inner.model(id)
    }

    fn rules(&self, model: &Model) -> WireRules {
        self.inner.rules(model)
    }

    fn stream(&self, request: Request, cx: &Cx) -> EventStream {
        self.requests.fetch_add(1, Ordering::SeqCst);
        self.inner.stream(request, cx)
    }
}

#[tokio::test]
async fn a_decorator_wraps_the_provider_that_the_agent_was_built_with() {
    let rig = rig(chatty());
    let requests = Arc::new(AtomicUsize::new(0));
    let (scope, counted) = (rig.scope("counting"), requests.clone());
    scope.decorate::<dyn Provider>(rig.provider.name(), move |inner| {
        Arc::new(Counted { inner, requests: counted.clone() })
    });
    rig.run("one").await.result.unwrap();
    rig.run("two").await.result.unwrap();
    assert_eq!(requests.load(Ordering::SeqCst), 2);
    scope.close().await;
    rig.run("three").await.result.unwrap();
    assert_eq!((requests.load(Ordering::SeqCst), rig.provider.asked().len()), (2, 3));
}

#[tokio::test]
async fn a_plugin_that_does_not_install_fails_the_build() {
    let provider = Arc::new(ScriptedProvider::new(Script::new()));
    let failing = plugin_fn("broken", |_| Err::<(), BoxError>("no config".into()));
    let error = Agent::builder(provider).plugin(failing).build().unwrap_err();
    assert!(is_usage(&error, "no config"), "{error}");
}

/// A plugin whose clean-ups are written down.
fn cleaning(name: &'static str, log: &Arc<Mutex<Vec<String>>>) -> impl Plugin + 'static {
    let log = log.clone();
    plugin_fn(name, move |scope| {
        for number in ["first", "second"] {
            let log = log.clone();
            scope.on_close(async move || log.lock().unwrap().push(format!("{name} {number}")));
        }
        Ok(())
    })
}

#[tokio::test]
async fn closing_an_agent_runs_the_clean_ups_newest_first_and_it_runs_nothing_any_more() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let rig = rig_with(chatty(), |b| b.plugin(cleaning("one", &log)).plugin(cleaning("two", &log)));
    rig.run("go").await.result.unwrap();
    rig.agent.close().await;
    assert_eq!(*log.lock().unwrap(), ["two second", "two first", "one second", "one first"]);
    let late = rig.agent.run("more").unwrap().wait().await;
    assert!(matches!(late.result, Err(AgentError::Aborted)));
}

#[tokio::test]
async fn closing_an_agent_closes_what_it_opened_and_leaves_the_bus_it_was_given_open() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let bus = Bus::new();
    bus.install(&cleaning("host", &log)).unwrap();
    let rig = rig_with(chatty(), |b| b.bus(bus.clone()).plugin(cleaning("own", &log)));
    rig.run("go").await.result.unwrap();
    rig.agent.close().await;
    assert_eq!(*log.lock().unwrap(), ["own second", "own first"]);
    let next = rig_with(chatty(), |b| b.bus(bus.clone()).plugin(cleaning("own", &log)));
    next.run("go").await.result.unwrap();
    bus.close().await;
    assert!(log.lock().unwrap().contains(&"host first".to_owned()));
}

#[tokio::test]
async fn a_build_that_fails_leaves_nothing_on_the_bus_it_was_given() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let bus = Bus::new();
    let build = |schema: serde_json::Value| {
        let provider = Arc::new(ScriptedProvider::new(chatty()));
        let tool = TestTool::new("take", async |_, _| Ok(ToolOutput::text(""))).schema(schema).arc();
        Agent::builder(provider).unguarded().bus(bus.clone()).plugin(cleaning("own", &log)).tool(tool).build()
    };
    let before = bus.describe().len();
    let error = build(json!({"type": "array"})).unwrap_err().to_string();
    assert!(error.contains("schema of tool `take`"), "{error}");
    assert_eq!(bus.describe().len(), before);
    build(json!({"type": "object"})).unwrap();
}

#[tokio::test]
async fn a_tool_whose_name_no_provider_takes_fails_the_build_unless_it_has_an_alias() {
    for name in ["", "with space", "a.b"] {
        let builder = || {
            let tool = TestTool::new(name, async |_, _| Ok(ToolOutput::text(""))).arc();
            Agent::builder(Arc::new(ScriptedProvider::new(chatty()))).unguarded().tool(tool)
        };
        let error = builder().build().unwrap_err().to_string();
        assert!(error.contains("as the name of a tool"), "{error}");
        builder().alias(name, "legal").build().unwrap();
    }
}

#[tokio::test]
async fn every_agent_has_a_context_of_its_own_and_another_one_after_a_reset() {
    let bus = Bus::new();
    let contexts = Arc::new(Mutex::new(Vec::new()));
    let kept = contexts.clone();
    bus.scope("reader").on_sync(move |_: &TurnAfter, cx: &Cx| {
        kept.lock().unwrap().push(cx.service::<ContextId>().unwrap());
    });
    let agent = || {
        let provider = ScriptedProvider::new(Script::answering(|_| Turn::new().text("Hello.")));
        Agent::builder(Arc::new(provider)).bus(bus.clone()).build().unwrap()
    };
    let (one, other) = (agent(), agent());
    one.run("go").unwrap().wait().await.result.unwrap();
    one.run("go on").unwrap().wait().await.result.unwrap();
    other.run("go").unwrap().wait().await.result.unwrap();
    one.reset().unwrap();
    one.run("go").unwrap().wait().await.result.unwrap();
    let contexts = contexts.lock().unwrap();
    assert_eq!(contexts[0], contexts[1]);
    assert_eq!(contexts.iter().collect::<HashSet<_>>().len(), 3);
}

#[test]
fn an_agent_dropped_without_a_close_runs_its_clean_ups_and_ends_its_tasks() {
    struct Noted(&'static str, Arc<Mutex<Vec<&'static str>>>);
    impl Drop for Noted {
        fn drop(&mut self) {
            self.1.lock().unwrap().push(self.0);
        }
    }
    let log = Arc::new(Mutex::new(Vec::new()));
    let kept = log.clone();
    let plugin = plugin_fn("watcher", move |scope| {
        let (task, cleanup) = (Noted("task gone", kept.clone()), kept.clone());
        scope.on_close(async move || {
            tokio::task::yield_now().await;
            cleanup.lock().unwrap().push("cleaned");
        });
        scope.spawn(async move {
            task.1.lock().unwrap().push("task began");
            std::future::pending::<()>().await;
        });
        Ok::<(), BoxError>(())
    });
    // Built where there is no runtime: the task waits for the first run.
    let rig = rig_with(chatty(), |builder| builder.plugin(plugin));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        rig.run("go").await.result.unwrap();
        assert_eq!(*log.lock().unwrap(), ["task began"]);
        drop(rig);
        for _ in 0..4 {
            tokio::task::yield_now().await;
        }
        assert_eq!(*log.lock().unwrap(), ["task began", "task gone", "cleaned"]);
    });
}
