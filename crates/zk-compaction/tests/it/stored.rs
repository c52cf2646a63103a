//! Messages that were left out of a stored conversation stay out when it is resumed, and come back when a
//! person wants it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use zk_agent::{Agent, AgentConversation};
use zk_compaction::{Shorten, Window};
use zk_core::events::{AgentStart, ContextTransform, PrefixBreak, PrefixCause, SessionLoaded};
use zk_core::kernel::{Bus, Cx, Scope};
use zk_core::model::{
    Block, EntryId, Message, ModelRef, StopReason, ThinkingLevel, TurnUsage, Usage, context_size,
};
use zk_core::service::{
    ContextId, ContextWindow, Conversation, CustomEntry, Entry, EntryKind, NewEntry, SessionLog, StoreError,
};
use zk_testkit::{Script, ScriptedProvider, Turn};

/// Keeps the entries that plugins append.
#[derive(Default)]
pub(crate) struct Log(pub(crate) Mutex<Vec<CustomEntry>>, AtomicBool);

impl Log {
    /// Whether it has no room from now on.
    pub(crate) fn set_full(&self, is_full: bool) {
        self.1.store(is_full, Ordering::Release);
    }
}

/// Entries of a session with these messages, read back, and the entries of plugins.
pub(crate) fn entries(history: &[Arc<Message>], log: &Log) -> Vec<Entry> {
    let of = |kind| Entry { id: "e".into(), parent: None, time_ms: 0, kind };
    let messages = history.iter().map(|message| {
        let read: Message = serde_json::from_str(&serde_json::to_string(&**message).unwrap()).unwrap();
        EntryKind::Message { message: read.shared(), usage: None }
    });
    messages.chain(log.0.lock().unwrap().iter().cloned().map(EntryKind::Custom)).map(of).collect()
}

/// The messages of entries.
pub(crate) fn messages(entries: &[Entry]) -> Vec<Arc<Message>> {
    let message = |entry: &Entry| match &entry.kind {
        EntryKind::Message { message, .. } => Some(message.clone()),
        _ => None,
    };
    entries.iter().filter_map(message).collect()
}

#[async_trait]
impl SessionLog for Log {
    async fn append(&self, scope: &Scope, entry: NewEntry) -> Result<EntryId, StoreError> {
        if self.1.load(Ordering::Acquire) {
            return Err(StoreError::Failed("no space left".to_owned()));
        }
        self.0.lock().unwrap().push(entry.by(scope.source()));
        Ok("e".into())
    }

    async fn entries(&self, _: &Scope) -> Result<Vec<CustomEntry>, StoreError> {
        Ok(self.0.lock().unwrap().clone())
    }
}

struct Desk {
    conversation: AgentConversation,
    provider: ScriptedProvider,
    log: Arc<Log>,
}

/// A conversation of chatty answers, going on from `before`.
fn desk(before: Option<&Desk>) -> Desk {
    let bus = Bus::new();
    bus.install(&Window::default()).unwrap();
    bus.install(&Shorten).unwrap();
    let log = Arc::new(Log::default());
    bus.scope("recorder").provide_service::<dyn SessionLog>(log.clone());
    let script =
        Script::answering(|asked| Turn::new().text(format!("{} {}", asked.number, "word ".repeat(300))));
    let provider = ScriptedProvider::new(script);
    let mut builder = Agent::builder(Arc::new(provider.clone())).bus(bus);
    if let Some(before) = before {
        let entries = entries(&before.conversation.agent().history(), &before.log);
        builder = builder.history(messages(&entries)).restored(entries);
    }
    Desk { conversation: AgentConversation::new(builder.build().unwrap()), provider, log }
}

impl Desk {
    async fn say(&self, prompt: &str) -> Vec<Arc<Message>> {
        let run = self.conversation.run(prompt).await.unwrap();
        run.wait().await.result.unwrap();
        self.provider.asked().pop().unwrap().messages
    }

    fn window(&self) -> Arc<dyn ContextWindow> {
        self.conversation.agent().bus().service::<dyn ContextWindow>().unwrap()
    }
}

