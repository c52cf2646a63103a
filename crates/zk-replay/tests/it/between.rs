//! Moves of the leaf between two prompts, with a summary of the branch that is left.

use std::sync::Arc;

use zk_agent::{Agent, AgentBuilder};
use zk_core::kernel::Bus;
use zk_core::model::{EntryId, Message};
use zk_core::service::{Durability, Entry, EntryKind, NewSession, OpenSession, SessionStore};
use zk_replay::{Recording, Replay, ReplayLog, compare};
use zk_session::{MemoryStore, Recorder};
use zk_testkit::{Script, ScriptedProvider, Turn};

use crate::support::model;

fn set_up(builder: AgentBuilder) -> AgentBuilder {
    builder.system("You are helpful.")
}

/// Agent that writes into a session and continues from its present branch.
async fn agent_on(session: &Arc<dyn OpenSession>) -> Agent {
    let entries = session.entries().await.unwrap();
    let history = entries.iter().filter_map(|entry| entry.kind.message()).cloned().collect();
    let script = Script::new()
        .forever(|asked| Turn::new().text(format!("Answer {}. {}", asked.number, "word ".repeat(300))));
    let provider = Arc::new(ScriptedProvider::new(script).with_model(model()));
    let bus = Bus::new();
    bus.install(&Recorder::new(session.clone())).unwrap();
    bus.install(&ReplayLog::new()).unwrap();
    let builder =
        Agent::builder(provider).bus(bus).session(session.id().clone()).history(history).unguarded();
    set_up(builder).build().unwrap()
}

async fn new_session() -> Arc<dyn OpenSession> {
    MemoryStore::new().create(NewSession { id: None, cwd: "/".into(), parent: None }).await.unwrap()
}

/// Fails unless a replay of the session has no difference. Returns its entries.
async fn check_replay(session: &dyn OpenSession) -> Vec<Entry> {
    let entries = session.entries().await.unwrap();
    let recording = Recording::of(&entries);
    assert!(recording.has_requests());
    let run = Replay::new(recording.clone()).agent(set_up).run().await.unwrap();
    let found: Vec<String> = compare(&recording, &run).iter().map(ToString::to_string).collect();
    assert!(found.is_empty(), "{found:#?}");
    entries
}

#[tokio::test(start_paused = true)]
async fn a_move_of_the_leaf_with_a_summary_is_no_difference() {
    for from_beginning in [false, true] {
        let session = new_session().await;
        let agent = agent_on(&session).await;
        agent.run("one").unwrap().wait().await;
        let end: Option<EntryId> = session.entries().await.unwrap().pop().map(|entry| entry.id);
        agent.run("two").unwrap().wait().await;
        agent.close().await;
        let left = session.entries().await.unwrap().pop().map(|entry| entry.id);
        let summary = Message::injected("The other branch tried `two`.", "branch").shared();
        let to = end.filter(|_| !from_beginning);
        let moved = vec![EntryKind::Leaf { to, left }, EntryKind::Message { message: summary, usage: None }];
        session.append(moved, Durability::Process).await.unwrap();
        let agent = agent_on(&session).await;
        agent.run("three").unwrap().wait().await;
        agent.close().await;
        let entries = check_replay(&*session).await;
        let runs = Recording::of(&entries).runs;
        assert_eq!(runs.len(), if from_beginning { 1 } else { 2 });
        let last = runs.last().unwrap();
        assert_eq!(last.opening.first().unwrap().text(), "The other branch tried `two`.");
        assert_eq!(last.prompt().unwrap().text(), "three");
    }
}
