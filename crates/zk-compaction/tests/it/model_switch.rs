//! Another model in the middle of a conversation, with a smaller window or a larger one.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use zk_agent::{Agent, AgentConversation};
use zk_compaction::{Focus, Rolling, Shorten, Subgoal, Summary, Tail, ToolPairs, Window, WindowOptions};
use zk_core::events::{CompactionStage, ContextCompaction, ContextFill};
use zk_core::kernel::{Bus, Cx, Plugin};
use zk_core::model::{Block, ErrorKind, Message, Model, Usage, context_size};
use zk_core::service::Provider;
use zk_testkit::{Script, ScriptedProvider, Turn};

const LARGE: u64 = 200_000;
const SMALL: u64 = 16_000;

#[tokio::test]
async fn the_first_request_to_a_model_with_a_smaller_window_fits_it_and_a_larger_one_reads_everything_again()
{
    let strategies: [(&str, Option<Box<dyn Plugin>>); 8] = [
        ("shorten", None),
        ("tail", Some(Box::new(Tail::default()))),
        ("tool_pairs", Some(Box::new(ToolPairs))),
        ("rolling", Some(Box::new(Rolling))),
        ("summary", Some(Box::new(Summary))),
        ("subgoal", Some(Box::new(Subgoal::default()))),
        ("subgoal_mig", Some(Box::new(Subgoal::by_gain()))),
        ("focus", Some(Box::new(Focus::default()))),
    ];
    for (name, strategy) in strategies {
        let bus = Bus::new();
        bus.install(&Window::with(WindowOptions { tokenizer: false, ..WindowOptions::default() })).unwrap();
        if let Some(strategy) = &strategy {
            bus.install(&**strategy).unwrap();
        }
        bus.install(&Shorten).unwrap();
        let (usable, restored) = (Arc::new(Mutex::new(None)), Arc::new(AtomicUsize::new(0)));
        let (room, times) = (usable.clone(), restored.clone());
        let test = bus.scope("test");
        test.on_sync(move |event: &ContextFill, _: &Cx| *room.lock().unwrap() = event.usable);
        test.on_sync(move |event: &ContextCompaction, _: &Cx| {
            times.fetch_add(usize::from(event.stage == CompactionStage::Restored), Ordering::AcqRel);
        });
        let window = Arc::new(AtomicUsize::new(LARGE as usize));
        let refused = Arc::new(AtomicUsize::new(0));
        let (room, refusals) = (window.clone(), refused.clone());
        let script = Script::answering(move |asked| {
            let tokens = (context_size(&asked.messages) + asked.system.len()) * 10 / 35;
            if tokens > room.load(Ordering::Acquire) {
                refusals.fetch_add(1, Ordering::AcqRel);
                return Turn::new().error(ErrorKind::ContextExceeded, "prompt is too long");
            }
            if asked.system.contains("You write down") {
                return Turn::new().text("## Aim\nTo talk about words.");
            }
            let usage = Usage { input: tokens as u64, output: 600, ..Usage::default() };
            Turn::new().text("word ".repeat(500)).usage(usage)
        });
        let provider = ScriptedProvider::new(script);
        let with_window = |id: &str, window| Model { window: Some(window), ..provider.model(id) };
        let (large, small) = (with_window("large", LARGE), with_window("small", SMALL));
        let agent = Agent::builder(Arc::new(provider.clone())).bus(bus).model(large.clone()).build().unwrap();
        let conversation = AgentConversation::new(agent);
        let say = async |prompt: &str| {
            conversation.run(prompt).await.unwrap().wait().await.result.unwrap();
            provider.asked().into_iter().rfind(|asked| asked.system.is_empty()).unwrap().messages
        };
        for number in 0..40 {
            say(&format!("question {number}")).await;
        }
        window.store(SMALL as usize, Ordering::Release);
        conversation.agent().set_model(small).await.unwrap();
        assert_eq!(*usable.lock().unwrap(), Some(SMALL * 3 / 4), "{name}: it is told at once");
        let sent = say("to the small one").await;
        let tokens = context_size(&sent) * 10 / 35;
        assert!(tokens < SMALL as usize * 3 / 4, "{name}: {tokens}");
        assert!(format!("{sent:?}").contains("to the small one"), "{name}");
        for number in 0..20 {
            say(&format!("small question {number}")).await;
        }
        assert_eq!(refused.load(Ordering::Acquire), 0, "{name}: nothing was too long");
        window.store(LARGE as usize, Ordering::Release);
        conversation.agent().set_model(large).await.unwrap();
        assert_eq!(*usable.lock().unwrap(), Some(LARGE - 16_384), "{name}");
        assert_eq!(restored.load(Ordering::Acquire), 0, "{name}");
        let sent = say("to the large one").await;
        assert_eq!(sent.len(), conversation.agent().history().len() - 1, "{name}");
        assert_eq!(restored.load(Ordering::Acquire), 1, "{name}: that is announced");
    }
}

#[tokio::test]
async fn where_no_window_is_known_a_long_conversation_fits_at_once_and_another_model_is_not_sent_all_of_it() {
    let bus = Bus::new();
    let options = WindowOptions { fallback_bytes: 100_000, ..WindowOptions::default() };
    bus.install(&Window::with(options)).unwrap();
    bus.install(&Shorten).unwrap();
    let stages = Arc::<Mutex<Vec<_>>>::default();
    let seen = stages.clone();
    bus.scope("test").on_sync(move |event: &ContextCompaction, _: &Cx| {
        seen.lock().unwrap().push(event.stage);
    });
    let provider = ScriptedProvider::new(Script::answering(|_| Turn::new().text("word ".repeat(500))));
    let model = |id: &str| Model { window: None, ..provider.model(id) };
    // Stored elsewhere: three times the sendable size.
    let message = |number: usize| {
        let text = vec![Block::text(format!("{number}: {}", "word ".repeat(600)))];
        if number.is_multiple_of(2) { Message::user(text) } else { Message::assistant(text) }
    };
    let history: Vec<_> = (0..100).map(|number| message(number).shared()).collect();
    assert!(context_size(&history) > 300_000);
    let builder = Agent::builder(Arc::new(provider.clone())).bus(bus).model(model("one")).history(history);
    let conversation = AgentConversation::new(builder.build().unwrap());
    for id in ["one", "two"] {
        conversation.agent().set_model(model(id)).await.unwrap();
        conversation.run("and now?").await.unwrap().wait().await.result.unwrap();
        let sent = context_size(&provider.asked().pop().unwrap().messages);
        assert!(sent < 60_000, "{id}: {sent}");
    }
    assert_eq!(*stages.lock().unwrap(), [CompactionStage::Began, CompactionStage::Done]);
}
