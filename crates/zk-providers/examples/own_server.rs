//! Describes a server that deviates from Chat Completions, as data:
//! `cargo run -p zk-harness-providers --example own_server`.

use futures_util::StreamExt;
use zk_core::kernel::Bus;
use zk_core::model::{Message, WireReady};
use zk_core::service::{Provider, Request};
use zk_providers::{Compat, CompatProfile, Connection, ReasoningEcho};
use zk_testkit::{FakeServer, Script};

/// A server that names its output limit differently, and wants its reasoning sent back.
fn profile() -> CompatProfile {
    CompatProfile {
        name: "lab".into(),
        max_tokens_field: "max_completion_tokens".into(),
        echo: ReasoningEcho::In("reasoning_content".into()),
        ..CompatProfile::default()
    }
}

#[tokio::main(flavor = "current_thread")]
#[expect(clippy::print_stdout, reason = "an example shows what was sent")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let fake = FakeServer::start(Script::new().turn(|turn| turn.text("Hello.")))?;
    let provider = Compat::new(Connection::at(fake.openai_url()).named("lab"), profile())?;
    let model = provider.model("lab-1");
    let history = WireReady::normalise(&[Message::user_text("Hi.").shared()], &provider.rules(&model));
    let mut answer = provider.stream(Request::new(model, history), &Bus::new().cx());
    while let Some(event) = answer.next().await {
        event?;
    }
    for body in fake.bodies() {
        println!("{body:#}");
    }
    Ok(())
}
