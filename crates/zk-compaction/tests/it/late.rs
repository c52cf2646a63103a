//! A run waits half a minute for a strategy, and no longer.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;
use zk_agent::{Agent, AgentConversation};
use zk_compaction::{Shorten, Summary, Window, WindowOptions};
use zk_core::events::{CompactionStage, ContextCompaction, ContextReduced};
use zk_core::kernel::{Bus, Cx};
use zk_core::model::{Message, Model, Usage};
use zk_core::service::Provider;
use zk_testkit::{Asked, Script, ScriptedProvider, Turn};

const WINDOW: u64 = 32_000;

fn is_summariser(asked: &Asked) -> bool {
    asked.system.contains("You write down what happened")
}

struct Rig {
    conversation: AgentConversation,
    provider: ScriptedProvider,
    seen: Arc<Mutex<Vec<String>>>,
}

/// Conversation whose provider counts 300 tokens for each message, with this summariser.
fn rig(summarise: impl Fn() -> Turn + Send + Sync + 'static) -> Rig {
    let bus = Bus::new();
    let options = WindowOptions { cooldown: 0, keep: 300, ..WindowOptions::default() };
    bus.install(&Window::with(options)).unwrap();
    bus.install(&Summary).unwrap();
    bus.install(&Shorten).unwrap();
    let seen = Arc::<Mutex<Vec<_>>>::default();
    let test = bus.scope("test");
    let log = seen.clone();
    test.on_sync(move |event: &ContextReduced, _: &Cx| log.lock().unwrap().push(event.strategy.clone()));
    let log = seen.clone();
    test.on_sync(move |event: &ContextCompaction, _: &Cx| {
        if event.stage != CompactionStage::Began {
            log.lock().unwrap().push(format!("{:?}", event.stage));
        }
    });
    let script = Script::answering(move |asked| {
        if is_summariser(asked) {
            return summarise();
        }
        let input = 300 * asked.messages.len() as u64;
        Turn::new().text("word ".repeat(100)).usage(Usage { input, output: 100, ..Usage::default() })
    });
    let provider = ScriptedProvider::new(script);
    let model = Model { window: Some(WINDOW), ..provider.model("scripted") };
    let agent = Agent::builder(Arc::new(provider.clone())).bus(bus).model(model).build().unwrap();
    Rig { conversation: AgentConversation::new(agent), provider, seen }
}

impl Rig {
    /// Returns the messages that a prompt has sent, and the seconds it took.
    async fn say(&self, prompt: &str) -> (Vec<Arc<Message>>, u64) {
        let begun = Instant::now();
        let run = self.conversation.run(prompt).await.unwrap();
        run.wait().await.result.unwrap();
        let asked = self.provider.asked().into_iter().rfind(|asked| !is_summariser(asked)).unwrap();
        (asked.messages, begun.elapsed().as_secs())
    }

    /// Goes on until something is decided. Gives how long the last prompt took.
    async fn until_decided(&self) -> u64 {
        for number in 0.. {
            let (_, seconds) = self.say(&format!("question {number}")).await;
            if !self.seen.lock().unwrap().is_empty() {
                return seconds;
            }
            assert!(seconds == 0 && number < 60, "nothing was decided");
        }
        0
    }

    fn seen(&self) -> Vec<String> {
        std::mem::take(&mut *self.seen.lock().unwrap())
    }

    fn summaries_asked(&self) -> usize {
        self.provider.asked().iter().filter(|asked| is_summariser(asked)).count()
    }
}

#[tokio::test(start_paused = true)]
async fn a_summary_that_takes_longer_is_made_beside_the_conversation_and_used_by_a_later_request() {
    let summary = "## Aim\nThe person wants the lighthouse painted.";
    let rig = rig(move || Turn::new().delay(Duration::from_secs(70)).text(summary));
    assert_eq!(rig.until_decided().await, 30);
    assert_eq!(rig.seen(), ["Deferred"], "it is sent as it is");
    // A prompt during the summary does not wait, and needs no request.
    let (sent, seconds) = rig.say("meanwhile").await;
    assert_eq!((seconds, rig.seen()), (0, Vec::<String>::new()));
    assert_eq!(sent.len(), rig.conversation.agent().history().len() - 1);
    tokio::time::sleep(Duration::from_secs(60)).await;
    let (sent, seconds) = rig.say("and now").await;
    assert_eq!((seconds, rig.seen()), (0, vec!["summary".to_owned(), "Done".to_owned()]));
    assert!(format!("{sent:?}").contains("lighthouse") && sent.len() < 12, "{}", sent.len());
    assert!(format!("{sent:?}").contains("meanwhile"), "what came since is sent as it is");
    assert_eq!(rig.summaries_asked(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_summariser_that_never_answers_holds_a_run_up_once_and_then_something_else_helps() {
    let rig = rig(|| Turn::new().hang());
    assert_eq!(rig.until_decided().await, 30);
    assert_eq!(rig.seen(), ["Deferred"]);
    assert_eq!(rig.say("meanwhile").await.1, 0);
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(rig.say("and now").await.1, 0);
    assert_eq!(rig.seen(), ["shorten", "Done"]);
    assert_eq!(rig.summaries_asked(), 1, "it is not asked in a loop");
}

#[tokio::test(start_paused = true)]
async fn a_request_that_does_not_fit_waits_no_longer_and_is_made_smaller_without_the_summary() {
    let rig = rig(|| Turn::new().hang());
    assert_eq!(rig.until_decided().await, 30);
    assert_eq!(rig.seen(), ["Deferred"]);
    // So much that it would not fit.
    let (sent, seconds) = rig.say(&"words ".repeat(4000)).await;
    assert!(seconds <= 30, "{seconds}");
    assert_eq!(rig.seen(), ["shorten", "Done"]);
    assert!(sent.len() < 12, "{}", sent.len());
}
