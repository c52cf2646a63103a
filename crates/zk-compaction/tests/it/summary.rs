//! A model writes down what leaves the conversation, and whatever it does, the conversation goes on.

use std::sync::{Arc, Mutex};

use serde_json::json;
use zk_agent::{Agent, AgentConversation};
use zk_compaction::{KeptLine, LineStore, Rolling, Shorten, Summary, Window, WindowOptions};
use zk_core::events::{CompactionStage, ContextCompaction, ContextReduced};
use zk_core::kernel::{Bus, Cx};
use zk_core::model::{Block, ErrorKind, Message, Model, ToolOutput, ToolSpec};
use zk_core::service::{Conversation, Provider};
use zk_testkit::{Asked, Script, ScriptedProvider, Turn};

const SUMMARY: &str = "## Aim\nThe person wants the lighthouse painted.\n## Next steps\nPaint it.";

fn is_summariser(asked: &Asked) -> bool {
    asked.system.contains("You write down what happened")
}

struct Rig {
    conversation: AgentConversation,
    provider: ScriptedProvider,
    strategies: Arc<Mutex<Vec<String>>>,
    stages: Arc<Mutex<Vec<CompactionStage>>>,
}

fn rig(summarise: impl Fn(&Asked) -> Turn + Send + Sync + 'static) -> Rig {
    rig_with(|bus| drop(bus.install(&Summary).unwrap()), summarise)
}

fn rig_with(install: impl FnOnce(&Bus), summarise: impl Fn(&Asked) -> Turn + Send + Sync + 'static) -> Rig {
    let bus = Bus::new();
    bus.install(&Window::with(WindowOptions { keep: 600, ..WindowOptions::default() })).unwrap();
    install(&bus);
    bus.install(&Shorten).unwrap();
    let (strategies, stages) = (Arc::<Mutex<Vec<_>>>::default(), Arc::<Mutex<Vec<_>>>::default());
    let seen = strategies.clone();
    let test = bus.scope("test");
    test.on_sync(move |event: &ContextReduced, _: &Cx| seen.lock().unwrap().push(event.strategy.clone()));
    let seen = stages.clone();
    test.on_sync(move |event: &ContextCompaction, _: &Cx| seen.lock().unwrap().push(event.stage));
    let script = Script::answering(move |asked| match asked.last_user_text() {
        _ if is_summariser(asked) => summarise(asked),
        text if text == "read" && asked.results().is_empty() => {
            Turn::new().call("read_file", json!({"path": "src/lamp.rs"}))
        }
        text if text == "look back"
            && !asked.messages.iter().any(|m| m.calls().any(|c| c.name == "conversation_recall")) =>
        {
            Turn::new().call("conversation_recall", json!({"action": "search", "query": "code word"}))
        }
        text if text == "look around"
            && !asked.messages.iter().any(|m| m.calls().any(|c| c.name == "conversation_recall")) =>
        {
            let about = json!({"action": "search", "query": "code word", "others": true});
            Turn::new().call("conversation_recall", about)
        }
        _ => Turn::new().text(format!("Answer. {}", "word ".repeat(150))),
    });
    let provider = ScriptedProvider::new(script);
    let model = Model { window: Some(100_000), ..provider.model("scripted") };
    let spec = ToolSpec::new("read_file", "Reads.", json!({"type": "object"}));
    let tool = crate::tools::Fixed(spec, ToolOutput::text("fn lamp() {}"));
    let agent = Agent::builder(Arc::new(provider.clone()))
        .bus(bus)
        .model(model)
        .tool(Arc::new(tool))
        .build()
        .unwrap();
    Rig { conversation: AgentConversation::new(agent), provider, strategies, stages }
}

impl Rig {
    async fn say(&self, prompt: &str) -> Vec<Arc<Message>> {
        let run = self.conversation.run(prompt).await.unwrap();
        run.wait().await.result.unwrap();
        self.provider.asked().pop().unwrap().messages
    }

    fn summariser_asked(&self) -> Vec<Asked> {
        self.provider.asked().into_iter().filter(is_summariser).collect()
    }

    fn strategies(&self) -> Vec<String> {
        std::mem::take(&mut *self.strategies.lock().unwrap())
    }
}

