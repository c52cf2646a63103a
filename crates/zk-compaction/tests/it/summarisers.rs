//! Whatever a model does that strategies ask beside the conversation, the conversation goes on and loses nothing.

use std::sync::{Arc, Mutex};

use serde_json::json;
use zk_agent::{Agent, AgentConversation};
use zk_compaction::{Focus, Rolling, Shorten, Subgoal, Summary, ToolPairs, Window, WindowOptions};
use zk_core::events::{CompactionStage, ContextCompaction, ContextReduced};
use zk_core::kernel::{Bus, Cx, Plugin};
use zk_core::model::wire::Repair;
use zk_core::model::{ErrorKind, Model, ToolOutput, ToolSpec, WireReady, WireRules, context_size};
use zk_core::service::{Conversation, Provider};
use zk_testkit::{Asked, Script, ScriptedProvider, Turn};

type Summariser = fn(&Asked) -> Turn;

/// Strategy, the failing [`SUMMARISERS`] under which it still omits something, and the maximum number of its
/// requests.
type Case = (&'static str, Box<dyn Plugin>, &'static [&'static str], usize);

const SUMMARISERS: [(&str, Summariser); 6] = [
    ("nothing", |_| Turn::new().text("")),
    ("garbage", |_| Turn::new().text("\u{1}\u{2}\u{3} \u{4}a \u{5}b \u{6}c \u{7}d")),
    ("more than it got", |asked| Turn::new().text(asked.last_user_text().repeat(2))),
    ("an error", |_| Turn::new().error(ErrorKind::Rejected, "no")),
    ("an overflow", |_| Turn::new().error(ErrorKind::ContextExceeded, "too long")),
    ("never an answer", |_| Turn::new().hang()),
];

/// The bytes of a result, and the prompts before the conversation is compacted.
const RESULT: usize = 8000;
const PROMPTS: usize = 9;

struct Rig {
    conversation: AgentConversation,
    provider: ScriptedProvider,
    strategies: Arc<Mutex<Vec<String>>>,
    stages: Arc<Mutex<Vec<CompactionStage>>>,
}

fn rig(strategy: &dyn Plugin, summarise: Summariser) -> Rig {
    let bus = Bus::new();
    let options = WindowOptions { keep: 2000, tokenizer: false, ..WindowOptions::default() };
    bus.install(&Window::with(options)).unwrap();
    bus.install(strategy).unwrap();
    bus.install(&Shorten).unwrap();
    let (strategies, stages) = (Arc::<Mutex<Vec<_>>>::default(), Arc::<Mutex<Vec<_>>>::default());
    let test = bus.scope("test");
    let seen = strategies.clone();
    test.on_sync(move |event: &ContextReduced, _: &Cx| seen.lock().unwrap().push(event.strategy.clone()));
    let seen = stages.clone();
    test.on_sync(move |event: &ContextCompaction, _: &Cx| seen.lock().unwrap().push(event.stage));
    let script = Script::answering(move |asked| match asked.last_user_text() {
        _ if is_beside(asked) => summarise(asked),
        text if text.starts_with("read") && asked.results().is_empty() => {
            Turn::new().call("read_file", json!({"path": text}))
        }
        _ => Turn::new().text("I have read it."),
    });
    let provider = ScriptedProvider::new(script);
    let model = Model { window: Some(32_000), ..provider.model("scripted") };
    let spec = ToolSpec::new("read_file", "Reads.", json!({"type": "object"}));
    let tool = crate::tools::Fixed(spec, ToolOutput::text("content ".repeat(RESULT / 8)));
    let agent = Agent::builder(Arc::new(provider.clone())).bus(bus).model(model).tool(Arc::new(tool));
    let conversation = AgentConversation::new(agent.build().unwrap());
    Rig { conversation, provider, strategies, stages }
}

fn is_beside(asked: &Asked) -> bool {
    asked.tools.is_empty()
}

#[tokio::test(start_paused = true)]
async fn whatever_a_model_answers_that_is_asked_beside_no_strategy_stops_loops_or_loses_anything() {
    let strategies: [Case; 6] = [
        ("summary", Box::new(Summary), &["shorten"], 2),
        ("rolling", Box::new(Rolling), &["rolling", "shorten"], 0),
        ("focus", Box::new(Focus::default()), &["focus", "shorten"], 0),
        ("tool_pairs", Box::new(ToolPairs), &["shorten"], 2 * PROMPTS),
        ("subgoal", Box::new(Subgoal::default()), &["subgoal", "shorten"], 2 * PROMPTS),
        ("subgoal_mig", Box::new(Subgoal::by_gain()), &["subgoal", "shorten"], 2 * PROMPTS),
    ];
    for (name, strategy, expected, most) in &strategies {
        for (what, summarise) in SUMMARISERS {
            let rig = rig(&**strategy, summarise);
            let say = async |prompt: &str| {
                let run = rig.conversation.run(prompt).await.unwrap();
                run.wait().await.result.unwrap();
                rig.provider.asked().into_iter().rfind(|asked| !is_beside(asked)).unwrap().messages
            };
            for number in 0..PROMPTS {
                say(&format!("read {number}")).await;
            }
            rig.conversation.compact(None).await.unwrap();
            let sent = say("go on").await;
            let history = rig.conversation.agent().history();
            assert_eq!(history.len(), 4 * PROMPTS + 2, "{name}, {what}: every message is kept");
            let results = history.iter().flat_map(|message| message.results());
            let whole = results.filter(|result| result.content.to_text().len() == RESULT).count();
            assert_eq!(whole, PROMPTS, "{name}, {what}: as it was");
            assert!(context_size(&sent) < context_size(&history) / 2, "{name}, {what}: less is sent");
            let ready =
                WireReady::normalise(&sent, &WireRules::tolerant(rig.provider.model("scripted").reference()));
            let torn = ready
                .repairs()
                .iter()
                .any(|repair| matches!(repair, Repair::MissingResult { .. } | Repair::OrphanResult { .. }));
            assert!(!torn, "{name}, {what}: {:?}", ready.repairs());
            let left_out = rig.strategies.lock().unwrap().clone();
            let is_expected = left_out.iter().all(|strategy| expected.contains(&&**strategy));
            assert!(is_expected && !left_out.is_empty(), "{name}, {what}: {left_out:?}");
            let asked = rig.provider.asked().iter().filter(|asked| is_beside(asked)).count();
            assert!(asked <= *most, "{name}, {what}: it is not asked again and again: {asked}");
            let stages = rig.stages.lock().unwrap().clone();
            assert_eq!(stages, [CompactionStage::Began, CompactionStage::Done], "{name}, {what}");
        }
    }
}