#[tokio::test]
async fn a_resumed_conversation_is_the_compacted_one_and_the_original_messages_stay() {
    let desk = desk(None);
    for number in 0..8 {
        desk.say(&format!("question {number}")).await;
    }
    desk.conversation.compact(None).await.unwrap();
    let fill = desk.window().fill(&desk.conversation.agent().context()).unwrap();
    let last = fill.last.unwrap();
    assert!(fill.compactions == 1 && last.after < last.before, "{fill:?}: it is made smaller at once");
    let sent = desk.say("and now?").await;
    assert!(context_size(&sent) < context_size(&desk.conversation.agent().history()) * 3 / 4);

    let resumed = super::stored::desk(Some(&desk));
    let again = resumed.say("still there?").await;
    assert!(again.starts_with(&sent), "byte for byte as it was sent before");
    assert_eq!(resumed.conversation.agent().history().len(), 20);
    assert!(resumed.log.0.lock().unwrap().is_empty(), "nothing is decided anew");
    let fill = resumed.window().fill(&resumed.conversation.agent().context()).unwrap();
    assert_eq!(fill.compactions, 1, "it is known to be compacted: {fill:?}");
}

#[tokio::test]
async fn a_resumed_conversation_is_made_smaller_before_its_first_prompt_when_somebody_asks() {
    let before = desk(None);
    for number in 0..8 {
        before.say(&format!("question {number}")).await;
    }
    let resumed = desk(Some(&before));
    resumed.conversation.compact(None).await.unwrap();
    let fill = resumed.window().fill(&resumed.conversation.agent().context()).unwrap();
    assert_eq!(fill.compactions, 1, "{fill:?}");
    assert!(resumed.say("and now?").await.len() < 16);
}

#[tokio::test]
async fn a_compaction_can_be_taken_back_also_after_it_was_resumed() {
    let desk = desk(None);
    for number in 0..8 {
        desk.say(&format!("question {number}")).await;
    }
    desk.conversation.compact(Some("keep the numbers".into())).await.unwrap();
    let resumed = super::stored::desk(Some(&desk));
    resumed.say("first").await;
    let agent = resumed.conversation.agent();
    let causes = Arc::new(Mutex::new(Vec::new()));
    let seen = causes.clone();
    agent.bus().scope("test").on_sync(move |event: &PrefixBreak, _: &Cx| {
        seen.lock().unwrap().push(event.cause);
    });
    assert!(resumed.window().restore(&agent.context(), &agent.bus().cx()).await.unwrap());
    assert_eq!(resumed.say("whole again?").await, agent.history()[..agent.history().len() - 1]);
    assert_eq!(*causes.lock().unwrap(), [PrefixCause::Reduction], "it is known why it begins otherwise");
    assert!(!resumed.window().restore(&agent.context(), &agent.bus().cx()).await.unwrap(), "there was one");

    let log: Vec<_> =
        desk.log.0.lock().unwrap().iter().chain(&*resumed.log.0.lock().unwrap()).cloned().collect();
    let once_more =
        Desk { conversation: resumed.conversation, provider: resumed.provider, log: Arc::default() };
    once_more.log.0.lock().unwrap().extend(log);
    let sent = super::stored::desk(Some(&once_more)).say("and later?").await;
    assert_eq!(sent.len(), once_more.conversation.agent().history().len() + 1, "that is stored as well");
}