fn text_of(messages: &[Arc<Message>]) -> String {
    let texts = messages.iter().flat_map(|message| &message.content).map(|block| match block {
        Block::Text(text) => text.text.clone(),
        Block::ToolResult(result) => result.content.to_text(),
        _ => String::new(),
    });
    texts.collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn a_summary_takes_the_place_of_what_leaves_is_updated_later_and_carries_the_files() {
    let rig = rig(|_| Turn::new().text(SUMMARY));
    rig.say("read").await;
    for number in 0..8 {
        rig.say(&format!("question {number}")).await;
    }
    rig.conversation.compact(Some("the colour".into())).await.unwrap();
    let asked = rig.summariser_asked();
    assert_eq!(asked.len(), 1);
    let prompt = asked[0].last_user_text();
    for part in ["<conversation>", "question 0", "the colour", "## Next steps"] {
        assert!(prompt.contains(part), "{part}: {prompt}");
    }
    assert!(asked[0].tools.is_empty() && !prompt.contains("question 7"), "what stays is not summarised");
    let sent = text_of(&rig.say("more").await);
    for part in ["it is history, not a request", "lighthouse", "## Files read\n- src/lamp.rs", "question 7"] {
        assert!(sent.contains(part), "{part}: {sent}");
    }
    assert!(!sent.contains("question 0"), "{sent}");
    assert_eq!(rig.strategies(), ["summary"]);

    for number in 10..16 {
        rig.say(&format!("question {number}")).await;
    }
    rig.conversation.compact(None).await.unwrap();
    let asked = rig.summariser_asked();
    let prompt = asked.last().unwrap().last_user_text();
    assert!(
        prompt.contains("<earlier-summary>\n## Aim") && prompt.contains("Update the earlier summary"),
        "{prompt}"
    );
    assert!(!prompt.contains("question 0\n"), "what was summarised is not summarised again");
    let sent = text_of(&rig.say("and more").await);
    assert!(sent.contains("- src/lamp.rs"), "{sent}");
    assert_eq!(sent.matches("## Aim").count(), 1, "one summary at a time");
}

#[tokio::test(start_paused = true)]
async fn whatever_a_summariser_does_the_conversation_goes_on_and_nothing_of_it_is_lost() {
    type Summariser = fn(&Asked) -> Turn;
    let summarisers: [(&str, Summariser); 6] = [
        ("nothing", |_| Turn::new().text("")),
        ("garbage", |_| Turn::new().text("\u{1}\u{2}\u{3} \u{4}a \u{5}b \u{6}c \u{7}d")),
        ("more than it got", |_| Turn::new().text("word ".repeat(20_000))),
        ("an error", |_| Turn::new().error(ErrorKind::Rejected, "no")),
        ("an overflow", |_| Turn::new().error(ErrorKind::ContextExceeded, "too long")),
        ("never an answer", |_| Turn::new().hang()),
    ];
    for (what, summarise) in summarisers {
        let rig = rig(summarise);
        for number in 0..8 {
            rig.say(&format!("question {number}")).await;
        }
        rig.conversation.compact(None).await.unwrap();
        assert_eq!(rig.strategies(), ["shorten"], "{what}: the next one helps");
        assert!(rig.summariser_asked().len() <= 2, "{what}: it is not asked again and again");
        let sent = rig.say("go on").await;
        assert!(text_of(&sent).contains("earlier messages were left out"), "{what}");
        assert_eq!(rig.conversation.agent().history().len(), 18, "{what}");
        let stages = rig.stages.lock().unwrap().clone();
        assert_eq!(stages, [CompactionStage::Began, CompactionStage::Done], "{what}");
    }
}

/// Rig with a tool that returns 3 KB, for a prompt that repeats the call.
fn working(summarise: impl Fn(&Asked) -> Turn + Send + Sync + 'static) -> Rig {
    let mut rig = rig_with(|bus| drop(bus.install(&Summary).unwrap()), |_| Turn::new());
    let bus = Bus::new();
    bus.install(&Window::with(WindowOptions { keep: 2000, ..WindowOptions::default() })).unwrap();
    bus.install(&Summary).unwrap();
    bus.install(&Shorten).unwrap();
    let script = Script::answering(move |asked| {
        if is_summariser(asked) {
            return summarise(asked);
        }
        // The summariser's requests count, too.
        match asked.number {
            1..=8 => Turn::new()
                .signed_thinking(format!("step  {}\t", asked.number), format!("proof-{}=", asked.number))
                .call("read_file", json!({"path": format!("src/{}.rs", asked.number)})),
            _ => Turn::new().text("Done."),
        }
    });
    rig.provider = ScriptedProvider::new(script);
    let model = Model { window: Some(100_000), ..rig.provider.model("scripted") };
    let spec = ToolSpec::new("read_file", "Reads.", json!({"type": "object"}));
    let tool = crate::tools::Fixed(spec, ToolOutput::text("line\n".repeat(600)));
    let agent = Agent::builder(Arc::new(rig.provider.clone()))
        .bus(bus)
        .model(model)
        .tool(Arc::new(tool))
        .build()
        .unwrap();
    rig.conversation = AgentConversation::new(agent);
    rig
}

#[tokio::test]
async fn a_turn_that_the_cut_goes_through_is_summed_up_apart_and_the_reasoning_that_stays_is_verbatim() {
    let rig = working(|asked| {
        let text = asked.last_user_text();
        let is_prefix = text.contains("the beginning of the agent's present work");
        Turn::new().text(if is_prefix { "It read the files one to six." } else { SUMMARY })
    });
    rig.say("Read them all, please").await;
    rig.conversation.compact(None).await.unwrap();
    let sent = rig.say("and now?").await;
    let text = format!("{sent:?}");
    for part in ["## The present request so far", "> Read them all, please", "It read the files one to six."]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    let history = rig.conversation.agent().history();
    let kept: Vec<&Arc<Message>> = sent.iter().filter(|message| message.calls().next().is_some()).collect();
    assert!(!kept.is_empty() && kept.len() < 8, "{}", kept.len());
    for message in kept {
        let Block::Thinking(thinking) = &message.content[0] else { panic!("{message:?}") };
        assert!(thinking.signature.is_some());
        assert!(history.contains(message), "{message:?}");
    }
}

#[tokio::test]
async fn the_request_for_a_summary_fits_the_window_however_much_leaves() {
    let rig = rig(|_| Turn::new().text(SUMMARY));
    for number in 0..60 {
        rig.say(&format!("{number} {}", "words ".repeat(2000))).await;
    }
    rig.conversation.compact(None).await.unwrap();
    let asked = rig.summariser_asked();
    assert!(asked.len() >= 2, "{}", asked.len());
    let bytes = |asked: &Asked| asked.system.len() + asked.last_user_text().len();
    let largest = asked.iter().map(bytes).max().unwrap();
    assert!((100_000..210_000).contains(&largest), "{largest} bytes for a window of 100000 tokens");
    assert!(rig.strategies().iter().all(|name| name == "summary"));
}

#[tokio::test]
async fn lines_take_the_place_of_what_leaves_without_a_model_and_the_model_looks_back() {
    let rig = rig_with(|bus| drop(bus.install(&Rolling).unwrap()), |_| Turn::new().text("never asked"));
    rig.say("the code word is xylophone, for later").await;
    for number in 0..8 {
        rig.say(&format!("question {number}")).await;
    }
    assert!(
        rig.provider.asked().iter().all(|asked| !asked.tools.contains(&"conversation_recall".to_owned()))
    );
    rig.conversation.compact(None).await.unwrap();
    let sent = text_of(&rig.say("question 9").await);
    assert!(
        sent.starts_with("the code word is xylophone, for later") && sent.contains("#3 person: question 0"),
        "{sent}"
    );
    for number in 10..18 {
        rig.say(&format!("question {number}")).await;
    }
    rig.conversation.compact(None).await.unwrap();
    let sent = text_of(&rig.say("question 19").await);
    assert!(
        sent.contains("#25 person: question 12") && sent.contains("older messages have no line"),
        "{sent}"
    );
    assert!(rig.summariser_asked().is_empty());
    let sent = rig.say("look back").await;
    assert!(rig.provider.asked().pop().unwrap().tools.contains(&"conversation_recall".to_owned()));
    assert!(text_of(&sent).contains("xylophone, for later"), "{}", text_of(&sent));
}

/// Lines in memory.
#[derive(Default)]
struct Lines(Mutex<Vec<String>>);

impl LineStore for Lines {
    fn append(&self, lines: &[String]) -> std::io::Result<()> {
        self.0.lock().unwrap().extend_from_slice(lines);
        Ok(())
    }

    fn read(&self, take: &mut dyn FnMut(KeptLine) -> bool) -> std::io::Result<()> {
        let kept = |text: &String| KeptLine { time_ms: 0, session: "s_1".to_owned(), text: text.clone() };
        let _ = self.0.lock().unwrap().iter().rev().map(kept).all(take);
        Ok(())
    }
}

#[tokio::test]
async fn lines_of_what_left_are_kept_for_later_conversations_whose_model_finds_them() {
    let lines = Arc::<Lines>::default();
    let kept = lines.clone();
    let with_lines = move |bus: &Bus| {
        bus.install(&Rolling).unwrap();
        bus.scope("lines").provide_service::<dyn LineStore>(kept.clone());
    };
    let first = rig_with(with_lines.clone(), |_| Turn::new().text("never asked"));
    first.say("what is this about").await;
    first.say("the code word is xylophone").await;
    for number in 0..8 {
        first.say(&format!("question {number}")).await;
    }
    first.conversation.compact(None).await.unwrap();
    let sent = text_of(&first.say("and now").await);
    assert!(sent.starts_with("what is this about"), "what it is about stays in its own words: {sent}");
    assert!(lines.0.lock().unwrap().contains(&"person: the code word is xylophone".to_owned()));

    let later = rig_with(with_lines, |_| Turn::new().text("never asked"));
    for number in 0..8 {
        later.say(&format!("another question {number}")).await;
    }
    later.conversation.compact(None).await.unwrap();
    let sent = text_of(&later.say("look around").await);
    assert!(sent.contains("s_1 person: the code word is xylophone"), "{sent}");
}
