//! Old results become summaries that were made while the run went on.

use std::sync::{Arc, Mutex};

use serde_json::json;
use zk_agent::Agent;
use zk_compaction::{Shorten, ToolPairs, Window};
use zk_core::events::ContextReduced;
use zk_core::kernel::{Bus, Cx};
use zk_core::model::{Message, Model, ToolOutput, ToolSpec, WireReady, WireRules};
use zk_core::service::Provider;
use zk_testkit::{Asked, Script, ScriptedProvider, Turn};

const SUMMARY: &str = "the file defines the lamp";

fn is_summariser(asked: &Asked) -> bool {
    asked.last_user_text().contains("This is what a tool gave an agent")
}

struct Rig {
    agent: Agent,
    provider: ScriptedProvider,
    reduced: Arc<Mutex<Vec<String>>>,
}

/// Agent that reads a file of 8,000 bytes for each prompt, with this summariser.
fn rig(summarise: fn(&Asked) -> Turn) -> Rig {
    let bus = Bus::new();
    bus.install(&Window::default()).unwrap();
    bus.install(&ToolPairs).unwrap();
    bus.install(&Shorten).unwrap();
    let reduced = Arc::<Mutex<Vec<_>>>::default();
    let seen = reduced.clone();
    bus.scope("test")
        .on_sync(move |event: &ContextReduced, _: &Cx| seen.lock().unwrap().push(event.strategy.clone()));
    let script = Script::answering(move |asked| match asked.last_user_text() {
        _ if is_summariser(asked) => summarise(asked),
        text if text.starts_with("read") && asked.results().is_empty() => {
            Turn::new().call("read_file", json!({"path": text}))
        }
        _ => Turn::new().text("I have read it."),
    });
    let provider = ScriptedProvider::new(script);
    let model = Model { window: Some(32_000), ..provider.model("scripted") };
    let spec = ToolSpec::new("read_file", "Reads.", json!({"type": "object"}));
    let tool = crate::tools::Fixed(spec, ToolOutput::text("content ".repeat(1000)));
    let agent = Agent::builder(Arc::new(provider.clone())).bus(bus).model(model).tool(Arc::new(tool)).build();
    Rig { agent: agent.unwrap(), provider, reduced }
}

impl Rig {
    async fn say(&self, prompt: &str) -> Vec<Arc<Message>> {
        self.agent.run(prompt).unwrap().wait().await.result.unwrap();
        let asked = self.provider.asked();
        asked.into_iter().rfind(|asked| !is_summariser(asked)).unwrap().messages
    }
}

fn results(messages: &[Arc<Message>]) -> Vec<String> {
    messages.iter().flat_map(|message| message.results()).map(|result| result.content.to_text()).collect()
}

#[tokio::test]
async fn old_results_are_sent_as_summaries_from_the_lower_threshold_on_each_with_its_call() {
    let rig = rig(|_| Turn::new().text(SUMMARY));
    let mut sent = Vec::new();
    for number in 0..9 {
        sent = rig.say(&format!("read {number}")).await;
    }
    assert!(rig.reduced.lock().unwrap().iter().all(|strategy| strategy == "tool-pairs"), "{:?}", rig.reduced);
    let texts = results(&sent);
    assert!(texts.first().unwrap().contains(SUMMARY), "{texts:?}");
    assert!(
        texts.iter().rev().take(3).all(|text| text.starts_with("content")),
        "the newest stay as they are"
    );
    let rules = WireRules::tolerant(rig.provider.model("scripted").reference());
    assert_eq!(WireReady::normalise(&sent, &rules).repairs(), [], "no result is without its call");
    let whole = results(&rig.agent.history());
    assert!(whole.iter().all(|text| text.starts_with("content")), "what is stored stays");
}

#[tokio::test(start_paused = true)]
async fn no_request_waits_for_a_summary_of_a_result_and_a_bad_one_leaves_it_as_it_is() {
    let summarisers: [fn(&Asked) -> Turn; 3] =
        [|_| Turn::new().hang(), |_| Turn::new().text(""), |_| Turn::new().text("word ".repeat(5000))];
    for summarise in summarisers {
        let rig = rig(summarise);
        for number in 0..6 {
            rig.say(&format!("read {number}")).await;
        }
        let texts = results(&rig.say("go on").await);
        assert!(texts.iter().all(|text| text.starts_with("content")), "{texts:?}");
        assert!(!rig.reduced.lock().unwrap().contains(&"tool-pairs".to_owned()));
    }
}
