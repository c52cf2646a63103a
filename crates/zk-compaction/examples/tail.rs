//! Old tool results leave the context before the model's window is full.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use zk_compaction::{Tail, Window};
use zk_core::events::ContextTransform;
use zk_core::kernel::Bus;
use zk_core::model::{Block, Message, ToolCall};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let bus = Bus::new();
    bus.install(&Window::default())?;
    bus.install(&Tail::default().threshold(1_000).keep_turns(1))?;
    let mut messages = vec![Message::user_text("look around").shared()];
    for id in ["a", "b", "c"] {
        let call = ToolCall::new(id, "shell", serde_json::json!({"command": "ls"}));
        messages.push(Message::assistant(vec![Block::ToolCall(call)]).shared());
        messages.push(Message::user(vec![Block::result(id, "line\n".repeat(100), false)]).shared());
    }
    let event = ContextTransform::new("t1".into(), messages, None);
    let sent = bus.cx().emit(event).await?.messages;
    assert!(serde_json::to_string(&sent)?.len() < 1_500);
    println!("{} messages, {} bytes", sent.len(), serde_json::to_string(&sent)?.len());
    Ok(())
}
