//! A conversation of which only the part after its last compaction was read goes on as one that was read whole.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use zk_agent::{Agent, AgentConversation};
use zk_compaction::{Rolling, Shorten, Window, WindowOptions};
use zk_core::kernel::Bus;
use zk_core::model::{Block, Message, Model, Role, SessionId};
use zk_core::service::{
    CompactionMark, ContextWindow, Conversation, Entry, EntryKind, NewSession, Provider, SessionLog,
    SessionStore, StoredConversation,
};
use zk_session::{SqliteStore, load_history, resume_conversation};
use zk_testkit::{Script, ScriptedProvider, Turn};

/// Calls of the script for a prompt that requests them.
fn calls(prompt: &str) -> Option<Value> {
    let args = prompt.strip_prefix("recall ")?;
    serde_json::from_str(args).ok()
}

struct Desk {
    conversation: AgentConversation,
    provider: ScriptedProvider,
}

/// Conversation on a stored session, or a new one.
fn desk(stored: StoredConversation, strategy: &str) -> Desk {
    let bus = Bus::new();
    let options = WindowOptions { cooldown: 0, tokenizer: false, keep: 1_500, ..WindowOptions::default() };
    bus.install(&Window::with(options)).unwrap();
    if strategy == "rolling" {
        bus.install(&Rolling).unwrap();
    }
    bus.install(&Shorten).unwrap();
    let script = Script::answering(|asked| {
        let last = asked.messages.last().cloned();
        let prompt = last.filter(|last| last.results().next().is_none()).map(|last| last.text());
        match prompt.as_deref().and_then(calls) {
            Some(args) => Turn::new().call("conversation_recall", args),
            None => Turn::new().text(format!("{} {}", asked.messages.len(), "word ".repeat(60))),
        }
    });
    let provider = ScriptedProvider::new(script);
    let model = Model { window: Some(8_000), ..provider.model("m") };
    let builder = Agent::builder(Arc::new(provider.clone())).bus(bus).model(model).resume(stored);
    Desk { conversation: AgentConversation::new(builder.build().unwrap()), provider }
}

impl Desk {
    async fn say(&self, prompt: &str) -> Vec<Arc<Message>> {
        let run = self.conversation.run(prompt).await.unwrap();
        run.wait().await.result.unwrap();
        self.provider.asked().pop().unwrap().messages
    }

    /// Calls `conversation_recall` and returns the answer.
    async fn recall(&self, args: Value) -> String {
        let sent = self.say(&format!("recall {args}")).await;
        let results = sent.iter().rev().flat_map(|message| &message.content);
        let text = results.into_iter().find_map(|block| match block {
            Block::ToolResult(result) => Some(result.content.to_text()),
            _ => None,
        });
        text.unwrap()
    }
}

/// Texts without the parts that differ between runs.
fn texts(messages: &[Arc<Message>]) -> Vec<(Role, String)> {
    messages.iter().map(|message| (message.role, format!("{:?}", message.content))).collect()
}

async fn open(store: &SqliteStore, id: &SessionId) -> StoredConversation {
    resume_conversation(store.open(id).await.unwrap()).await.unwrap()
}

/// Two copies of a long conversation with several compactions, each read by its own store.
async fn pair(dir: &Path, strategy: &str) -> [(SqliteStore, SessionId); 2] {
    let whole = SqliteStore::new(dir.join("whole"));
    let new = NewSession { id: Some("s_1".into()), cwd: dir.to_owned(), parent: None };
    let session = whole.create(new).await.unwrap();
    {
        let desk = desk(resume_conversation(session.clone()).await.unwrap(), strategy);
        desk.say("Please begin.\nRemember: never push.").await;
        for number in 0..90 {
            desk.say(&format!("question {number} about {}", ["apples", "pears"][number % 2])).await;
        }
        desk.say("remember the number 7").await;
        for number in 90..150 {
            desk.say(&format!("question {number} about {}", ["apples", "pears"][number % 2])).await;
        }
        desk.conversation.compact(None).await.unwrap();
        desk.say("and now?").await;
        desk.conversation.agent().close().await;
        desk.conversation.agent().bus().close().await;
    }
    session.close().await.unwrap();
    let part = dir.join("part");
    for from in std::fs::read_dir(dir.join("whole")).unwrap().flatten() {
        let to = part.join(from.file_name());
        std::fs::create_dir_all(&to).unwrap();
        for file in std::fs::read_dir(from.path()).unwrap().flatten() {
            std::fs::copy(file.path(), to.join(file.file_name())).unwrap();
        }
    }
    [(whole, "s_1".into()), (SqliteStore::new(part).read_back(0), "s_1".into())]
}

