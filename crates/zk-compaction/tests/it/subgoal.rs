//! Messages of the present subgoal stay longest.

use std::sync::{Arc, Mutex};

use serde_json::json;
use zk_agent::{Agent, AgentConversation};
use zk_compaction::{Shorten, Subgoal, Tail, Window, WindowOptions};
use zk_core::events::ContextReduced;
use zk_core::kernel::{Bus, Cx};
use zk_core::model::{ErrorKind, Message, Model, ToolOutput, ToolSpec};
use zk_core::service::{Conversation, DebugDump, Provider, SessionLog};
use zk_testkit::{Asked, Script, ScriptedProvider, Turn};

use crate::stored::{Log, entries, messages};

fn is_about_subgoal(asked: &Asked) -> bool {
    asked.system.contains("You name what an agent is working on")
}

#[derive(Default)]
struct Dumps(Mutex<Vec<(String, String)>>);

impl DebugDump for Dumps {
    fn write(&self, what: &str, text: &str) {
        self.0.lock().unwrap().push((what.to_owned(), text.to_owned()));
    }
}

struct Rig {
    conversation: AgentConversation,
    provider: ScriptedProvider,
    strategies: Arc<Mutex<Vec<String>>>,
    dumps: Arc<Dumps>,
    log: Arc<Log>,
}

/// An agent that reads the file that its prompt names, with 3,000 bytes in each.
fn rig(strategy: Subgoal, name: impl Fn(&Asked) -> Turn + Send + Sync + 'static) -> Rig {
    rig_after(None, strategy, name)
}

/// Agent in a resumed session with the entries of `before`.
fn rig_after(
    before: Option<&Rig>,
    strategy: Subgoal,
    name: impl Fn(&Asked) -> Turn + Send + Sync + 'static,
) -> Rig {
    let bus = Bus::new();
    bus.install(&Window::with(WindowOptions { keep: 600, ..WindowOptions::default() })).unwrap();
    bus.install(&strategy).unwrap();
    bus.install(&Shorten).unwrap();
    let strategies = Arc::<Mutex<Vec<_>>>::default();
    let seen = strategies.clone();
    let test = bus.scope("test");
    test.on_sync(move |event: &ContextReduced, _: &Cx| seen.lock().unwrap().push(event.strategy.clone()));
    let dumps = Arc::<Dumps>::default();
    test.provide_service::<dyn DebugDump>(dumps.clone());
    let log = Arc::<Log>::default();
    test.provide_service::<dyn SessionLog>(log.clone());
    let script = Script::answering(move |asked| match asked.last_user_text() {
        _ if is_about_subgoal(asked) => name(asked),
        _ if asked.system.contains("You write down what happened") => {
            Turn::new().text("## Aim\nTo read every file there is.")
        }
        text if text.starts_with("read ") && asked.results().is_empty() => {
            Turn::new().call("read_file", json!({"path": text.get(..11)}))
        }
        _ => Turn::new().text("I have read it."),
    });
    let provider = ScriptedProvider::new(script);
    let model = Model { window: Some(100_000), ..provider.model("scripted") };
    let spec = ToolSpec::new("read_file", "Reads.", json!({"type": "object"}));
    let tool = crate::tools::Fixed(spec, ToolOutput::text("content ".repeat(400)));
    let mut agent = Agent::builder(Arc::new(provider.clone())).bus(bus).model(model).tool(Arc::new(tool));
    if let Some(before) = before {
        let entries = entries(&before.conversation.agent().history(), &before.log);
        agent = agent.history(messages(&entries)).restored(entries);
    }
    Rig { conversation: AgentConversation::new(agent.build().unwrap()), provider, strategies, dumps, log }
}

impl Rig {
    /// Returns the sent messages, after the subgoal model was asked about them.
    async fn say(&self, prompt: &str) -> Vec<Arc<Message>> {
        let run = self.conversation.run(prompt).await.unwrap();
        run.wait().await.result.unwrap();
        let asked = self.provider.asked();
        asked.into_iter().rfind(|asked| asked.tools.contains(&"read_file".to_owned())).unwrap().messages
    }

    /// Subgoals known to the strategy, from the dump of a compaction.
    async fn known(&self) -> String {
        self.conversation.compact(None).await.unwrap();
        let dumps = self.dumps.0.lock().unwrap();
        dumps.iter().rfind(|(what, _)| what == "subgoal-registry").unwrap().1.clone()
    }

    fn asked_for_subgoals(&self) -> usize {
        self.provider.asked().iter().filter(|asked| is_about_subgoal(asked)).count()
    }
}

fn whole_results(messages: &[Arc<Message>]) -> Vec<bool> {
    let results = messages.iter().flat_map(|message| message.results());
    results.map(|result| result.content.to_text().starts_with("content")).collect()
}

/// The first three files belong to one subgoal, later ones to another.
fn by_file(asked: &Asked) -> Turn {
    by_number(asked, 3)
}