#[tokio::test]
async fn what_cannot_be_stored_is_not_taken_back_and_a_resume_agrees_with_what_is_sent() {
    let desk = desk(None);
    for number in 0..8 {
        desk.say(&format!("question {number}")).await;
    }
    // A plan that could not be stored is stored before the undo.
    desk.log.set_full(true);
    desk.conversation.compact(None).await.unwrap();
    let agent = desk.conversation.agent();
    let sent = desk.window().sent(&agent.context(), &agent.history());
    assert!(sent.is_some() && desk.log.0.lock().unwrap().is_empty());
    let refused = desk.window().restore(&agent.context(), &agent.bus().cx()).await;
    assert!(refused.unwrap_err().to_string().contains("no space left"));
    assert_eq!(desk.window().sent(&agent.context(), &agent.history()), sent, "as if nobody had asked");
    assert!(desk.log.0.lock().unwrap().is_empty());

    desk.log.set_full(false);
    assert!(desk.window().restore(&agent.context(), &agent.bus().cx()).await.unwrap());
    assert_eq!(desk.window().sent(&agent.context(), &agent.history()), None);
    let whats: Vec<_> = desk
        .log
        .0
        .lock()
        .unwrap()
        .iter()
        .map(|entry| entry.data.value()["what"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(whats, ["plan", "measured", "undo"]);
    assert_eq!(super::stored::desk(Some(&desk)).say("and later?").await.len(), 17);
}

#[tokio::test]
async fn what_was_counted_for_an_answer_that_broke_off_says_nothing_after_a_resume() {
    for stop in [StopReason::Aborted, StopReason::Error] {
        let bus = Bus::new();
        bus.install(&Window::default()).unwrap();
        let (context, model) = (Arc::new(ContextId::fresh()), ModelRef::new("p", "m"));
        let cx = bus.cx().with_service(context.clone());
        let answer = |stop, input| {
            let message = Message { stop: Some(stop), ..Message::assistant(vec![Block::text("well")]) };
            let usage = Usage { input, output: 10, ..Usage::default() };
            let usage = TurnUsage { turn_id: "t".into(), model: model.clone(), usage, cost: None };
            (message, Some(usage))
        };
        let stored = [
            (Message::user_text("go"), None),
            answer(StopReason::EndTurn, 5000),
            (Message::user_text("more"), None),
            answer(stop, 90),
        ];
        let entries = stored.map(|(message, usage)| {
            let kind =
                EntryKind::Message { message: message.identified().shared(), usage: usage.map(Box::new) };
            Entry { id: "e".into(), parent: None, time_ms: 0, kind }
        });
        let mut history = messages(&entries);
        history.push(Message::user_text("and now?").shared());
        cx.emit(SessionLoaded { session_id: None, entries: entries.to_vec().into() }).await.unwrap();
        let thinking = ThinkingLevel::Off;
        let (tools, missing_tools) = (Vec::new(), Vec::new());
        cx.emit(AgentStart { run_id: "r".into(), model, thinking, tools, missing_tools }).await.unwrap();
        let event = ContextTransform::new("t2".into(), history, Some(100_000));
        cx.emit(event).await.unwrap();
        let fill = bus.service::<dyn ContextWindow>().unwrap().fill(&context).unwrap();
        assert!((5010..5100).contains(&fill.estimate), "as the whole answer before was counted: {fill:?}");
    }
}

#[tokio::test]
async fn the_log_grows_by_the_same_with_each_of_fifty_compactions_and_a_resume_knows_the_last_one() {
    let desk = desk(None);
    let written = || -> usize {
        let entries = desk.log.0.lock().unwrap();
        entries.iter().map(|entry| entry.data.value().to_string().len()).sum()
    };
    let mut sizes = Vec::new();
    for number in 0..50 {
        for part in 0..4 {
            desk.say(&format!("question {number}.{part}")).await;
        }
        desk.conversation.compact(None).await.unwrap();
        sizes.push(written());
    }
    let grown: Vec<usize> = sizes.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let (early, late) = (grown[..20].iter().sum::<usize>(), grown[29..].iter().sum::<usize>());
    assert!(
        early > 0 && late <= early * 5 / 4,
        "the first twenty wrote {early} bytes, the last {late}: {grown:?}"
    );
    let agent = desk.conversation.agent();
    let before = desk.window().fill(&agent.context()).unwrap();
    assert!(before.compactions == 50 && before.last.is_some(), "{before:?}");
    let resumed = super::stored::desk(Some(&desk));
    resumed.say("and later?").await;
    let after = resumed.window().fill(&resumed.conversation.agent().context()).unwrap();
    assert_eq!((after.compactions, after.last), (before.compactions, before.last));
}