#[tokio::test]
async fn what_is_sent_recalled_and_pinned_is_the_same() {
    for strategy in ["shorten", "rolling"] {
        let dir = tempfile::tempdir().unwrap();
        let mut seen = Vec::new();
        for (store, id) in pair(dir.path(), strategy).await {
            let stored = open(&store, &id).await;
            let read = stored.messages.len();
            let desk = desk(stored, strategy);
            let mut said = vec![texts(&desk.say("go on").await)];
            let mut recalled = Vec::new();
            for args in [
                json!({"action": "browse"}),
                json!({"action": "browse", "number": 25}),
                json!({"action": "browse", "number": 280}),
                json!({"action": "browse", "number": 9_999}),
                json!({"action": "search", "query": "question pears"}),
                json!({"action": "search", "query": "question 4 about"}),
                json!({"action": "search", "query": "nothing of the kind"}),
                json!({"action": "expand", "number": 1}),
                json!({"action": "expand", "number": 77}),
                json!({"action": "expand", "number": 300}),
            ] {
                recalled.push(desk.recall(args).await);
            }
            for number in 0..60 {
                said.push(texts(&desk.say(&format!("later question {number}")).await));
            }
            desk.conversation.compact(None).await.unwrap();
            let after = desk.say("what was to be remembered?").await;
            let all: String = after.iter().map(|message| message.text()).collect();
            for line in ["Remember: never push.", "remember the number 7"] {
                assert_eq!(all.matches(line).count(), 1, "{strategy}, {read}: {line}: {all}");
            }
            said.push(texts(&after));
            seen.push((read, said, recalled));
        }
        let [(whole, one, answers), (part, other, same_answers)] = seen.try_into().unwrap();
        assert!(part * 4 < whole, "{strategy}: {part} of {whole} messages were read");
        assert_eq!(answers, same_answers, "{strategy}");
        for (at, (one, other)) in one.iter().zip(&other).enumerate() {
            assert_eq!(one, other, "{strategy}: request {at}");
        }
    }
}

#[tokio::test]
async fn a_compaction_is_taken_back_once_the_conversation_is_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let [(whole, id), (part, _)] = pair(dir.path(), "shorten").await;
    let mut sent = Vec::new();
    for store in [whole, part] {
        let stored = open(&store, &id).await;
        let desk = desk(stored, "shorten");
        let (agent, bus) = (desk.conversation.agent(), desk.conversation.agent().bus().clone());
        let window = bus.service::<dyn ContextWindow>().unwrap();
        // The conversation is announced with its first run.
        desk.say("hello").await;
        let before = window.sent(&agent.context(), &agent.history()).unwrap();
        assert!(window.restore(&agent.context(), &bus.cx()).await.unwrap());
        let is_part = bus.service::<dyn SessionLog>().unwrap().earlier() > 0;
        let now = window.sent(&agent.context(), &agent.history()).unwrap();
        assert_eq!(is_part, texts(&now) == texts(&before), "what was not read cannot be sent yet");
        bus.close().await;
        drop(desk);
        let snapshot = store.read(&id).await.unwrap();
        let live = store.read_live(&id).await.unwrap();
        let messages = zk_session::load_live(&live).messages;
        sent.push(texts(&zk_compaction::sent_of(&live.entries, &messages)));
        let all = zk_compaction::sent_of(&snapshot.entries, &load_history(&snapshot.entries).messages);
        assert_eq!(sent.last(), Some(&texts(&all)), "as all entries say");
    }
    assert!(sent[0].len() > 10 && sent[0].len() == sent[1].len(), "{} {}", sent[0].len(), sent[1].len());
}

#[tokio::test]
async fn a_compaction_is_taken_back_once_until_the_conversation_is_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let [_, (store, id)] = pair(dir.path(), "shorten").await;
    let undone = async || {
        let entries = store.read(&id).await.unwrap().entries;
        let is_undo = |mark| mark == CompactionMark::Undo;
        let is_undo = |entry: &Entry| matches!(&entry.kind, EntryKind::Custom(custom) if CompactionMark::of(custom).is_some_and(is_undo));
        entries.iter().filter(|entry| is_undo(entry)).count()
    };
    let desk = desk(open(&store, &id).await, "shorten");
    let (agent, bus) = (desk.conversation.agent(), desk.conversation.agent().bus().clone());
    let window = bus.service::<dyn ContextWindow>().unwrap();
    desk.say("hello").await;
    for _ in 0..2 {
        assert!(window.restore(&agent.context(), &bus.cx()).await.unwrap());
        assert_eq!(undone().await, 1);
    }
    // A later compaction can be taken back.
    desk.conversation.compact(None).await.unwrap();
    assert!(window.restore(&agent.context(), &bus.cx()).await.unwrap());
    assert_eq!(undone().await, 2);
    bus.close().await;
}