/// The files before the one with this number belong to one subgoal, the others to another.
fn by_number(asked: &Asked, number: u32) -> Turn {
    let prompt = asked.last_user_text();
    let newest = prompt.rfind("read file ").and_then(|at| prompt.get(at + 10..at + 11));
    match newest.and_then(|digit| digit.parse::<u32>().ok()) {
        Some(digit) if digit >= number => {
            Turn::new().text("COMPLETED: the first files are read\nRead the other files")
        }
        Some(_) | None => Turn::new().text("Read the first files"),
    }
}

#[tokio::test]
async fn results_of_what_was_finished_leave_before_those_of_the_present_subgoal() {
    for strategy in [Subgoal::default(), Subgoal::by_gain()] {
        let rig = rig(strategy, by_file);
        for number in 0..6 {
            rig.say(&format!("read file {number}")).await;
        }
        assert!(rig.asked_for_subgoals() > 0);
        rig.conversation.compact(None).await.unwrap();
        let sent = rig.say("go on").await;
        let whole = whole_results(&sent);
        assert_eq!(rig.strategies.lock().unwrap()[0], "subgoal", "{strategy:?}");
        assert_eq!(whole.first(), Some(&false), "{strategy:?}: {whole:?}");
        assert!(whole.iter().rev().take(2).all(|whole| *whole), "{strategy:?}: {whole:?}");
        let dumps = rig.dumps.0.lock().unwrap().clone();
        let (what, text) = dumps.first().unwrap();
        assert_eq!(what, "subgoal-registry");
        assert!(text.contains("Active Read the other files") && text.contains("Completed"), "{text}");
    }
}

#[tokio::test]
async fn a_resumed_conversation_knows_what_was_finished_and_what_is_worked_on() {
    let before = rig(Subgoal::default(), by_file);
    for number in 0..6 {
        before.say(&format!("read file {number}")).await;
    }
    let resumed = rig_after(Some(&before), Subgoal::default(), |_| Turn::new().text(""));
    resumed.conversation.compact(None).await.unwrap();
    let sent = resumed.say("go on").await;
    let whole = whole_results(&sent);
    assert_eq!(whole.first(), Some(&false), "{whole:?}");
    assert!(whole.iter().rev().take(2).all(|whole| *whole), "{whole:?}");
    let dumps = resumed.dumps.0.lock().unwrap().clone();
    let (_, text) = dumps.first().unwrap();
    assert!(text.contains("Active Read the other files"), "{text}");
    assert!(text.contains("Completed Read the first files"), "{text}");
    assert_eq!(text, &before.known().await, "spans are as they were");
}

#[tokio::test]
async fn a_summary_stands_for_as_little_as_suffices_and_the_steps_after_it_keep_all_but_their_results() {
    let rig = rig(Subgoal::default(), |asked| by_number(asked, 6));
    let lengthy = "why it is needed ".repeat(150);
    for number in 0..8 {
        rig.say(&format!("read file {number}: {lengthy}")).await;
    }
    rig.conversation.compact(None).await.unwrap();
    let sent = rig.say("go on").await;
    assert_eq!(*rig.strategies.lock().unwrap(), ["subgoal"]);
    let prompts = sent.iter().filter(|message| message.text().contains("why it is needed")).count();
    assert!((4..8).contains(&prompts), "{prompts} of eight");
    let stubs = whole_results(&sent).iter().filter(|whole| !**whole).count();
    assert!(stubs >= 1, "their results left");
}

#[tokio::test(start_paused = true)]
async fn no_turn_waits_for_whoever_names_subgoals_and_silence_garbage_and_errors_leave_it_at_that() {
    type Namer = fn(&Asked) -> Turn;
    let namers: [(&str, Namer); 4] = [
        ("nothing", |_| Turn::new().text("")),
        ("a lecture", |_| Turn::new().text("word ".repeat(5000))),
        ("an error", |_| Turn::new().error(ErrorKind::Rejected, "no")),
        ("never an answer", |_| Turn::new().hang()),
    ];
    for (what, namer) in namers {
        let rig = rig(Subgoal::default(), namer);
        for number in 0..8 {
            rig.say(&format!("read file {number}")).await;
        }
        assert!(rig.asked_for_subgoals() <= 16, "{what}: {}", rig.asked_for_subgoals());
        rig.conversation.compact(None).await.unwrap();
        let sent = rig.say("go on").await;
        assert_eq!(rig.conversation.agent().history().len(), 34, "{what}: nothing is lost");
        assert_eq!(whole_results(&sent).first(), Some(&false), "{what}: the oldest leave first");
    }
}

#[test]
fn subgoals_and_leaving_results_out_by_their_age_contradict_each_other_in_either_order() {
    let plugins: [&dyn zk_core::kernel::Plugin; 2] = [&Subgoal::default(), &Tail::default()];
    for (first, second) in [(0, 1), (1, 0)] {
        let bus = Bus::new();
        bus.install(&Window::default()).unwrap();
        bus.install(plugins[first]).unwrap();
        let error = bus.install(plugins[second]).unwrap_err().to_string();
        assert!(error.contains("contradict each other"), "{error}");
    }
}
