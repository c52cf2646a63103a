//! Work that a run does for a history it has sent before.

use std::sync::Arc;

use zk_agent::Agent;
use zk_core::model::{Block, Message, SessionId};
use zk_testkit::{Script, ScriptedProvider, Turn};

/// Messages of 20 KB each.
fn history(count: usize) -> Vec<Arc<Message>> {
    let text = |at: usize| vec![Block::text(format!("{at} {}", "word ".repeat(4000)))];
    let pair = |at| [Message::user(text(at)), Message::assistant(text(at))];
    (0..count / 2).flat_map(pair).map(Message::shared).collect()
}

/// Bytes allocated by a run that continues with `messages` old messages.
fn allocated(messages: usize) -> u64 {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let provider = ScriptedProvider::new(Script::answering(|_| Turn::new().text("done")));
    let builder = Agent::builder(Arc::new(provider)).history(history(messages)).session(SessionId::fresh());
    let agent = builder.build().unwrap();
    let run = || runtime.block_on(async { agent.run("go").unwrap().wait().await.result.unwrap() });
    run();
    allocation_counter::measure(run).bytes_total
}

#[test]
fn the_work_of_a_run_does_not_depend_on_the_bytes_of_the_history_before_it() {
    let (short, long) = (allocated(2), allocated(100));
    // The long one has 2 MB more. Lists of its messages may be made, its texts may not be touched.
    assert!(long < short + 200_000, "{short} bytes after 2 messages, {long} after 100");
}
